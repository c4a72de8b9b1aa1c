"""A node's books: what it has for pods, and what the pods on it have already taken.

The books are mutable. Every change goes through `_enter`, which replaces an entry and updates
the totals, in the same short time however full the node is. Immutable books would have to copy
a table of up to hundreds of pods for each pod that comes or goes. Entries are keyed by pod and
not counted by event, so a pod that is seen twice is booked once, and the totals always equal a
recount.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from bursar.core.model.demand import ASSIGNED, has_applied_resources, pod_requests
from bursar.core.model.names import CPU, MEMORY, is_pod_level
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import MILLI, Quantity
from bursar.core.model.resources import NOTHING, ResourceList
from bursar.core.placement.vector import Tally, Vector, scheduled_amount, vector_of

SCORING_DEFAULTS: Final[ResourceList] = {
    CPU: Quantity.of(100, scale=MILLI),
    MEMORY: Quantity.of(200 * 1024 * 1024),
}
"""What scoring assumes for a container that requests none, so that such pods weigh something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One pod on a node, and what it takes there."""

    pod: Pod
    taken: Vector
    weighed: Vector
    """CPU and memory as scoring counts them, with an assumption where a request is missing."""

    @property
    def priority(self) -> int:
        return self.pod.priority or 0


def pod_key(pod: Pod) -> str:
    """The key of a pod: its uid, or namespace and name if it has none yet."""
    return pod.uid or f"{pod.namespace}/{pod.name}"


class NodeBooks:
    """The books of one node. A finished pod takes nothing; a terminating one still does."""

    __slots__ = ("_allocatable", "_entries", "_node", "_taken", "_weighed")

    def __init__(
        self, node: Node, pods: Iterable[Pod] = (), *, entries: Iterable[Entry] = ()
    ) -> None:
        """Open books with pods, or with entries of other books, which need no recount."""
        self._node = node
        self._allocatable = vector_of(node.allocatable)
        self._taken = Tally()
        self._weighed = Tally()
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self._enter(pod_key(entry.pod), entry)
        for pod in pods:
            self.assign(pod)

    @property
    def node(self) -> Node:
        return self._node

    @property
    def allocatable(self) -> Vector:
        return self._allocatable

    @property
    def taken(self) -> Vector:
        """The sum of what all pods take; the number of pods is `pod_count`."""
        return self._taken.sum

    @property
    def weighed(self) -> Vector:
        """CPU and memory of all pods as scoring counts them."""
        return self._weighed.sum

    @property
    def pod_count(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything booked, in the order in which it first came."""
        return tuple(self._entries.values())

    def assign(self, pod: Pod) -> None:
        """Book the pod as it is now, in place of what was booked for it before."""
        self._enter(pod_key(pod), None if pod.is_terminated else entry_of(pod))

    def release(self, pod: Pod) -> None:
        """Remove the pod. An unknown pod is ignored."""
        self._enter(pod_key(pod), None)

    def observe(self, node: Node) -> None:
        """Take over a newer state of the same node."""
        assert node.name == self._node.name
        self._node = node
        self._allocatable = vector_of(node.allocatable)

    def _enter(self, key: str, entry: Entry | None) -> None:
        before = self._entries.get(key)
        if before is not None:
            self._taken.subtract(before.taken)
            self._weighed.subtract(before.weighed)
        if entry is not None:
            self._entries[key] = entry
            self._taken.add(entry.taken)
            self._weighed.add(entry.weighed)
        elif before is not None:
            del self._entries[key]


def entry_of(pod: Pod) -> Entry:
    """What a pod takes once it sits on a node, resizes under way included."""
    requests = pod_requests(pod, ASSIGNED)
    assumed = _assumed(pod, requests)
    weighed = pod_requests(pod, replace(ASSIGNED, non_missing=assumed)) if assumed else requests
    return Entry(
        pod=pod,
        # Pods are counted, not summed; a request for "pods" says nothing.
        taken=replace(vector_of(requests), pods=0),
        weighed=Vector(
            milli_cpu=scheduled_amount(CPU, weighed), memory=scheduled_amount(MEMORY, weighed)
        ),
    )


def _assumed(pod: Pod, requests: ResourceList) -> ResourceList:
    """The assumptions that apply: with pod-level requests, only for resources without a request."""
    if _states_all(pod):
        return NOTHING
    stated = pod.resources.requests if pod.resources is not None else {}
    if not any(is_pod_level(name) for name in stated):
        return SCORING_DEFAULTS
    return {name: amount for name, amount in SCORING_DEFAULTS.items() if name not in requests}


def _states_all(pod: Pod) -> bool:
    """Whether the spec alone counts, and no container of it leaves anything to be assumed."""
    return not has_applied_resources(pod) and all(
        name in container.resources.requests
        for container in (*pod.containers, *pod.init_containers)
        for name in SCORING_DEFAULTS
    )
