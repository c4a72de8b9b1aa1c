"""Deleted quotas, which stay in force for a while.

`kubectl replace --force` deletes a quota and creates it again. If the limits ended with the first
step, the whole queue would be released before the second. So a quota stays in force for a grace
period after its deletion. A new quota of the same name takes its place at once.

When the grace period is over, the API server is asked for the quota: an informer that backs off
after failures may not have seen yet that the quota was created again.

If a CustomResourceDefinition is deleted, the API server deletes all its objects first. That is no
decision about quotas either: as long as the API server does not serve the kind, or is about to end
that, its quotas stay in force. When it serves the kind again, people have some minutes to create
the quotas again. The API server is also asked as soon as a quota is deleted, because a definition
that is replaced may be back before the grace period is over.

A definition that a finalizer of another program holds after its objects are gone cannot be told
from an ordinary one: the API server offers `create` for it again.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Discoverer,
    ForbiddenError,
    Key,
    NotFoundError,
    Query,
    Reader,
    Resource,
)
from bursar.app.cluster.time_limit import wait_at_most
from bursar.app.log import Log
from bursar.app.quota.kinds import QUOTAS
from bursar.core.quota.quota import QuotaKey, QuotaKind

LOG: Final = Log("quota")
GRACE_SECONDS: Final = 10.0
"""How long a deleted quota stays in force."""
RESTORE_SECONDS: Final = 300.0
"""How long quotas stay in force after the API server serves their kind again."""
RETRY_SECONDS: Final = 1.0
"""Pause after the API server could not be asked for a quota."""

TURN: Final = 32
"""Quotas of one namespace that the API server is asked for before those of others."""

Exists = Callable[[QuotaKey], Awaitable[bool]]
"""Asks the API server whether it has a quota.

Raises `NotFoundError` if it does not serve the kind, or is about to end that, and other
`ClusterError`s.
"""


class Cluster(Reader, Discoverer, Protocol):
    """A cluster that can be asked for quotas."""


async def exists_in(cluster: Cluster, key: QuotaKey) -> bool:
    """An `Exists`.

    It lists by name, because reading one object gives `NotFoundError` in both cases: without the
    quota, and without its kind. Without `create`, the definition of the kind is being deleted, and
    the API server deletes the quotas with it.
    """
    resource = QUOTAS[key.kind]
    query = Query.of(Key(key.namespace, key.name))
    page = await cluster.list(resource, query, limit=1)
    if not page.items and not await _offers_create(cluster, resource):
        raise NotFoundError("the definition is being deleted", resource=str(resource))
    return bool(page.items)


async def _offers_create(cluster: Discoverer, resource: Resource) -> bool:
    try:
        return "create" in await cluster.verbs(resource)
    except ForbiddenError:
        # Every service account may discover the API, unless an administrator took that right away.
        return True


class DepartedQuotas:
    """Deleted quotas that are still in force. Run it beside the quota loop."""

    def __init__(
        self,
        clock: Clock,
        exists: Exists,
        drop: Callable[[QuotaKey], None],
        grace_s: float = GRACE_SECONDS,
    ) -> None:
        """`drop` is called with a quota when it is not in force any more."""
        self._clock, self._exists, self._drop, self._grace_s = clock, exists, drop, grace_s
        self._due: dict[QuotaKey, float] = {}
        self._new: dict[QuotaKind, QuotaKey] = {}
        """A quota of each kind of which quotas were deleted since the API server was asked."""
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
        self._keep(key, self._grace_s)
        self._new[key.kind] = key
        self._has_new.set()
        LOG.info("a quota was deleted; it stays in force for a while", quota=key)

    def on_change(self, key: QuotaKey) -> None:
        """A quota was created or changed."""
        was_due = self._due.pop(key, None) is not None
        if was_due and key.kind in self.missing and not self._has_due(key.kind):
            self._on_served_again(key.kind)

    def _has_due(self, kind: QuotaKind) -> bool:
        return any(key.kind is kind for key in self._due)

    def _keep(self, key: QuotaKey, seconds: float) -> None:
        self._due[key] = self._clock.monotonic() + seconds

    async def run(self) -> None:
        """End quotas whose grace period is over, until cancelled."""
        while True:
            self._has_new.clear()
            await wait_at_most(self._clock, self._pause_s(), self._has_new)
            while self._new:
                kind, key = self._new.popitem()
                if kind not in self.missing:
                    await self._ask(key)
            for key in self._next_overdue():
                # Meanwhile it may have been created again, or postponed with others of its kind.
                if self._is_overdue(key):
                    await self._expire(key)

    def _pause_s(self) -> float | None:
        first = min(self._due.values(), default=None)
        return None if first is None else max(0.0, first - self._clock.monotonic())

    def _next_overdue(self) -> list[QuotaKey]:
        """Some overdue quotas of each namespace: a tenant can delete thousands at once."""
        found: dict[str, list[QuotaKey]] = {}
        for key in filter(self._is_overdue, self._due):
            of_namespace = found.setdefault(key.namespace, [])
            if len(of_namespace) < TURN:
                of_namespace.append(key)
        return [key for keys in found.values() for key in keys]

    def _is_overdue(self, key: QuotaKey) -> bool:
        return self._due.get(key, math.inf) <= self._clock.monotonic()

    async def _ask(self, key: QuotaKey) -> bool | None:
        """Whether the API server has the quota; None if it gave no clear answer."""
        try:
            return await self._exists(key)
        except NotFoundError:
            self._on_missing(key.kind)
        except ClusterError as error:
            LOG.warning("cannot ask whether a quota exists; it stays in force", error=error)
            await self._clock.sleep(RETRY_SECONDS)
        return None

    async def _expire(self, key: QuotaKey) -> None:
        exists = await self._ask(key)
        if exists is None:
            return
        if key.kind in self.missing:
            self._on_served_again(key.kind)
        elif not self._is_overdue(key):
            return  # Meanwhile it was created again, and perhaps deleted again.
        elif exists:
            # The quota exists again. It stays in force until the informer shows it.
            self._keep(key, self._grace_s)
        else:
            del self._due[key]
            self._drop(key)

    def _on_missing(self, kind: QuotaKind) -> None:
        self.missing.add(kind)
        LOG.error(
            "the API server does not serve the kind any more; its quotas stay in force",
            resource=QUOTAS[kind],
            quotas=sum(key.kind is kind for key in self._due),
        )
        self._keep_all(kind, self._grace_s)

    def _on_served_again(self, kind: QuotaKind) -> None:
        self.missing.discard(kind)
        LOG.info("the API server serves the kind again", resource=QUOTAS[kind])
        self._keep_all(kind, max(self._grace_s, RESTORE_SECONDS))

    def _keep_all(self, kind: QuotaKind, seconds: float) -> None:
        for key in [key for key in self._due if key.kind is kind]:
            self._keep(key, seconds)
