"""The inventory: all pods, namespaces and quotas of a cluster, or of a few files, read once.

Reports about quotas are computed from it. No controller has to run for them. Its counters have
been told of all pods, and of the objects that they depend on, so that reports count as the
controller does.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import ForbiddenError, Key, NotFoundError, Query, Reader, Resource
from bursar.app.cluster.reading.listing import list_all, name_of
from bursar.app.counting.feeds import CountedKind, Counting
from bursar.app.quota.kinds import QUOTAS
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.namespace import DEFAULT_NAMESPACE, NamespaceObject
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import DeriveFacts, PodRow, row_of
from bursar.core.quota.quota import QuotaKind, QuotaObject
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.quota.objects import decode_quota
from bursar.wire.quota.unreadable import read_quota

Progress = Callable[[str, int], None]
"""Called with a kind and the number of its objects that have been read so far."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    rows: Sequence[PodRow] = ()
    namespaces: Sequence[NamespaceObject] = ()
    quotas: Sequence[QuotaObject] = ()
    undescribed: frozenset[str] = frozenset()
    """Namespaces that are only known by name. They count as having no labels."""
    problems: tuple[str, ...] = ()
    """One line for each object or kind that was left out, with the reason."""
    counting: Counting = field(default_factory=lambda: Counting.of(()))
    """What pods cost. Default: natively."""

    def __post_init__(self) -> None:
        # A counter must know all pods before it counts one, those that have ended as well.
        for row in self.rows:
            self.counting.counter.see_pod(row)


# ------------------------------------------------------------------ from manifests


def inventory_of(
    pods: Sequence[Pod],
    namespaces: Iterable[NamespaceObject],
    quotas: Iterable[QuotaObject],
    *,
    counting: Counting | None = None,
    bodies: Mapping[Resource, Sequence[bytes]] = MappingProxyType({}),
) -> Inventory:
    """The inventory of manifests. Of objects with the same name the last one counts.

    `bodies` are whole objects of `Counting.whole_kinds`; those of pods are in the order of `pods`.
    """
    counting = counting or Counting.of(())
    problems: list[str] = []
    for kind in counting.kinds:
        if bodies.get(kind.resource):
            kind.load(bodies[kind.resource], problems)
        elif not kind.is_named_by_pods:
            kind.mark_absent()
    facts = _facts(counting.counter.derive_facts, pods, bodies)
    placed = {(row.namespace, row.name): row for row in map(_placed_row, pods, facts)}
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
        problems=tuple(problems),
        counting=counting,
    )


def _facts(
    derive: DeriveFacts | None, pods: Sequence[Pod], bodies: Mapping[Resource, Sequence[bytes]]
) -> Iterable[Hashable | None]:
    return [None] * len(pods) if derive is None else map(derive, bodies[PODS])


def _placed_row(pod: Pod, facts: Hashable | None) -> PodRow:
    return row_of(with_defaults(pod.with_namespace()), facts)


def _placed_quota(seen: QuotaObject) -> QuotaObject:
    key = seen.quota.key
    if key.namespace or key.kind is QuotaKind.CLUSTER:
        return seen
    placed = replace(seen.quota, key=replace(key, namespace=DEFAULT_NAMESPACE))
    return replace(seen, quota=placed)


# ------------------------------------------------------------------ from what a command has read


def inventory_of_bodies(
    bodies: Mapping[Resource, Sequence[bytes]], *, counting: Counting | None = None
) -> Inventory:
    """The inventory of objects as an API server sent them. A kind that is missing was not read."""
    counting = counting or Counting.of(())
    problems: list[str] = []

    def objects(resource: Resource, decode: Callable[[bytes], T]) -> list[T]:
        found = []
        for body in bodies.get(resource, ()):
            try:
                found.append(decode(body))
            except ValueError as error:
                problems.append(f"left out: {resource} {name_of(body)}: {error}")
        return found

    quotas = [
        *objects(QUOTAS[QuotaKind.NATIVE], partial(decode_quota, QuotaKind.NATIVE)),
        *objects(QUOTAS[QuotaKind.NAMESPACED], partial(read_quota, QuotaKind.NAMESPACED)),
        *objects(QUOTAS[QuotaKind.CLUSTER], partial(read_quota, QuotaKind.CLUSTER)),
    ]
    problems.extend(_unreadable(quotas))
    rows = objects(PODS, PodRowDecoder(counting.counter.derive_facts).decode)
    for kind in counting.kinds:
        if kind.resource in bodies:
            kind.load(bodies[kind.resource], problems)
        else:
            kind.mark_absent()
    return Inventory(
        rows=rows,
        namespaces=objects(NAMESPACES, decode_namespace),
        quotas=quotas,
        problems=tuple(problems),
        counting=counting,
    )


