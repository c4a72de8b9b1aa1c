"""The read model of quotas: limits and usage, which pods wait and why, and which pods are charged.

Every view uses it: `bursar queue`, `bursar describe quota`, `bursar up` and metrics. One part
reads the books of a running controller. The other part computes the same from an inventory,
so that no controller has to run. Both count with the same counters.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import filterfalse
from typing import Final, TypeAlias

from bursar.app.counting.provenance import ChargePart, Explain, charge_parts, is_native
from bursar.app.counting.uncounted import uncounted_names
from bursar.app.quota.views.inventory import Inventory
from bursar.app.quota.wait_text import wait_cost, wait_text
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota import scopes
from bursar.core.quota.account import FORMATS, Charge, to_quantity
from bursar.core.quota.books import Books
from bursar.core.quota.counting import Counter, NativeCounter, NotReady
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.names import is_known_name, is_schedulable
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.targeting import Targeting
from bursar.core.quota.usage import is_counted
from bursar.core.quota.views.queue import WaitingPod, waiting_list
from bursar.core.quota.views.recount import Recount
from bursar.core.quota.views.statement import statement_of

# ------------------------------------------------------------------ the books of a controller


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLine:
    """Limits and usage of one quota."""

    key: QuotaKey
    hard: ResourceList
    used: ResourceList
    summary: str
    uncounted: tuple[str, ...] = ()
    """Names that the quota lists and that no counter charges, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BooksView:
    """The books as of one time."""

    quotas: tuple[QuotaLine, ...] = ()
    reasons: Mapping[PodKey, str] = field(default_factory=dict)
    """Why gated pods wait, in order of release."""
    places: Mapping[PodKey, "QueuePlace"] = field(default_factory=dict)
    """Where gated pods are in the queue, in order of release."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a waiting pod in the queue."""

    position: int
    """From 1, among all pods of the queue."""
    ahead_count: int
    """Pods that rank before it and need a quota that it waits for."""
    ahead: tuple[PodKey, ...]
    """The first of the `ahead_count` pods."""


NO_BOOKS: Final = BooksView()


def view_of(
    books: Books, explain: Explain | None = None, counter: Counter | None = None
) -> BooksView:
    """The books now. `explain` and `counter` say how pods are counted; None if natively."""
    may_charge = (counter or NativeCounter()).may_charge
    covered = sorted(books.coverage.quotas(), key=lambda each: each.quota.key)
    statements = ((each.quota.key, statement_of(each)) for each in covered)
    waiting_pods = waiting_list(books)
    return BooksView(
        quotas=tuple(
            QuotaLine(
                key=key,
                hard=statement.total.hard,
                used=statement.total.used,
                summary=statement.summary,
                uncounted=uncounted_names(statement.total.hard, may_charge),
            )
            for key, statement in statements
        ),
        reasons={
            PodKey(waiting.row.namespace, waiting.row.name): wait_text(
                waiting.refusals, wait_cost(explain, waiting) if explain else ""
            )
            for waiting in waiting_pods
            if waiting.refusals
        },
        places=places_of(waiting_pods),
    )


def places_of(waiting_pods: Iterable[WaitingPod]) -> dict[PodKey, QueuePlace]:
    """The places of all waiting pods, by pod."""
    return {
        PodKey(each.row.namespace, each.row.name): QueuePlace(
            each.position, each.ahead_count, each.ahead
        )
        for each in waiting_pods
    }


def holders(
    books: Books, key: QuotaKey, resource: str, count: int
) -> list[tuple[PodKey, Quantity]]:
    """The pods that are charged the most of a resource under a quota, largest first."""
    covered = books.coverage.quota(key)
    account = None if covered is None else covered.accounts.get(resource)
    if covered is None or account is None:
        return []
    held = (
        (nanos, PodKey(namespace, name), FORMATS[index])
        for namespace in covered.namespaces
        for name, bill in books.ledger.pods_of(namespace)
        for billed, nanos, index in bill.items
        if billed is account
    )
    largest = nsmallest(count, held, key=lambda each: (-each[0], each[1]))
    return [(pod, to_quantity(nanos, style)) for nanos, pod, style in largest]


