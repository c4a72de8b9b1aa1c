"""The processes that verbs start, and the counters of views, as `cli` sees them.

`entry` implements this protocol and gives it to click as the object of the context. So the
options of a process do not know how the process is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # At run time each verb imports only its own: an agent pays for what it imports on every node.
    from collections.abc import Callable

    from bursar.app.counting.feeds import Counting
    from bursar.app.counting.settings import CountingSettings
    from bursar.app.reports.overview import Overview
    from bursar.cli.pools.extender import ExtenderProcess
    from bursar.cli.processes.controller import ControllerProcess
    from bursar.cli.processes.operator import OperatorProcess
    from bursar.cli.processes.options.agent import AgentSettings
    from bursar.cli.processes.up import UpSettings
    from bursar.cli.processes.webhook import WebhookProcess
    from bursar.cli.up.stop import Stop


class Processes(Protocol):
    """Starting a process returns when it was told to end. Raises `BadInputError`."""

    def counting(self, settings: CountingSettings) -> Counting:
        """Counters that know nothing yet, the same as those of a controller."""
        ...

    def controller(self, settings: ControllerProcess) -> None: ...

    def webhook(self, settings: WebhookProcess) -> None: ...

    def operator(self, settings: OperatorProcess) -> None: ...

    def extender(self, settings: ExtenderProcess) -> None: ...

    def agent(self, settings: AgentSettings) -> None: ...

    def up(
        self, settings: UpSettings, show: Callable[[Overview], None], stop: Stop | None = None
    ) -> Overview:
        """Call `show` with the state of the cluster again and again; return the last state.

        Without `stop`, SIGTERM and SIGINT end it; they need the main thread.
        """
        ...
