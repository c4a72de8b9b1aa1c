"""The status of quotas: the books' limits and usage, written to AAQ's two kinds.

The status is computed from the books and replaces the stored one whole. A write that was
lost, repeated or overwritten is found at the next reconcile, because the stored status then
differs from the books. The patch is fenced by uid, so that a quota created again under the
same name does not get the numbers of the deleted one.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Json
from bursar.app.cluster.reconcile import PendingWrites, ReconcileContext, Reconciler
from bursar.app.counting.feeds import LeftOut
from bursar.app.counting.uncounted import uncounted_names, uncounted_text
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.status_document import (
    READY,
    QuotaProblems,
    conditions_in,
    shown_status,
    wanted_conditions,
    wanted_status,
)
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Coverage, CoveredQuota
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.statement import Statement, statement_of, used_in

STATUS_SECONDS: Final = 0.5
"""Shortest time between two writes of the status of one quota."""
MANAGED_SUFFIX: Final = "-non-schedulable-resources-managed-rq-x"
"""AAQ's suffix on the name of the ResourceQuota that it manages for a quota."""

FindQuota = Callable[[QuotaKey], Sighting[QuotaObject] | None]
"""Looks up a quota of any kind in the informers."""


def managed_key(key: QuotaKey) -> QuotaKey:
    """The ResourceQuota that is managed for a quota of one namespace."""
    return QuotaKey(QuotaKind.NATIVE, key.namespace, key.name + MANAGED_SUFFIX)


def owner_key(key: QuotaKey) -> QuotaKey | None:
    """The quota that a managed ResourceQuota belongs to; None for any other quota."""
    name = key.name.removesuffix(MANAGED_SUFFIX)
    if key.kind is not QuotaKind.NATIVE or name in {key.name, ""}:
        return None
    return QuotaKey(QuotaKind.NAMESPACED, key.namespace, name)


