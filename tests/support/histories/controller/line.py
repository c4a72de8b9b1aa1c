"""The connection of a controller to its cluster, on which answers are late, lost or refused."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from random import Random
from typing import Any

from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    ForbiddenError,
    Key,
    Page,
    Query,
    Resource,
    UnavailableError,
    WatchEvent,
)
from support.faults.line import Line, Request

LATE_S = (0.05, 0.4, 3.0, 12.0)
STALL_S_MAX = 8.0
"""How long a watch shows nothing."""
FUTURE_VERSIONS = 10**6


class UnreliableLine(Line):
    """Reader, Writer and Watcher of one controller."""

    def __init__(self, cluster: Any, clock: Clock, random: Random) -> None:
        super().__init__(cluster)
        self._clock, self._random = clock, random
        self.is_calm = False
        self.on_released: Callable[[Key], None] = lambda _: None
        """Called when the gate of a pod has been removed."""

    def chance(self, probability: float) -> bool:
        return not self.is_calm and self._random.random() < probability

    async def pass_on(self, request: Request) -> Any:
        # Leaders change often enough: nothing else would happen if each Lease were lost.
        trouble = 0.1 if request.resource == LEASES else 1
        if self.chance(0.1 * trouble):
            await self._clock.sleep(self._random.choice(LATE_S))
        if self.chance(0.04 * trouble):
            raise UnavailableError("no answer")
        is_write = request.verb in {"patch", "create", "delete"}
        if is_write and request.resource != LEASES and self.chance(0.03):
            raise ForbiddenError("a webhook denied the request", code=403)
        answer = await request.send()
        if request.verb == "patch" and request.resource == PODS:
            self.on_released(request.key)
        if self.chance((0.25 if is_write else 0.1) * trouble):
            await self._clock.sleep(self._random.choice(LATE_S))
        if self.chance(0.04 * trouble):
            raise UnavailableError("the answer was lost")
        return answer

    async def list(self, resource: Resource, query: Query = EVERYTHING, **options: Any) -> Page:
        page = await super().list(resource, query, **options)
        if options.get("limit") == 1 and resource == PODS and self.chance(0.3):
            # The newest version of an etcd that is then restored from a backup.
            version = str(int(page.resource_version) + FUTURE_VERSIONS)
            return Page(items=page.items, resource_version=version)
        return page

    async def watch(
        self, resource: Resource, query: Query = EVERYTHING, **options: Any
    ) -> AsyncIterator[WatchEvent]:
        """Events come in order. Now and then a watch stalls or breaks."""
        stalled_until = 0.0
        async with aclosing(super().watch(resource, query, **options)) as events:
            async for event in events:
                now = self._clock.monotonic()
                if stalled_until <= now and self.chance(0.1):
                    stalled_until = now + self._random.random() * STALL_S_MAX
                if stalled_until > now:
                    await self._clock.sleep(stalled_until - now)
                if self.chance(0.01):
                    raise UnavailableError("the watch broke")
                yield event