# ------------------------------------------------------------------ from a cluster


async def read_inventory(
    reader: Reader,
    *,
    namespace: str = "",
    counting: Counting | None = None,
    progress: Progress = lambda _kind, _count: None,
) -> Inventory:
    """List a cluster, or only what the quotas of one namespace depend on.

    If the caller may read that namespace only, cluster-wide quotas are left out and
    `problems` says so. The same holds for objects that a counter depends on: then the pods
    concerned are not counted. Raises `ClusterError`.
    """
    counting = counting or Counting.of(())
    problems: list[str] = []

    async def objects(resource: Resource, decode: Callable[[bytes], T], place: str = "") -> list[T]:
        return await list_all(
            reader,
            resource,
            Query(namespace=place if resource.is_namespaced else ""),
            decode,
            problems=problems,
            progress=lambda count: progress(resource.plural, count),
        )

    async def quotas_of(kind: QuotaKind, place: str = "") -> list[QuotaObject]:
        """All quotas of a kind; none if the kind is not installed."""
        decode = decode_quota if kind is QuotaKind.NATIVE else read_quota
        try:
            found = await objects(QUOTAS[kind], partial(decode, kind), place)
        except NotFoundError:
            return []
        problems.extend(_unreadable(found))
        return found

    quotas = [
        *await quotas_of(QuotaKind.NATIVE, namespace),
        *await quotas_of(QuotaKind.NAMESPACED, namespace),
    ]
    try:
        cluster_wide = await quotas_of(QuotaKind.CLUSTER)
    except ForbiddenError as error:
        if not namespace:
            raise
        cluster_wide = []
        problems.append(f"left out: cluster-wide quotas: {error}")
    where = "" if cluster_wide else namespace
    rows = await objects(PODS, PodRowDecoder(counting.counter.derive_facts).decode, where)
    for kind in counting.kinds:
        await _load(kind, partial(objects, kind.resource, bytes, where), problems)
    # Namespaces are listed after the pods, so that each pod's namespace is in the list.
    if where:
        namespaces, undescribed = await _one_namespace(reader, where)
    else:
        namespaces, undescribed = await objects(NAMESPACES, decode_namespace), frozenset()
    return Inventory(
        rows=rows,
        namespaces=namespaces,
        undescribed=undescribed,
        quotas=(*quotas, *cluster_wide),
        problems=tuple(problems),
        counting=counting,
    )


async def _load(
    kind: CountedKind, read: Callable[[], Awaitable[list[bytes]]], problems: list[str]
) -> None:
    """Tell a counter of the objects that it depends on."""
    try:
        kind.load(await read(), problems)
    except NotFoundError:
        kind.mark_absent()
    except ForbiddenError as error:
        problems.append(f"left out: {kind.resource}: {error}")


async def _one_namespace(reader: Reader, name: str) -> tuple[list[NamespaceObject], frozenset[str]]:
    """The namespace, and its name if nothing else can be read of it."""
    try:
        return [decode_namespace(await reader.get(NAMESPACES, Key("", name)))], frozenset()
    except (ForbiddenError, NotFoundError):
        return [NamespaceObject(name=name)], frozenset({name})


def _unreadable(quotas: Iterable[QuotaObject]) -> Iterator[str]:
    for each in quotas:
        if each.quota.problem:
            problem = f"{each.quota.key}: {each.quota.problem}"
            yield f"cannot be used, so pods that it may cover wait: {problem}"
