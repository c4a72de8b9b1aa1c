"""What people ask about quotas: what each should show, and who waits for which.

Both answers are worked out anew from an inventory: all pods, namespaces and quotas of one
cluster, or of a few files. No controller has to run for them, and none is asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bursar.core.model.defaulting import with_defaults
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import PodRow, row_of
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.queue import Waiting, waiting_list
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.recount import Census
from bursar.core.quota.reported import QuotaObject
from bursar.core.quota.targeting import Targeting

DEFAULT_NAMESPACE = "default"
"""Where kubectl would create an object whose manifest names no namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything quotas are about, as of one moment."""

    rows: Sequence[PodRow] = ()
    namespaces: Sequence[NamespaceObject] = ()
    quotas: Sequence[QuotaObject] = ()
    undescribed: frozenset[str] = frozenset()
    """Namespaces that are only known by name. They count as having no labels."""
    problems: tuple[str, ...] = ()
    """What had to be left out, and why; a line each."""


def inventory_of(
    pods: Iterable[Pod], namespaces: Iterable[NamespaceObject], quotas: Iterable[QuotaObject]
) -> Inventory:
    """What was written in manifests. Of objects with the same name the last one holds."""
    placed = {(row.namespace, row.name): row for row in map(_placed_row, pods)}
    described = {each.name: each for each in namespaces}
    known = {each.quota.key: each for each in map(_placed_quota, quotas)}
    named = {row.namespace for row in placed.values()} | {key.namespace for key in known}
    undescribed = frozenset(named - described.keys() - {""})
    return Inventory(
        rows=tuple(placed.values()),
        namespaces=(
            *described.values(),
            *(NamespaceObject(name=name) for name in sorted(undescribed)),
        ),
        quotas=tuple(known.values()),
        undescribed=undescribed,
    )


def _placed_row(pod: Pod) -> PodRow:
    placed = pod if pod.namespace else replace(pod, namespace=DEFAULT_NAMESPACE)
    return row_of(with_defaults(placed))


def _placed_quota(seen: QuotaObject) -> QuotaObject:
    key = seen.quota.key
    if key.namespace or key.kind is QuotaKind.CLUSTER:
        return seen
    placed = replace(seen.quota, key=replace(key, namespace=DEFAULT_NAMESPACE))
    return replace(seen, quota=placed)


# ------------------------------------------------------------------ what quotas should show


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLine:
    """One resource of a quota."""

    resource: str
    hard: Quantity
    used: Quantity | None
    """What it should show; None for what pods do not use up."""
    reported: Quantity | None
    """What it does show; None if nothing."""
    is_different: bool
    """Whether the quota shows something else than it should. One that shows nothing does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReport:
    seen: QuotaObject
    used: ResourceList
    """What it should show of the resources that pods use up."""
    covered: tuple[str, ...]
    """The namespaces it is about, sorted."""

    @property
    def lines(self) -> list[ResourceLine]:
        """By resource, as the limits name them."""
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
            )
            for name, hard in sorted(self.seen.quota.hard.items())
        ]


def quota_reports(
    inventory: Inventory, now_s: int, *, name: str | None = None, namespace: str | None = None
) -> list[QuotaReport]:
    """Every quota, or those of that name, or those that are about that namespace."""
    census = Census(inventory.rows, now_s)
    namespaces = [_as_covered(each) for each in inventory.namespaces]
    reports = []
    for seen in sorted(inventory.quotas, key=lambda each: each.quota.key):
        covered = _covered(seen.quota, namespaces)
        if name in {None, seen.quota.key.name} and (namespace is None or namespace in covered):
            used = census.used(seen.quota, namespaces)
            reports.append(QuotaReport(seen=seen, used=used, covered=covered))
    return reports


def _as_covered(namespace: NamespaceObject) -> Namespace:
    return Namespace(
        name=namespace.name, labels=namespace.labels, annotations=namespace.annotations
    )


def _covered(quota: Quota, namespaces: Iterable[Namespace]) -> tuple[str, ...]:
    if quota.selector is None:
        return (quota.key.namespace,)
    matches = quota.selector.matches
    return tuple(sorted(each.name for each in namespaces if matches(each.labels, each.annotations)))


# ------------------------------------------------------------------ who waits


def queue_report(inventory: Inventory, targeting: Targeting, now_s: int) -> list[Waiting]:
    """All pods behind the gate, as a controller that starts now would see them.

    In a namespace that is only known by name the gate itself says that pods are held back.
    """
    books = Books(NativeCounter())
    books.advance(now_s)
    for each in inventory.namespaces:
        namespace = targeting.namespace(each)
        if each.name in inventory.undescribed:
            namespace = replace(namespace, is_targeted=True)
        books.see_namespace(namespace)
    for seen in inventory.quotas:
        if seen.quota.key.kind is not QuotaKind.NATIVE:
            books.see_quota(seen.quota)
    waiting: list[PodRow] = []
    originals: dict[PodKey, PodRow] = {}
    for row in inventory.rows:
        if row.profile.gates:
            originals[PodKey(row.namespace, row.name)] = row
            waiting.append(_as_created(row, now_s))
        else:
            books.see_pod(row)
    for row in waiting:
        books.see_pod(row)
    listed = waiting_list(books, books.decide().releases, waiting)
    return [
        replace(each, row=originals[PodKey(each.row.namespace, each.row.name)]) for each in listed
    ]


def _as_created(row: PodRow, now_s: int) -> PodRow:
    """The row as if its manifest was sent just now, should it not have been stored yet.

    In manifests a pod may have no uid, or one that was copied from another.
    """
    stamp = row.stamp
    return row._replace(
        packed_stamp=stamp._replace(
            uid=f"{row.namespace}/{row.name}", created_s=stamp.created_s or now_s
        )
    )
