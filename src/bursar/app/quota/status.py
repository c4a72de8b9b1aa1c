"""The status of quotas: the books' limits and usage, written to AAQ's two kinds.

The status is computed from the books and replaces the stored one whole. A write that was
lost, repeated or overwritten is found at the next reconcile, because the stored status then
differs from the books. The patch is fenced by uid, so that a quota created again under the
same name does not get the numbers of the deleted one.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Json, Key
from bursar.app.cluster.reconcile import PendingWrites, ReconcileContext, Reconciler
from bursar.app.counting.feeds import LeftOut
from bursar.app.counting.uncounted import uncounted_names, uncounted_text
from bursar.app.log import Log
from bursar.app.quota.events import QuotaReason
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.managed.names import managed_key, owner_key
from bursar.app.quota.refused_writes import RefusedWrites, WrittenObject
from bursar.app.quota.status_document import (
    READY,
    QuotaProblems,
    conditions_in,
    shown_status,
    wanted_conditions,
    wanted_status,
)
from bursar.core.counting.kind_state import KindState
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Coverage, CoveredQuota
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.refusal import Reason
from bursar.core.quota.validation.spec import enforcement_problem
from bursar.core.quota.views.statement import (
    Statement,
    counts_alike,
    delegated,
    statement_of,
    used_in,
)

STATUS_SECONDS: Final = 0.5
"""Shortest time between two writes of the status of one quota."""

LOG: Final = Log("quota")
_SORTS: Final = (Reason.NOT_COUNTED, *QuotaReason)

FindQuota = Callable[[QuotaKey], Sighting[QuotaObject] | None]
"""Looks up a quota of any kind in the informers."""


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
    record_problem: Callable[[Quota, QuotaReason, str], None] = lambda _quota, _reason, _text: None
    """Called when a quota begins not to be in force, or pods to be counted without a sidecar."""
    refused: RefusedWrites = field(default_factory=lambda: RefusedWrites(lambda _key, _text: None))
    """What the API server refused to write for quotas."""
    cluster_managed: Callable[[], KindState] = lambda: KindState.ABSENT
    """Whether the cluster has ClusterResourceQuotas."""
    interval_s: float = STATUS_SECONDS

    def __post_init__(self) -> None:
        self._pending = PendingWrites[dict[str, Json]]()
        self.reconciler = Reconciler(
            "status of quotas", self._reconcile, self.context, self.interval_s, self._on_refused
        )
        self._told: dict[tuple[QuotaKey, object], str] = {}
        """By quota and sort of problem: the text when the status was last written."""
        self._charged: dict[str, bool] = {}
        """By name: whether a counter charged it at the last `recheck`."""
        self._left_out: Mapping[str, str] = {}
        """What `left_out` returned at the last `recheck`."""

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
        self.reconciler.enqueue(key for key in keys if key.kind.holds_pods)

    def on_change(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind was created or changed; its status counts as a change."""
        key = seen.item.quota.key
        self.enqueue([owner_key(key) or key])

    def on_delete(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind was deleted."""
        if seen.item.quota.key.kind.holds_pods:
            self._forget(seen.item.quota.key)
            self.refused.forget(seen.item.quota.key)
        self.on_change(seen)

    def _forget(self, key: QuotaKey) -> None:
        self._pending.forget(Key(key.namespace, key.name))
        for sort in _SORTS:
            self._told.pop((key, sort), None)

    def _on_refused(self, key: QuotaKey, words: str) -> None:
        self.refused.note(key, WrittenObject.STATUS, Key(key.namespace, key.name), words)

    async def _reconcile(self, key: QuotaKey) -> bool:
        covered, seen = self.coverage.quota(key), self.find(key)
        if seen is None:
            self._forget(key)  # It may have been deleted while it was written.
        entered = None if seen is None else self.coverage.own_limits.entered(seen.item.quota)
        if covered is None or seen is None or covered.quota != entered:
            # The books or the informer are behind. The key is queued again when they catch up.
            return False
        stored = self._pending.find(seen.identity) or shown_status(seen.item)
        statement = self._statement(covered)
        problems = self._problems(covered, seen.item, _namespaces(covered))
        conditions = wanted_conditions(
            statement,
            problems,
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
        self._tell_all(covered.quota, problems, stored)
        return True

    def problems_in(
        self, covered: CoveredQuota, item: QuotaObject, namespace: str
    ) -> QuotaProblems:
        """What is wrong with a cluster-wide quota for one namespace. It names no other."""
        found = self._problems(covered, item, {namespace})
        return found._replace(copy_refused="")

    def _problems(
        self, covered: CoveredQuota, item: QuotaObject, namespaces: AbstractSet[str]
    ) -> QuotaProblems:
        """Everything that is wrong with a quota in some of the namespaces that it covers."""
        quota = covered.quota
        return QuotaProblems(
            uncounted=uncounted_text(uncounted_names(quota.hard, self.may_charge)),
            left_out=self._left_out_text(namespaces),
            order_problem=item.order_problem,
            unreadable=quota.problem,
            refused=self.refused.managed(quota.key),
            invalid=""
            if quota.problem
            else enforcement_problem(quota, is_delegated=self._is_delegated()),
            not_enforced=self._not_enforced(quota),
            not_gated=self._not_gated(covered, namespaces),
            copy_refused=self.refused.copies(quota.key),
        )

    def _is_delegated(self) -> bool:
        return self.cluster_managed() is not KindState.ABSENT

    def _not_enforced(self, quota: Quota) -> str:
        """The limits that are left to a managed quota, as long as it does not enforce them.

        The API server enforces what the status of a ResourceQuota says, not its spec. OpenShift
        enforces the status of a ClusterResourceQuota. A name that is in `hard` but not in
        `used` is not counted: it may be misspelt, as `count/service` is.
        """
        wanted = delegated(quota.hard)
        if not wanted or (quota.key.kind is QuotaKind.CLUSTER and not self._is_delegated()):
            return ""
        key = managed_key(quota.key)
        managed = self.find(key)
        lacking, uncounted = sorted(wanted), list[str]()
        if managed is not None and counts_alike(managed.item.quota, quota):
            hard, used = managed.item.reported_hard, managed.item.reported_used
            lacking = sorted(name for name in wanted if hard.get(name) != wanted[name])
            uncounted = sorted(wanted.keys() - used.keys() - set(lacking))
        of = f"{key.kind.value} {key.name}"
        texts = []
        if lacking:
            texts.append(f"not in force yet, because {of} is not: {', '.join(lacking)}")
        if uncounted:
            texts.append(f"not in force, because {of} does not count: {', '.join(uncounted)}")
        return "; ".join(texts)

    def _not_gated(self, covered: CoveredQuota, namespaces: AbstractSet[str]) -> str:
        """Why no pod is held, if pods are gated in none of these namespaces."""
        found = [self.coverage.namespace(name) for name in sorted(namespaces)]
        known = [each for each in found if each is not None]
        if not covered.accounts or not known or any(each.is_gated for each in known):
            return ""
        others = f" and {len(known) - 1} more" if len(known) > 1 else ""
        where = f"{known[0].name}{others}"
        cause = f": {known[0].dispute}" if known[0].is_targeted else ""
        return f"holds no pod, because the controller gates none in namespace {where}{cause}"

    def _tell_all(self, quota: Quota, problems: QuotaProblems, stored: dict[str, Json]) -> None:
        self._tell(quota, problems.uncounted, stored, Reason.NOT_COUNTED)
        for reason, text in (
            (QuotaReason.WITHOUT_SIDECAR, problems.left_out),
            (QuotaReason.UNREADABLE, problems.unreadable),
            (QuotaReason.INVALID, problems.invalid),
        ):
            self._tell(quota, text, stored, reason)

    def _left_out_text(self, namespaces: AbstractSet[str]) -> str:
        """Why pods are counted without a sidecar; empty if they are not."""
        found = sorted(self._left_out.keys() & namespaces)
        if not found:
            return ""
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        where = f"{found[0]}{others}"
        return f"pods of {where} are counted without a sidecar: {self._left_out[found[0]]}"

    def _tell(
        self, quota: Quota, text: str, stored: dict[str, Json], reason: QuotaReason | Reason
    ) -> None:
        """Record an event unless the stored status, or an earlier event, says the same."""
        is_new = text != self._told.get((quota.key, reason), "") and not _says(stored, text)
        self._told[quota.key, reason] = text
        if not text or not is_new:
            return
        if isinstance(reason, QuotaReason):
            LOG.warning("a quota is not in force", quota=quota.key, reason=reason.value, error=text)
            self.record_problem(quota, reason, text)
        else:
            self.record_uncounted(quota, text)

    def _statement(self, covered: CoveredQuota) -> Statement:
        quota = covered.quota
        managed = self.find(managed_key(quota.key))
        return statement_of(covered, used_in(None if managed is None else managed.item, quota))


def _namespaces(covered: CoveredQuota) -> AbstractSet[str]:
    key = covered.quota.key
    return covered.namespaces if key.kind is QuotaKind.CLUSTER else {key.namespace}


def _says(status: dict[str, Json], text: str) -> bool:
    """Whether the message of the condition Ready contains this text."""
    conditions = (each for each in conditions_in(status) if isinstance(each, Mapping))
    return any(
        each.get("type") == READY and text in str(each.get("message")) for each in conditions
    )
