"""Statuses of quotas: what the books say, written where people look for it.

The status is never added to, only stated: whatever was lost, doubled or overwritten on
the way, the next look finds that what is shown is not what is true, and writes it. The
write names the quota by uid, so that one made anew under the same name does not get the
numbers of the old one, and replaces the status whole, so that nothing stays behind in it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.ports import (
    Clock,
    Json,
    Patch,
    PatchKind,
    Writer,
)
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.status_document import (
    conditions_in,
    fenced,
    shown_status,
    wanted_conditions,
    wanted_status,
)
from bursar.app.quota.upkeep import Upkeep
from bursar.core.quota.coverage import Coverage, CoveredQuota
from bursar.core.quota.quota import QuotaKey, QuotaKind
from bursar.core.quota.reported import QuotaObject
from bursar.core.quota.statement import Statement, statement_of, used_in

STATUS_SECONDS: Final = 0.5
"""The status of one quota is written no more often than this."""
MANAGED_SUFFIX: Final = "-non-schedulable-resources-managed-rq-x"
"""AAQ's, on the name of the ResourceQuota that counts what pods cannot wait for."""

FindQuota = Callable[[QuotaKey], Sighting[QuotaObject] | None]
"""What an informer holds of a quota of any kind."""


def managed_key(key: QuotaKey) -> QuotaKey:
    """The ResourceQuota that is kept on behalf of a quota of one namespace."""
    return QuotaKey(QuotaKind.NATIVE, key.namespace, key.name + MANAGED_SUFFIX)


def keeper_key(key: QuotaKey) -> QuotaKey | None:
    """The quota on whose behalf a ResourceQuota is kept; None if it is not one of those."""
    name = key.name.removesuffix(MANAGED_SUFFIX)
    if key.kind is not QuotaKind.NATIVE or name in {key.name, ""}:
        return None
    return QuotaKey(QuotaKind.NAMESPACED, key.namespace, name)


class _Written(NamedTuple):
    """A status we wrote, and which state of the quota it was written over."""

    over: str
    status: dict[str, Json]


@dataclass(eq=False, kw_only=True)
class StatusWriter:
    """Keeps the statuses of AAQ's two kinds equal to the books. `run` it once."""

    writer: Writer
    clock: Clock
    random: Random
    coverage: Coverage
    find: FindQuota
    may_write: Callable[[], bool]
    """Whether we lead, and the books are complete."""
    interval_s: float = STATUS_SECONDS

    def __post_init__(self) -> None:
        self._written: dict[QuotaKey, _Written] = {}
        self.upkeep = Upkeep(
            self._look,
            self.clock,
            random=self.random,
            may_write=self.may_write,
            interval_s=self.interval_s,
        )

    def mark(self, keys: Iterable[QuotaKey]) -> None:
        """The books have changed for these."""
        self.upkeep.mark(key for key in keys if key.kind is not QuotaKind.NATIVE)

    def observe(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind is new or has changed, be it only its status."""
        key = seen.item.quota.key
        keeper = keeper_key(key)
        self.mark([key if keeper is None else keeper])

    def lose(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind is gone."""
        self._written.pop(seen.item.quota.key, None)
        self.observe(seen)

    async def run(self) -> None:
        """Write until cancelled."""
        await self.upkeep.run()

    async def _look(self, key: QuotaKey) -> bool:
        covered, seen = self.coverage.quota(key), self.find(key)
        if covered is None or seen is None or covered.quota != seen.item.quota:
            # One of the two is behind. We are called again when it has caught up.
            return False
        shown = self._shown(key, seen)
        statement = self._statement(covered)
        conditions = wanted_conditions(
            statement,
            order_problem=seen.item.order_problem,
            generation=seen.item.generation,
            before=conditions_in(shown),
            now=self.clock.now(),
        )
        wanted = wanted_status(key.kind, statement, conditions)
        if wanted == shown:
            return False
        await self._write(key, seen.identity, wanted)
        self._written[key] = _Written(seen.identity.resource_version, wanted)
        return True

    def _statement(self, covered: CoveredQuota) -> Statement:
        quota = covered.quota
        if quota.key.kind is QuotaKind.CLUSTER:
            return statement_of(covered)
        managed = self.find(managed_key(quota.key))
        return statement_of(covered, used_in(None if managed is None else managed.item, quota))

    def _shown(self, key: QuotaKey, seen: Sighting[QuotaObject]) -> dict[str, Json]:
        """What is stored now, as far as we know: what we wrote, until something newer is seen."""
        written = self._written.get(key)
        if written is not None and written.over == seen.identity.resource_version:
            return written.status
        return shown_status(seen.item)

    async def _write(self, key: QuotaKey, identity: Identity, status: dict[str, Json]) -> None:
        body = fenced(identity, [{"op": "add", "path": "/status", "value": status}])
        await self.writer.patch(
            QUOTAS[key.kind],
            identity.key,
            Patch(kind=PatchKind.JSON, body=body),
            subresource="status",
        )
