"""Fit: which resources a node lacks for a pod, as the scheduler's NodeResourcesFit finds them.

Every resource of which the node has too little is listed, not only the first. Each says whether
evicting other pods could help: it cannot if the pod requests more than the node has in total.
The kubelet runs the same check once more before it starts a pod; `kubelet_refusal`
is that check, which forgives extended resources the node has never heard of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bursar.core.model.demand import INCOMING, pod_requests
from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended, is_scalar
from bursar.core.model.numbers.int64 import wrapped
from bursar.core.model.pod import Container, Pod
from bursar.core.model.quantity import MILLI, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.vector import Vector, as_quantity, vector_of

TOO_MANY_PODS: Final = "Too many pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """One resource a node has too little of. CPU is in thousandths."""

    resource: str
    requested: int
    used: int
    allocatable: int

    @property
    def reason(self) -> str:
        return TOO_MANY_PODS if self.resource == PODS else f"Insufficient {self.resource}"

    @property
    def requested_amount(self) -> Quantity:
        return as_quantity(self.resource, self.requested)

    @property
    def free_amount(self) -> Quantity:
        """What is left on the node; never below zero, even where it is overbooked."""
        return as_quantity(self.resource, max(0, wrapped(self.allocatable - self.used)))

    @property
    def missing(self) -> int:
        """How much more the node would have to have free."""
        return self.requested + self.used - self.allocatable

    @property
    def missing_amount(self) -> Quantity:
        return as_quantity(self.resource, self.missing)

    @property
    def eviction_may_help(self) -> bool:
        """Upstream never calls the number of pods hopeless, even on a node that allows none."""
        return self.resource == PODS or self.requested <= self.allocatable


def incoming_request(pod: Pod) -> Vector:
    """What a pod without a node requests. Negative amounts, which the API refuses, are dropped."""
    asked = vector_of(pod_requests(pod, INCOMING))
    return Vector(
        milli_cpu=max(0, asked.milli_cpu),
        memory=max(0, asked.memory),
        ephemeral_storage=max(0, asked.ephemeral_storage),
        scalars={name: amount for name, amount in asked.scalars.items() if amount > 0},
    )


def shortfalls(pod: Pod, books: NodeBooks) -> tuple[Shortfall, ...]:
    """Everything the node lacks for this pod; nothing if it fits."""
    return shortfalls_of(incoming_request(pod), books)


def shortfalls_of(request: Vector, books: NodeBooks) -> tuple[Shortfall, ...]:
    """Everything the node lacks for a request that was computed once for many nodes.

    The number of pods comes first, then cpu, memory and ephemeral storage, then the rest by
    name; upstream's order of the rest is random.
    """
    found: list[Shortfall] = []
    if books.pod_count + 1 > books.allocatable.pods:
        found.append(
            Shortfall(
                resource=PODS,
                requested=1,
                used=books.pod_count,
                allocatable=books.allocatable.pods,
            )
        )
    for resource in (CPU, MEMORY, EPHEMERAL_STORAGE, *sorted(request.scalars)):
        lack = _lack(resource, request, books)
        if lack is not None:
            found.append(lack)
    return tuple(found)


def kubelet_refusal(pod: Pod, books: NodeBooks) -> Shortfall | None:
    """The lack for which a kubelet would refuse the pod, the first if there are several.

    The kubelet does not check an extended resource that the node does not advertise at all, so
    that cluster-level resources work. It checks a resource that is advertised as zero.
    """
    advertised = books.allocatable.scalars
    admitted = replace(
        pod,
        containers=tuple(_known_requests(c, advertised) for c in pod.containers),
        init_containers=tuple(_known_requests(c, advertised) for c in pod.init_containers),
    )
    lacks = shortfalls(admitted, books)
    return lacks[0] if lacks else None


def free(books: NodeBooks) -> dict[str, Quantity]:
    """What still fits on the node, never below zero, for each resource it advertises."""
    return left_of(books.node.allocatable, books.taken, books.pod_count)


def left_of(allocatable: ResourceList, taken: Vector, pod_count: int) -> dict[str, Quantity]:
    """What is left of `allocatable` beside `pod_count` pods that take `taken` together.

    `taken.pods` is not read.
    """
    offered = vector_of(allocatable)
    left: dict[str, Quantity] = {}
    for name, amount in allocatable.items():
        if name in {CPU, MEMORY, EPHEMERAL_STORAGE, PODS} or is_scalar(name):
            used = pod_count if name == PODS else taken.amount(name)
            scale = MILLI if name == CPU else 0
            rest = wrapped(offered.amount(name) - used)
            left[name] = Quantity.of(max(0, rest), amount.format, scale=scale)
    return left


def _lack(resource: str, request: Vector, books: NodeBooks) -> Shortfall | None:
    requested = request.amount(resource)
    used = books.taken.amount(resource)
    allocatable = books.allocatable.amount(resource)
    if requested == 0 or requested <= wrapped(allocatable - used):
        return None
    return Shortfall(resource=resource, requested=requested, used=used, allocatable=allocatable)


def _known_requests(container: Container, advertised: Mapping[str, int]) -> Container:
    requests = {
        name: amount
        for name, amount in container.resources.requests.items()
        if name in advertised or not is_extended(name)
    }
    return replace(container, resources=replace(container.resources, requests=requests))