# ------------------------------------------------------------------ an inventory: usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLine:
    """One resource of a quota."""

    resource: str
    hard: Quantity
    used: Quantity | None
    """What the status should report; None for a resource that pods do not use."""
    reported: Quantity | None
    """What the status reports; None if it does not name the resource."""
    is_different: bool
    """Whether the status reports another usage. An empty status does not count as different."""
    is_uncounted: bool = False
    """Whether no component counts this name, so that the limit never holds anything."""

    @property
    def is_over(self) -> bool:
        """Whether more is used than allowed, by the recount or else by the status."""
        used = self.reported if self.used is None else self.used
        return used is not None and used > self.hard

    @property
    def percent(self) -> int | None:
        """The share that is used, rounded down; None if it is not known, or the limit is zero."""
        used = self.reported if self.used is None else self.used
        if used is None or self.hard.nanos <= 0:
            return None
        return used.nanos * 100 // self.hard.nanos


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCharge:
    """What a pod is charged under a quota, by counter."""

    pod: PodKey
    parts: tuple[ChargePart, ...]
    """What each counter charges, restricted to the resources that the quota limits."""
    provisional: ResourceList | None = None
    """What the pod is charged while a counter cannot tell its part; None if all can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReport:
    seen: QuotaObject
    used: ResourceList
    """What the status should report, for the resources that pods use."""
    covered: tuple[str, ...]
    """The namespaces that the quota covers, sorted."""
    uncounted: tuple[str, ...] = ()
    """Names that the quota lists and that no counter charges, sorted."""
    charges: tuple[PodCharge, ...] = ()
    """The pods that are counted otherwise than natively, or not yet, sorted."""
    ungated: tuple[str, ...] = ()
    """Covered namespaces whose pods are not gated, so that the quota holds none of them; sorted."""
    undescribed: tuple[str, ...] = ()
    """Covered namespaces of which the labels are not known; sorted."""

    @property
    def lines(self) -> list[ResourceLine]:
        """One for each limited resource, sorted by name."""
        shown = self.seen.reported_used
        return [
            ResourceLine(
                resource=name,
                hard=hard,
                used=self.used.get(name),
                reported=shown.get(name),
                is_different=bool(shown)
                and name in self.used
                and self.used[name] != shown.get(name),
                is_uncounted=name in self.uncounted,
            )
            for name, hard in sorted(self.seen.quota.hard.items())
        ]


def quota_reports(
    inventory: Inventory,
    now_s: int,
    *,
    name: str | None = None,
    namespace: str | None = None,
    targeting: Targeting | None = None,
) -> list[QuotaReport]:
    """Reports of all quotas, of those with this name, or of those that cover this namespace.

    `targeting` says in which namespaces pods are gated; without it, nothing is said about that.
    """
    gating = _Gating(inventory, targeting)
    counter = inventory.counting.counter
    recount = Recount(inventory.rows, now_s, lambda row: _charge(counter, row))
    counted = _counted_otherwise(inventory, now_s)
    reports = []
    for seen in sorted(inventory.quotas, key=lambda each: each.quota.key):
        covered = _covered(seen.quota, inventory.namespaces)
        if name in {None, seen.quota.key.name} and (namespace is None or namespace in covered):
            is_ours = seen.quota.key.kind is not QuotaKind.NATIVE
            reports.append(
                QuotaReport(
                    seen=seen,
                    used=recount.used(seen.quota, inventory.namespaces),
                    covered=covered,
                    uncounted=_uncounted(seen.quota, counter),
                    charges=tuple(_charges(seen.quota, covered, counted)) if is_ours else (),
                    ungated=tuple(gating.ungated(covered)) if is_ours else (),
                    undescribed=tuple(gating.undescribed(covered)) if is_ours else (),
                )
            )
    return reports


def _uncounted(quota: Quota, counter: Counter) -> tuple[str, ...]:
    """Names that neither a counter charges nor Kubernetes knows, sorted."""
    unknown = {each for each in quota.hard if not (is_known_name(each) or is_schedulable(each))}
    if quota.key.kind is QuotaKind.NATIVE:
        return tuple(sorted(filterfalse(is_known_name, quota.hard)))
    return tuple(sorted(unknown.union(uncounted_names(quota.hard, counter.may_charge))))


class _Gating:
    """In which namespaces of an inventory pods are gated."""

    def __init__(self, inventory: Inventory, targeting: Targeting | None) -> None:
        self._targeting = targeting
        self._known = {
            each.name: each
            for each in inventory.namespaces
            if each.name not in inventory.undescribed
        }

    def ungated(self, namespaces: Iterable[str]) -> Iterator[str]:
        if self._targeting is not None:
            for name in namespaces:
                if name in self._known and not self._targeting.is_targeted(self._known[name]):
                    yield name

    def undescribed(self, namespaces: Iterable[str]) -> Iterator[str]:
        if self._targeting is not None:
            yield from (name for name in namespaces if name not in self._known)


def _charge(counter: Counter, row: PodRow) -> Charge:
    """What a controller that starts now would charge."""
    counted = counter.count(row)
    return counted.provisional if isinstance(counted, NotReady) else counted


@dataclass(frozen=True, slots=True)
class _CountedRow:
    row: PodRow
    parts: tuple[ChargePart, ...]
    provisional: Charge | None
    """The charge while a counter cannot tell its part; None if all can."""


_CountedRows: TypeAlias = Mapping[str, Sequence[_CountedRow]]
"""By namespace, sorted by name."""


def _counted_otherwise(inventory: Inventory, now_s: int) -> _CountedRows:
    """The pods that are charged and that are not counted natively."""
    counter = inventory.counting.counter
    found: dict[str, list[_CountedRow]] = {}
    if isinstance(counter, NativeCounter):
        return found
    for row in sorted(inventory.rows, key=lambda row: row.name):
        if is_counted(row, now_s) and not row.profile.gates:
            parts = charge_parts(inventory.counting.explain, row)
            if not is_native(parts):
                is_pending = any(part.amounts is None for part in parts)
                provisional = _charge(counter, row) if is_pending else None
                found.setdefault(row.namespace, []).append(_CountedRow(row, parts, provisional))
    return found


def _charges(quota: Quota, covered: Iterable[str], counted: _CountedRows) -> Iterator[PodCharge]:
    rules = scopes.simplified(quota.scopes)
    for namespace in covered:
        for each in counted.get(namespace, ()):
            if scopes.matches(rules, each.row.profile):
                limited = tuple(limit for part in each.parts if (limit := _limited(part, quota)))
                if limited:
                    yield PodCharge(
                        pod=PodKey(namespace, each.row.name),
                        parts=limited,
                        provisional=_provisional(each.provisional, quota),
                    )


def _provisional(charge: Charge | None, quota: Quota) -> ResourceList | None:
    """The charge with the amounts that the quota limits."""
    if charge is None:
        return None
    return {
        name: to_quantity(nanos, FORMATS[style])
        for name, (nanos, style) in sorted(charge.amounts_of(quota.hard).items())
        if name in quota.hard
    }


def _limited(part: ChargePart, quota: Quota) -> ChargePart | None:
    """The part with the amounts that the quota limits; None if it limits none of them."""
    if part.amounts is None:
        return part
    amounts = {name: each for name, each in part.amounts.items() if name in quota.hard}
    return part._replace(amounts=amounts) if amounts else None


def _covered(quota: Quota, namespaces: Iterable[NamespaceObject]) -> tuple[str, ...]:
    if quota.selector is None:
        return (quota.key.namespace,)
    matches, names = quota.selector.matches, quota.selector.names
    return tuple(
        sorted(
            each.name
            for each in namespaces
            if each.name in names or matches(each.labels, each.annotations)
        )
    )


# ------------------------------------------------------------------ an inventory: the queue


def queue_report(inventory: Inventory, targeting: Targeting, now_s: int) -> list[WaitingPod]:
    """The queue of a controller that has seen all these pods since they were created.

    In a namespace that is only known by name, pods with the gate count as gated on purpose.
    """
    originals = {
        PodKey(row.namespace, row.name): row for row in inventory.rows if row.profile.gates
    }

    def count(row: PodRow) -> Charge | NotReady:
        # The counters know the pod as it was read.
        known = originals.get(PodKey(row.namespace, row.name), row)
        return inventory.counting.counter.count(known)

    books = Books(count)
    for each in inventory.namespaces:
        namespace = targeting.namespace(each)
        if each.name in inventory.undescribed:
            namespace = replace(namespace, is_targeted=True)
        books.see_namespace(namespace)
    for seen in inventory.quotas:
        if seen.quota.key.kind is not QuotaKind.NATIVE:
            books.see_quota(seen.quota)
    for row in inventory.rows:
        if not row.profile.gates:
            books.see_pod(row)
    # Each gated pod is seen when it was created, as a controller would have seen it that ran then.
    gated = [_as_created(row, now_s) for row in inventory.rows if row.profile.gates]
    for row in sorted(gated, key=lambda row: row.stamp.created_s):
        books.advance(row.stamp.created_s)
        books.see_pod(row)
    books.advance(now_s)
    return [
        replace(each, row=originals[PodKey(each.row.namespace, each.row.name)])
        for each in waiting_list(books, books.decide().releases)
    ]


def _as_created(row: PodRow, now_s: int) -> PodRow:
    """The row with a uid of its own and a creation time, which a manifest may lack.

    The uid in a manifest may also be a copy of another pod's.
    """
    stamp = row.stamp
    return row._replace(
        packed_stamp=stamp._replace(
            uid=f"{row.namespace}/{row.name}", created_s=stamp.created_s or now_s
        )
    )
