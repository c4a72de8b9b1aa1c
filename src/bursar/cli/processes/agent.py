"""`bursar agent`: the options of the process that answers kubelet's PodResources API."""

from typing import cast

import click

from bursar.cli.exit_codes import OK
from bursar.cli.processes.agent_options import agent_options, settings_from
from bursar.cli.processes.processes import Processes
from bursar.cli.storage.quota_check import quota_check


@click.group(
    short_help="Serve kubelet's PodResources API with all devices of a node's pods.",
    invoke_without_command=True,
    subcommand_metavar="[quota-check]",
)
@agent_options
@click.pass_context
def agent(context: click.Context, /, **chosen: object) -> int:
    """Serve kubelet's PodResources API on a socket of its own, until SIGTERM or Ctrl-C.

    Answers are kubelet's, with the devices added that other components gave to
    pods and wrote on them as annotations. The agent starts and answers whether
    or not kubelet and the API server do.

    With --disk, the agent also accounts for the local ephemeral storage of
    pods, and reports what kubelet evicts for it, why and how soon.
    """
    if context.invoked_subcommand is None:
        processes = context.find_object(object)
        assert processes is not None
        cast("Processes", processes).agent(settings_from(chosen))
    return OK


agent.add_command(quota_check)
