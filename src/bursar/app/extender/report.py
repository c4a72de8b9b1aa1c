"""What pools have, who holds it and who waits: for `bursar top licences`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bursar.app.cluster.ports import EVERYTHING, Reader
from bursar.app.cluster.reading.listing import list_all
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import Format, Quantity
from bursar.core.pools.accounts import PoolState
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.pool import Pool
from bursar.core.quota.account import to_quantity
from bursar.wire.pools import decode_pool


@dataclass(slots=True)
class Holding:
    """What pods hold of a pool, and what pods that hold nothing request of it."""

    used_nanos: int = 0
    pods: int = 0
    waiting_nanos: int = 0
    waiting_pods: int = 0

    @property
    def used(self) -> Quantity:
        return to_quantity(self.used_nanos, Format.DECIMAL_SI)

    @property
    def waiting(self) -> Quantity:
        return to_quantity(self.waiting_nanos, Format.DECIMAL_SI)

    def add(self, nanos: int, *, is_waiting: bool) -> None:
        if is_waiting:
            self.waiting_nanos += nanos
            self.waiting_pods += 1
        else:
            self.used_nanos += nanos
            self.pods += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLine:
    """One pool of the report."""

    state: PoolState
    total: Holding
    namespaces: dict[str, Holding]

    @property
    def free(self) -> Quantity:
        """What is left; negative while the pool is overdrawn."""
        return to_quantity(self.state.account.free, Format.DECIMAL_SI)

    @property
    def problem(self) -> str:
        if self.state.pool.problem:
            return self.state.pool.problem
        return f"{self.state.rival} is used instead" if self.state.rival else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolObjects:
    """The objects that a report is made of."""

    pools: list[Pool] = field(default_factory=list)
    namespaces: list[NamespaceObject] = field(default_factory=list)
    rows: list[PodRow] = field(default_factory=list)


async def read_pools(cluster: Reader) -> list[Pool]:
    """The ClusterResources of a cluster. Raises `ClusterError`."""
    return await list_all(cluster, CLUSTER_RESOURCES, EVERYTHING, decode_pool)


def pool_lines(objects: PoolObjects) -> list[PoolLine]:
    """The pools by name. Pods between filter and bind count as waiting."""
    books = PoolBooks()
    known = {each.name: each for each in objects.namespaces}
    for row in objects.rows:
        # Files need not have the namespaces of their pods.
        known.setdefault(row.namespace, NamespaceObject(name=row.namespace))
    for namespace in known.values():
        books.see_namespace(namespace)
    for pool in objects.pools:
        books.see_pool(pool)
    for row in objects.rows:
        books.see_pod(row)
    bound, waiting = books.bound_pods(), books.waiting_pods()
    return [
        _line(state, bound.get(state.pool.name, ()), waiting.get(state.pool.name, ()))
        for state in books.states
    ]


def _line(
    state: PoolState, bound: Iterable[tuple[PodRow, int]], waiting: Iterable[tuple[PodRow, int]]
) -> PoolLine:
    total, namespaces = Holding(), dict[str, Holding]()
    for is_waiting, pods in ((False, bound), (True, waiting)):
        for row, nanos in pods:
            for holding in (total, namespaces.setdefault(row.namespace, Holding())):
                holding.add(nanos, is_waiting=is_waiting)
    ordered = sorted(namespaces.items(), key=lambda item: (-item[1].used_nanos, item[0]))
    return PoolLine(state=state, total=total, namespaces=dict(ordered))
