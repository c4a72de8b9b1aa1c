"""Deleted quotas, which stay in force for a while.

`kubectl replace --force` deletes a quota and creates it again. If the limits ended with the first
step, the whole queue would be released before the second. So a quota stays in force for a grace
period after its deletion. A new quota of the same name takes its place at once.

If a CustomResourceDefinition is deleted, the API server deletes all its objects first. That is no
decision about quotas either: as long as the API server does not serve the kind, its quotas stay in
force. When it serves the kind again, the grace period begins anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.ports import Clock, ClusterError, NotFoundError
from bursar.app.cluster.time_limit import wait_at_most
from bursar.app.log import Log
from bursar.app.quota.kinds import QUOTAS
from bursar.core.quota.quota import QuotaKey, QuotaKind, QuotaObject

LOG: Final = Log("quota")
GRACE_SECONDS: Final = 10.0
"""How long a deleted quota stays in force."""
RETRY_SECONDS: Final = 1.0
"""Pause after the API server could not be asked whether it serves a kind."""

IsServed = Callable[[QuotaKind], Awaitable[bool]]
"""Asks the API server whether it serves a kind. Raises `ClusterError`."""


def served_by(informers: Iterable[Informer[Sighting[QuotaObject]]]) -> IsServed:
    """Ask with a list of one object, through the reader of the informer of the kind."""
    by_resource = {informer.resource: informer.reader for informer in informers}

    async def is_served(kind: QuotaKind) -> bool:
        resource = QUOTAS[kind]
        try:
            await by_resource[resource].list(resource, limit=1)
        except NotFoundError:
            return False
        return True

    return is_served


class DepartedQuotas:
    """Deleted quotas that are still in force. Run it beside the quota loop."""

    def __init__(
        self,
        clock: Clock,
        is_served: IsServed,
        drop: Callable[[QuotaKey], None],
        grace_s: float = GRACE_SECONDS,
    ) -> None:
        """`drop` is called with a quota when it is not in force any more."""
        self._clock, self._is_served, self._drop, self._grace_s = clock, is_served, drop, grace_s
        self._due: dict[QuotaKey, float] = {}
        self._has_new = asyncio.Event()
        self.missing: Final[set[QuotaKind]] = set()
        """Kinds that the API server did not serve when it was last asked."""

    def __len__(self) -> int:
        return len(self._due)

    def on_delete(self, key: QuotaKey) -> None:
        """A quota was deleted."""
        if self._grace_s <= 0:
            self._drop(key)
            return
        self._postpone(key)
        self._has_new.set()
        LOG.info("a quota was deleted; it stays in force for a while", quota=key)

    def on_change(self, key: QuotaKey) -> None:
        """A quota was created or changed."""
        self._due.pop(key, None)

    def _postpone(self, key: QuotaKey) -> None:
        self._due[key] = self._clock.monotonic() + self._grace_s

    async def run(self) -> None:
        """End quotas whose grace period is over, until cancelled."""
        while True:
            self._has_new.clear()
            await wait_at_most(self._clock, self._pause_s(), self._has_new)
            due = self._overdue()
            for kind in {key.kind for key in due}:
                await self._expire(kind)

    def _pause_s(self) -> float | None:
        first = min(self._due.values(), default=None)
        return None if first is None else max(0.0, first - self._clock.monotonic())

    def _overdue(self) -> list[QuotaKey]:
        now = self._clock.monotonic()
        return [key for key, due in self._due.items() if due <= now]

    async def _expire(self, kind: QuotaKind) -> None:
        try:
            is_served = await self._is_served(kind)
        except ClusterError as error:
            LOG.warning("cannot ask whether a kind is served; its quotas stay", error=error)
            await self._clock.sleep(RETRY_SECONDS)
            return
        if is_served and kind not in self.missing:
            for key in self._overdue():
                if key.kind is kind:
                    del self._due[key]
                    self._drop(key)
            return
        if is_served:
            self.missing.discard(kind)
            LOG.info("the API server serves the kind again", resource=QUOTAS[kind])
        else:
            self.missing.add(kind)
            LOG.error(
                "the API server does not serve the kind any more; its quotas stay in force",
                resource=QUOTAS[kind],
                quotas=sum(key.kind is kind for key in self._due),
            )
        for key in [key for key in self._due if key.kind is kind]:
            self._postpone(key)
