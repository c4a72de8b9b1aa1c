"""`bursar agent`: the options of the process that answers kubelet's PodResources API."""

import click

from bursar.cli.exit_codes import OK
from bursar.cli.processes.agent_options import agent_options, settings_from
from bursar.cli.processes.processes import Processes


@click.command(short_help="Serve kubelet's PodResources API with all devices of a node's pods.")
@agent_options
@click.pass_obj
def agent(processes: Processes, /, **chosen: object) -> int:
    """Serve kubelet's PodResources API on a socket of its own, until SIGTERM or Ctrl-C.

    Answers are kubelet's, with the devices added that other components gave to
    pods and wrote on them as annotations. The agent starts and answers whether
    or not kubelet and the API server do.
    """
    processes.agent(settings_from(chosen))
    return OK
