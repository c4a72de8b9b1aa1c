"""QoS: the class of a pod, which decides about throttling, kills and eviction, and its reason.

Only cpu and memory decide, and only amounts above zero. If the pod has
pod-level resources, the containers are not considered, even if the pod-level resources are
empty: `resources: {}` in a pod's spec makes it BestEffort.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.demand import Side
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import Pod, ResourceRequirements
from bursar.core.model.quantity import ZERO


class QosClass(Enum):
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True, kw_only=True)
class QosExplanation:
    qos: QosClass
    reason: str
    """The reason for the class, as a sentence without a full stop."""


_BY_NAME: Final = {qos.value: qos for qos in QosClass}


def stored_qos(name: str) -> QosClass | None:
    """The QoS class with this name; None if there is none."""
    return _BY_NAME.get(name)


def qos_class(pod: Pod) -> QosClass:
    """The class the API server computes from the spec, after defaulting, and stores."""
    if pod.resources is not None:
        return _class_of([pod.resources])
    containers = (*pod.containers, *pod.init_containers)
    return _class_of([container.resources for container in containers])


def explain_qos(pod: Pod) -> QosExplanation:
    """The class, and the first container and resource that prevent a better one."""
    qos = qos_class(pod)
    holders = _holders(pod)
    if qos is QosClass.BEST_EFFORT:
        reason = _nothing_counts(pod)
    elif qos is QosClass.GUARANTEED:
        reason = _all_equal(pod, holders)
    else:
        reason = _first_gap(holders)
    return QosExplanation(qos=qos, reason=reason)


# ------------------------------------------------------------------ the class

_DECISIVE: Final = (CPU, MEMORY)


def _class_of(holders: list[ResourceRequirements]) -> QosClass:
    """The class of the containers, or of the pod if it has pod-level resources.

    What is compared are the sums over all containers, not each with its own limit.
    """
    requested = [_total(holders, Side.REQUESTS, name) for name in _DECISIVE]
    limited = [_total(holders, Side.LIMITS, name) for name in _DECISIVE]
    if not any(requested) and not any(limited):
        return QosClass.BEST_EFFORT
    if requested == limited and all(
        _nanos(holder, Side.LIMITS, name) for holder in holders for name in _DECISIVE
    ):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def _total(holders: list[ResourceRequirements], side: Side, name: str) -> int:
    return sum(_nanos(holder, side, name) for holder in holders)


def _nanos(holder: ResourceRequirements, side: Side, name: str) -> int:
    return max(0, side.of(holder).get(name, ZERO).nanos)


# ------------------------------------------------------------------ the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    title: str
    resources: ResourceRequirements


def _holders(pod: Pod) -> list[_Holder]:
    if pod.resources is not None:
        return [_Holder(title="the pod itself", resources=pod.resources)]
    named = [("container", container) for container in pod.containers]
    named += [("sidecar" if c.is_sidecar else "init container", c) for c in pod.init_containers]
    return [
        _Holder(title=f'{kind} "{container.name}"', resources=container.resources)
        for kind, container in named
    ]


def _nothing_counts(pod: Pod) -> str:
    if pod.resources is not None:
        return "the pod's own resources name no cpu or memory, and its containers do not count then"
    return "no container requests or limits cpu or memory"


def _all_equal(pod: Pod, holders: list[_Holder]) -> str:
    if pod.resources is not None:
        return "the pod's own cpu and memory requests equal its limits"
    if any(_differs(holder, name) for holder in holders for name in _DECISIVE):
        return "the cpu and memory requests of all containers add up to the sum of their limits"
    return "every container has equal cpu and memory requests and limits"


def _first_gap(holders: list[_Holder]) -> str:
    for holder in holders:
        for name in _DECISIVE:
            if not _nanos(holder.resources, Side.LIMITS, name):
                return _absence(holder, Side.LIMITS, name)
    lists = [holder.resources for holder in holders]
    unequal = [
        name
        for name in _DECISIVE
        if _total(lists, Side.REQUESTS, name) != _total(lists, Side.LIMITS, name)
    ]
    holder, name = next(
        (holder, name) for holder in holders for name in unequal if _differs(holder, name)
    )
    if not _nanos(holder.resources, Side.REQUESTS, name):
        return _absence(holder, Side.REQUESTS, name)
    request, limit = holder.resources.requests[name], holder.resources.limits[name]
    return f"{holder.title}: {name} request {request} differs from its limit {limit}"


def _differs(holder: _Holder, name: str) -> bool:
    requested = _nanos(holder.resources, Side.REQUESTS, name)
    return requested != _nanos(holder.resources, Side.LIMITS, name)


def _absence(holder: _Holder, side: Side, name: str) -> str:
    noun = side.value.removesuffix("s")
    stated = side.of(holder.resources).get(name)
    if stated is None:
        return f"{holder.title} has no {name} {noun}"
    return f"{holder.title}: {name} {noun} {stated} counts as none"
