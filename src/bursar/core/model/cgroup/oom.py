"""OOM scores: the order in which the kernel kills containers when memory runs out.

The kubelet gives every container a number between -1000 (never) and 1000 (first),
by the QoS class of its pod and, for Burstable pods, by its share of the node's memory: a container
with a larger request is killed later.
"""

from typing import Final

from bursar.core.model.demand import CONTAINERS_ALONE, pod_requests
from bursar.core.model.int64 import quotient, wrapped
from bursar.core.model.names import MEMORY
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


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int | None) -> int | None:
    """`oom_score_adj` of every process in a container, on a node with that many bytes.

    None where the answer depends on the node's memory and that is not known.
    """
    if is_node_critical(pod):
        return GUARANTEED_OOM_SCORE_ADJ
    qos = class_on_node(pod)
    if qos is QosClass.GUARANTEED:
        return GUARANTEED_OOM_SCORE_ADJ
    if qos is QosClass.BEST_EFFORT:
        return BEST_EFFORT_OOM_SCORE_ADJ
    if not memory_capacity:
        return None
    unclaimed = _unclaimed_per_container(pod)
    score = _score(_memory(container.resources.requests) + unclaimed, memory_capacity)
    if _is_sidecar_of(pod, container):
        # A sidecar must not die before the containers it serves.
        least = min((_memory(c.resources.requests) for c in pod.containers), default=0)
        score = min(score, _score(least + unclaimed, memory_capacity))
    if score == BEST_EFFORT_OOM_SCORE_ADJ:
        return BURSTABLE_OOM_SCORE_ADJ_MAX
    return max(score, BURSTABLE_OOM_SCORE_ADJ_MIN)


def _score(request: int, memory_capacity: int) -> int:
    return wrapped(1000 - quotient(wrapped(1000 * request), memory_capacity))


def class_on_node(pod: Pod) -> QosClass:
    """The class the kubelet acts on: the stored one, or the computed one if none is stored."""
    return stored_qos(pod.reported_qos) or qos_class(pod)


def is_critical(pod: Pod) -> bool:
    """Of a system priority, or started by the kubelet itself from a file or URL."""
    from_elsewhere = pod.annotations.get(SOURCE_ANNOTATION, SOURCE_API) != SOURCE_API
    if from_elsewhere or MIRROR_ANNOTATION in pod.annotations:
        return True
    return pod.priority is not None and pod.priority >= SYSTEM_CRITICAL_PRIORITY


def is_node_critical(pod: Pod) -> bool:
    return pod.priority_class == SYSTEM_NODE_CRITICAL and is_critical(pod)


def _memory(amounts: ResourceList) -> int:
    return amounts.get(MEMORY, ZERO).value()


def _is_sidecar_of(pod: Pod, container: Container) -> bool:
    return container.is_sidecar and any(init.name == container.name for init in pod.init_containers)


def _unclaimed_per_container(pod: Pod) -> int:
    """Each container's part of the memory the pod requests beyond what its containers do."""
    if pod.resources is None or pod.resources.requests.get(MEMORY, ZERO).is_zero:
        return 0
    claimed = _memory(pod_requests(pod, CONTAINERS_ALONE))
    unclaimed = wrapped(_memory(pod.resources.requests) - claimed)
    return quotient(unclaimed, len(pod.containers) + len(pod.init_containers))
