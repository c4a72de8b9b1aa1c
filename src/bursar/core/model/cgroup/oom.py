"""OOM scores: the order in which the kernel kills containers when memory runs out.

The kubelet gives every container a number between -1000 (never) and 1000 (first),
by the QoS class of its pod and, for Burstable pods, by its share of the node's memory: a container
with a larger request is killed later.
"""

from dataclasses import dataclass
from typing import Final

from bursar.core.model.demand import CONTAINERS_ALONE, pod_requests
from bursar.core.model.names import MEMORY
from bursar.core.model.numbers.int64 import quotient, wrapped
from bursar.core.model.pod import MIRROR_ANNOTATION, Container, Pod
from bursar.core.model.qos import QosClass, qos_class, stored_qos
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList

GUARANTEED_OOM_SCORE_ADJ: Final = -997
BEST_EFFORT_OOM_SCORE_ADJ: Final = 1000
BURSTABLE_OOM_SCORE_ADJ_MIN: Final = 1000 + GUARANTEED_OOM_SCORE_ADJ
BURSTABLE_OOM_SCORE_ADJ_MAX: Final = BEST_EFFORT_OOM_SCORE_ADJ - 1

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
SYSTEM_NODE_CRITICAL: Final = "system-node-critical"
SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
SOURCE_API: Final = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class OomScores:
    """The facts of a pod and its node that the OOM scores of its containers depend on.

    They are computed once per pod: a pod may have thousands of containers.
    """

    same_for_all: int | None
    """The score of every container; None if it depends on the container and the node's memory."""
    memory_capacity: int
    """Bytes of the node; 0 if unknown."""
    unclaimed: int
    """Each container's part of the memory the pod requests beyond what its containers do."""
    least_request: int
    """The smallest memory request of a container that is not an init container."""
    init_names: frozenset[str]

    def of(self, container: Container) -> int | None:
        """`oom_score_adj` of every process in the container. None if the node is unknown."""
        if self.same_for_all is not None:
            return self.same_for_all
        if not self.memory_capacity:
            return None
        score = self._score(_memory(container.resources.requests))
        if container.is_sidecar and container.name in self.init_names:
            # A sidecar must not die before the containers it serves.
            score = min(score, self._score(self.least_request))
        if score == BEST_EFFORT_OOM_SCORE_ADJ:
            return BURSTABLE_OOM_SCORE_ADJ_MAX
        return max(score, BURSTABLE_OOM_SCORE_ADJ_MIN)

    def _score(self, request: int) -> int:
        whole = wrapped(1000 * (request + self.unclaimed))
        return wrapped(1000 - quotient(whole, self.memory_capacity))


def oom_scores(pod: Pod, memory_capacity: int | None) -> OomScores:
    """The OOM scores of a pod's containers, on a node with that many bytes of memory."""
    return OomScores(
        same_for_all=_score_of_class(pod),
        memory_capacity=memory_capacity or 0,
        unclaimed=_unclaimed_per_container(pod),
        least_request=min((_memory(c.resources.requests) for c in pod.containers), default=0),
        init_names=frozenset(container.name for container in pod.init_containers),
    )


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int | None) -> int | None:
    """The OOM score of one container. For all containers of a pod, use `oom_scores`."""
    return oom_scores(pod, memory_capacity).of(container)


def _score_of_class(pod: Pod) -> int | None:
    if is_node_critical(pod):
        return GUARANTEED_OOM_SCORE_ADJ
    return _BY_CLASS.get(class_on_node(pod))


_BY_CLASS: Final = {
    QosClass.GUARANTEED: GUARANTEED_OOM_SCORE_ADJ,
    QosClass.BEST_EFFORT: BEST_EFFORT_OOM_SCORE_ADJ,
}


def class_on_node(pod: Pod) -> QosClass:
    """The class the kubelet acts on: the stored one, or the computed one if none is stored."""
    return stored_qos(pod.reported_qos) or qos_class(pod)


def is_critical(pod: Pod) -> bool:
    """Whether the pod has a system priority, or the kubelet started it from a file or URL."""
    from_elsewhere = pod.annotations.get(SOURCE_ANNOTATION, SOURCE_API) != SOURCE_API
    if from_elsewhere or MIRROR_ANNOTATION in pod.annotations:
        return True
    return pod.priority is not None and pod.priority >= SYSTEM_CRITICAL_PRIORITY


def is_node_critical(pod: Pod) -> bool:
    return pod.priority_class == SYSTEM_NODE_CRITICAL and is_critical(pod)


def _memory(amounts: ResourceList) -> int:
    return amounts.get(MEMORY, ZERO).value()


def _unclaimed_per_container(pod: Pod) -> int:
    """Each container's part of the memory the pod requests beyond what its containers do."""
    if pod.resources is None or pod.resources.requests.get(MEMORY, ZERO).is_zero:
        return 0
    claimed = _memory(pod_requests(pod, CONTAINERS_ALONE))
    unclaimed = wrapped(_memory(pod.resources.requests) - claimed)
    sharers = len(pod.containers) + len(pod.init_containers)
    return quotient(unclaimed, sharers) if sharers else 0
