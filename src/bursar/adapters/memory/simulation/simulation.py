"""Runs all parts of the simulation and restarts a part that fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Self

from bursar.adapters.memory.simulation.cluster import Cluster
from bursar.adapters.memory.simulation.events import EventExpiry
from bursar.adapters.memory.simulation.nodes import Nodes
from bursar.adapters.memory.simulation.pod_lifecycle import Pace
from bursar.adapters.memory.simulation.quota_status import QuotaStatus
from bursar.adapters.memory.simulation.scheduler import Scheduler
from bursar.adapters.memory.simulation.workloads.workloads import Workloads
from bursar.app.cluster.ports import Clock
from bursar.app.cluster.time_limit import end

BACKOFF_SECONDS_MIN: Final = 0.5
BACKOFF_SECONDS_MAX: Final = 30.0
CALM_SECONDS: Final = 60.0
"""A part that ran this long before it failed restarts with the shortest back-off."""

_log: Final = logging.getLogger(__name__)

Report = Callable[[str, Exception], None]


def _to_log(part: str, error: Exception) -> None:
    _log.error("%s failed and starts again", part, exc_info=error)


class Simulation:
    """A context manager. The parts run while it is open."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        *,
        pace: Pace | None = None,
        report: Report = _to_log,
    ) -> None:
        given = pace or Pace()
        self._parts: dict[str, Callable[[], Awaitable[None]]] = {
            "workloads": lambda: Workloads(cluster, clock).run(),
            "scheduler": lambda: Scheduler(cluster, clock).run(),
            "nodes": lambda: Nodes(cluster, clock, given).run(),
            "quotas": lambda: QuotaStatus(cluster, clock).run(),
            "events": lambda: EventExpiry(cluster, clock).run(),
        }
        self._clock = clock
        self._report = report
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._keep_alive(name, part), name=name)
            for name, part in self._parts.items()
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(*self._tasks)

    async def _keep_alive(self, name: str, part: Callable[[], Awaitable[None]]) -> None:
        backoff = BACKOFF_SECONDS_MIN
        while True:
            began = self._clock.monotonic()
            try:
                await part()
            except Exception as error:  # noqa: BLE001 - a failed part is restarted
                self._report(name, error)
            if self._clock.monotonic() - began >= CALM_SECONDS:
                backoff = BACKOFF_SECONDS_MIN
            await self._clock.sleep(backoff)
            backoff = min(2 * backoff, BACKOFF_SECONDS_MAX)
