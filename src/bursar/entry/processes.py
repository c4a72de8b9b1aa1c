"""The composition roots by name. Each is imported only when its process is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


class ComposedProcesses:
    """`Processes`, built from real parts."""

    def counting(self, settings: CountingSettings) -> Counting:
        from bursar.entry.counting import open_counting  # noqa: PLC0415

        return open_counting(settings)

    def controller(self, settings: ControllerProcess) -> None:
        from bursar.entry.controller import run_controller  # noqa: PLC0415

        run_controller(settings)

    def webhook(self, settings: WebhookProcess) -> None:
        from bursar.entry.webhook import run_webhook  # noqa: PLC0415

        run_webhook(settings)

    def operator(self, settings: OperatorProcess) -> None:
        from bursar.entry.operator import run_operator  # noqa: PLC0415

        run_operator(settings)

    def extender(self, settings: ExtenderProcess) -> None:
        from bursar.entry.extender import run_extender  # noqa: PLC0415

        run_extender(settings)

    def agent(self, settings: AgentSettings) -> None:
        from bursar.entry.agent import run_agent  # noqa: PLC0415

        run_agent(settings)

    def up(
        self, settings: UpSettings, show: Callable[[Overview], None], stop: Stop | None = None
    ) -> Overview:
        from bursar.entry.up.run import run_up  # noqa: PLC0415

        return run_up(settings, show, stop)