@dataclass(eq=False, kw_only=True)
class StatusWriter:
    """Writes the status of AAQ's two kinds of quota while its `reconciler` runs."""

    context: ReconcileContext
    coverage: Coverage
    find: FindQuota
    may_charge: Callable[[str], bool] = NativeCounter().may_charge
    """Whether any pod can be charged under a name."""
    record_uncounted: Callable[[Quota, str], None] = lambda _quota, _message: None
    """Called when the names change that no counter charges; not if there are none."""
    left_out: LeftOut = dict
    """Why pods are counted without an answer that their counter needs, by namespace."""
    record_left_out: Callable[[Quota, str], None] = lambda _quota, _message: None
    """Called when pods under a quota begin to be counted without a sidecar."""
    interval_s: float = STATUS_SECONDS

    def __post_init__(self) -> None:
        self._pending = PendingWrites[dict[str, Json]]()
        self.reconciler = Reconciler(
            "status of quotas", self._reconcile, self.context, self.interval_s
        )
        self._told: dict[QuotaKey, str] = {}
        """By quota: the names that no counter charged when the status was last written."""
        self._charged: dict[str, bool] = {}
        """By name: whether a counter charged it at the last `recheck`."""
        self._left_out: Mapping[str, str] = {}
        """What `left_out` returned at the last `recheck`."""
        self._told_left_out: dict[QuotaKey, str] = {}
        """By quota: why pods were counted without a sidecar when the status was last written."""

    def recheck(self) -> set[QuotaKey]:
        """The quotas whose pods are counted in another way since the last call.

        A counter charges one of their names now, or no longer, or counts pods without a sidecar
        now, or no longer.
        """
        before, self._left_out = self._left_out, self.left_out()
        changed = {name for name, _ in before.items() ^ self._left_out.items()}
        return self._recheck_names() | {
            covered.quota.key
            for covered in self.coverage.quotas()
            if not changed.isdisjoint(_namespaces(covered))
        }

    def _recheck_names(self) -> set[QuotaKey]:
        names = {name for covered in self.coverage.quotas() for name in covered.quota.hard}
        before, self._charged = self._charged, {name: self.may_charge(name) for name in names}
        changed = {name for name, each in self._charged.items() if before.get(name) is not each}
        return {
            covered.quota.key
            for covered in self.coverage.quotas()
            if not changed.isdisjoint(covered.quota.hard)
        }

    def enqueue(self, keys: Iterable[QuotaKey]) -> None:
        """The books have changed for these quotas."""
        self.reconciler.enqueue(key for key in keys if key.kind is not QuotaKind.NATIVE)

    def on_change(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind was created or changed; its status counts as a change."""
        key = seen.item.quota.key
        self.enqueue([owner_key(key) or key])

    def on_delete(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind was deleted."""
        if seen.item.quota.key.kind is not QuotaKind.NATIVE:
            self._pending.forget(seen.identity.key)
            self._told.pop(seen.item.quota.key, None)
            self._told_left_out.pop(seen.item.quota.key, None)
        self.on_change(seen)

    async def _reconcile(self, key: QuotaKey) -> bool:
        covered, seen = self.coverage.quota(key), self.find(key)
        if covered is None or seen is None or covered.quota != seen.item.quota:
            # The books or the informer are behind. The key is queued again when they catch up.
            return False
        stored = self._pending.find(seen.identity) or shown_status(seen.item)
        statement = self._statement(covered)
        uncounted = uncounted_text(uncounted_names(covered.quota.hard, self.may_charge))
        left_out = self._left_out_text(covered)
        conditions = wanted_conditions(
            statement,
            QuotaProblems(uncounted, left_out, seen.item.order_problem),
            generation=seen.item.generation,
            before=conditions_in(stored),
            now=self.context.clock.now(),
        )
        wanted = wanted_status(key.kind, statement, conditions)
        if wanted == stored:
            return False
        patch = fenced_patch(seen.identity, [put("/status", wanted)])
        await self.context.writer.patch(
            QUOTAS[key.kind], seen.identity.key, patch, subresource="status"
        )
        self._pending.add(seen.identity, wanted)
        self._tell(covered.quota, uncounted, stored, self._told, self.record_uncounted)
        self._tell(covered.quota, left_out, stored, self._told_left_out, self.record_left_out)
        return True

    def _left_out_text(self, covered: CoveredQuota) -> str:
        """Why pods under a quota are counted without a sidecar; empty if they are not."""
        found = sorted(self._left_out.keys() & _namespaces(covered))
        if not found:
            return ""
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        where = f"{found[0]}{others}"
        return f"pods of {where} are counted without a sidecar: {self._left_out[found[0]]}"

    @staticmethod
    def _tell(
        quota: Quota,
        text: str,
        stored: dict[str, Json],
        told: dict[QuotaKey, str],
        record: Callable[[Quota, str], None],
    ) -> None:
        """Record an event unless the stored status, or an earlier event, says the same."""
        is_new = text != told.get(quota.key, "") and not _says(stored, text)
        told[quota.key] = text
        if text and is_new:
            record(quota, text)

    def _statement(self, covered: CoveredQuota) -> Statement:
        quota = covered.quota
        if quota.key.kind is QuotaKind.CLUSTER:
            return statement_of(covered)
        managed = self.find(managed_key(quota.key))
        return statement_of(covered, used_in(None if managed is None else managed.item, quota))


def _namespaces(covered: CoveredQuota) -> AbstractSet[str]:
    key = covered.quota.key
    return covered.namespaces if key.kind is QuotaKind.CLUSTER else {key.namespace}


def _says(status: dict[str, Json], text: str) -> bool:
    """Whether the condition Ready of a status says this."""
    conditions = (each for each in conditions_in(status) if isinstance(each, Mapping))
    return any(
        each.get("type") == READY and text in str(each.get("message")) for each in conditions
    )
