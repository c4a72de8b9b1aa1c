"""`bursar agent`: the options of the process that answers kubelet's PodResources API."""

from typing import Final

import click

from bursar.cli.errors.exit_codes import OK
from bursar.cli.processes.options.agent import agent_options, settings_from
from bursar.cli.processes.processes import Processes
from bursar.cli.verbs import Verbs

QUOTA_CHECK: Final = "quota-check"


@click.group(
    cls=Verbs,
    lazy={QUOTA_CHECK: "bursar.cli.storage.quota_check:quota_check"},  # it prints tables
    short_help="Serve kubelet's PodResources API with all devices of a node's pods.",
    invoke_without_command=True,
    subcommand_metavar=f"[{QUOTA_CHECK}]",
)
@agent_options
@click.pass_obj
@click.pass_context
def agent(context: click.Context, processes: Processes, /, **chosen: object) -> int:
    """Serve kubelet's PodResources API on a socket of its own, until SIGTERM or Ctrl-C.

    The agent passes on kubelet's answers, and adds the devices that other
    components gave to pods and recorded in annotations of the pods. It starts and
    answers whether or not kubelet and the API server run.

    With --disk, the agent also accounts for the local ephemeral storage of
    pods, and reports which pods kubelet will evict, why and how soon.
    """
    if context.invoked_subcommand is None:
        processes.agent(settings_from(chosen))
    return OK
