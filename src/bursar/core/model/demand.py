"""Pod demand: what a whole pod requests and is limited to, as every Kubernetes component sums it.

One rule serves the scheduler, the kubelet, quota and kubectl; they differ only in
the options they pass. Per resource it is the greater of

- all containers and sidecars together, and
- the peak while starting: one init container beside the sidecars started before it,

unless the pod states its own number, which then replaces both. Overhead comes on top.

Each number keeps the text and format upstream would give it: one taken over whole
stays as typed, a sum is written afresh in the format of its first non-zero part.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeAlias

from bursar.core.model.names import is_pod_level
from bursar.core.model.pod import (
    CONDITION_RESIZE_PENDING,
    REASON_INFEASIBLE,
    ContainerStatus,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import NOTHING, ResourceList, nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandOptions:
    """What to count. By default: the spec, with pod-level resources and overhead."""

    use_status: bool = False
    """Count what an in-place resize has granted or already applied, where that is more."""
    use_pod_level_status: bool = False
    """Count the status of pod-level resources as well. Has no effect without `use_status`."""
    exclude_overhead: bool = False
    non_missing: ResourceList = field(default_factory=nothing)
    """Requests assumed for each container that names none; an explicit zero is kept."""
    skip_pod_level: bool = False


INCOMING: Final = DemandOptions()
"""As the scheduler counts a pod that has no node yet."""

ASSIGNED: Final = DemandOptions(use_status=True, use_pod_level_status=True)
"""As the scheduler counts a pod that has a node."""

KUBELET: Final = DemandOptions()
"""As the kubelet counts for a pod's cgroup: it first puts what it allocated into the spec."""

QUOTA: Final = DemandOptions(use_status=True)
"""As a ResourceQuota counts: with the status of containers, without pod-level status."""

DESCRIBE_ROW: Final = DemandOptions(use_status=True)
"""As one pod's line in `kubectl describe node` counts."""

DESCRIBE_TOTAL: Final = DemandOptions()
"""As the totals of `kubectl describe node` count. During a resize they differ from the sum of
the lines above them, which count as `DESCRIBE_ROW`."""

CONTAINERS_ALONE: Final = DemandOptions(exclude_overhead=True, skip_pod_level=True)
"""Only the containers of a pod, to compare them with its pod-level resources."""


def pod_requests(pod: Pod, options: DemandOptions = INCOMING) -> dict[str, Quantity]:
    """What the pod as a whole requests, per resource.

    Overhead counts even where no container requests the resource.
    """
    total = _aggregate(pod, Side.REQUESTS, options)
    if pod.resources is not None and not options.skip_pod_level:
        total |= pod_level(pod, Side.REQUESTS, options)
    if pod.overhead and not options.exclude_overhead:
        _add_to(total, pod.overhead)
    return total


def pod_limits(pod: Pod, options: DemandOptions = INCOMING) -> dict[str, Quantity]:
    """What the pod as a whole is limited to, per resource, as far as limits are set.

    A container without a limit adds nothing, so a number here does not mean that
    the pod is bounded by it; `container_limits_seen` tells. Overhead counts only
    where there is a limit other than zero.
    """
    total = _aggregate(pod, Side.LIMITS, options)
    if pod.resources is not None and not options.skip_pod_level:
        total |= pod_level(pod, Side.LIMITS, options)
    if pod.overhead and not options.exclude_overhead:
        for name, amount in pod.overhead.items():
            if name in total and not total[name].is_zero:
                total[name] += amount
    return total


def container_limits_seen(
    pod: Pod, options: DemandOptions = INCOMING, *, names: Collection[str] | None = None
) -> tuple[ResourceList, ...]:
    """The limits in force together, one list per container and per step of the start.

    These are the lists the kubelet inspects for a container without a limit. A
    sidecar's step shows it with the sidecars before it; a plain init container's
    shows it with all sidecars already started.

    The lists of all sidecars grow with the square of their number if each has a resource of
    its own. With `names`, the lists hold these resources only.
    """
    lists = _counted_lists(pod, Side.LIMITS, options)
    if names is not None:
        lists = [{name: found[name] for name in names if name in found} for found in lists]
    count = len(pod.containers)
    return (*lists[:count], *_init_steps(pod, lists[count:]))


# ------------------------------------------------------------------ what one container counts for


class Side(Enum):
    """Which of the two lists in `resources` is meant."""

    REQUESTS = "requests"
    LIMITS = "limits"

    def of(self, resources: ResourceRequirements) -> ResourceList:
        return resources.requests if self is Side.REQUESTS else resources.limits


class Basis(Enum):
    """Where a number was read."""

    SPEC = "spec"
    ACTUAL = "actual"
    """The status says that the runtime has applied it."""
    ALLOCATED = "allocated"
    """The status says that the kubelet has granted it."""
    ASSUMED = "assumed"
    """The container names none, and the caller's options supply one."""


Readings: TypeAlias = tuple[tuple[Basis, ResourceList], ...]
"""What was read, and where. The greatest amount counts, per resource; the first among equals."""


def container_readings(pod: Pod, side: Side, options: DemandOptions) -> list[Readings]:
    """The readings for every container, then for every init container, in the spec's order."""
    statuses: dict[str, ContainerStatus] = {}
    if options.use_status:
        statuses |= {status.name: status for status in pod.container_statuses}
        statuses |= {status.name: status for status in pod.init_container_statuses}
    infeasible = bool(statuses) and is_resize_infeasible(pod)
    readings = [
        _readings(side, container.resources, statuses.get(container.name), infeasible=infeasible)
        for container in pod.containers
    ]
    for container in pod.init_containers:
        # A plain init container cannot be resized, so its status has no say.
        status = statuses.get(container.name) if container.is_sidecar else None
        readings.append(_readings(side, container.resources, status, infeasible=infeasible))
    if options.non_missing and side is Side.REQUESTS:
        return [
            (*lists, (Basis.ASSUMED, _missing(lists, options.non_missing))) for lists in readings
        ]
    return readings


def pod_level_readings(pod: Pod, side: Side, options: DemandOptions) -> Readings:
    """The readings for the pod's own resources, which must be set."""
    assert pod.resources is not None
    spec = side.of(pod.resources)
    status = pod.status_resources
    if status is None or not (options.use_status and options.use_pod_level_status):
        return ((Basis.SPEC, spec),)
    actual = side.of(status)
    if side is Side.LIMITS and not actual:
        # Upstream takes a status without limits for no status, and keeps to the spec.
        return ((Basis.SPEC, spec),)
    allocated = pod.status_allocated if side is Side.REQUESTS else NOTHING
    return _resize_readings(spec, actual, allocated, infeasible=is_resize_infeasible(pod))


def has_applied_resources(pod: Pod) -> bool:
    """Whether the status of any container says which resources the runtime has applied."""
    return any(
        status.resources is not None
        for status in (*pod.container_statuses, *pod.init_container_statuses)
    )


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet has refused the resize for good. The spec then does not count.

    Upstream looks at the first such condition only, and not at whether it is true.
    """
    for condition in pod.conditions:
        if condition.type == CONDITION_RESIZE_PENDING:
            return condition.reason == REASON_INFEASIBLE
    return False


def counted(readings: Readings) -> ResourceList:
    """The greatest amount per resource."""
    first = readings[0][1]
    if len(readings) == 1:
        return first
    greatest = dict(first)
    for _, amounts in readings[1:]:
        _raise_to(greatest, amounts)
    return greatest


def _readings(
    side: Side,
    spec: ResourceRequirements,
    status: ContainerStatus | None,
    *,
    infeasible: bool,
) -> Readings:
    if status is None or status.resources is None:
        return ((Basis.SPEC, side.of(spec)),)
    allocated = status.allocated if side is Side.REQUESTS else NOTHING
    return _resize_readings(
        side.of(spec), side.of(status.resources), allocated, infeasible=infeasible
    )


def _resize_readings(
    spec: ResourceList, actual: ResourceList, allocated: ResourceList, *, infeasible: bool
) -> Readings:
    reported = ((Basis.ACTUAL, actual), (Basis.ALLOCATED, allocated))
    return reported if infeasible else ((Basis.SPEC, spec), *reported)


def _missing(readings: Readings, assumed: ResourceList) -> ResourceList:
    # Added to zero, as upstream does, which writes the amount in its canonical text.
    return {
        name: ZERO + amount
        for name, amount in assumed.items()
        if not any(name in amounts for _, amounts in readings)
    }


# ------------------------------------------------------------------ the sum of all


def pod_level(pod: Pod, side: Side, options: DemandOptions) -> dict[str, Quantity]:
    """The numbers the pod states for itself, which replace those of its containers.

    Only resources named in the spec count. After a refused resize, one of which the
    status says nothing counts as zero.
    """
    assert pod.resources is not None
    amounts = counted(pod_level_readings(pod, side, options))
    return {name: amounts.get(name, ZERO) for name in side.of(pod.resources) if is_pod_level(name)}


def _aggregate(pod: Pod, side: Side, options: DemandOptions) -> dict[str, Quantity]:
    lists = _counted_lists(pod, side, options)
    total: dict[str, Quantity] = {}
    for amounts in lists[: len(pod.containers)]:
        _add_to(total, amounts)
    if pod.init_containers:
        starting = lists[len(pod.containers) :]
        for container, amounts in zip(pod.init_containers, starting, strict=True):
            if container.is_sidecar:
                _add_to(total, amounts)
        _raise_to(total, _init_peak(pod, starting))
    return total


def _init_peak(pod: Pod, starting: Sequence[ResourceList]) -> dict[str, Quantity]:
    """The greatest amount of each resource over all steps of the start.

    A step differs from the one before only in the resources that its own container names. The
    others were compared at an earlier step, so the work is linear in the amounts of the pod.
    """
    peak: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    for container, amounts in zip(pod.init_containers, starting, strict=True):
        if container.is_sidecar:
            _add_to(sidecars, amounts)
            _raise_to(peak, {name: sidecars[name] for name in amounts})
        else:
            _raise_to(peak, _beside(amounts, sidecars))
    return peak


def _beside(amounts: ResourceList, sidecars: ResourceList) -> ResourceList:
    """The resources of one init container, each with what the sidecars have of it."""
    return {
        name: amount + sidecars[name] if name in sidecars else amount
        for name, amount in amounts.items()
    }


def _counted_lists(pod: Pod, side: Side, options: DemandOptions) -> list[ResourceList]:
    is_spec_alone = not options.use_status or not has_applied_resources(pod)
    if is_spec_alone and not options.non_missing:
        # The most frequent question by far, and the spec alone answers it.
        return [side.of(c.resources) for c in (*pod.containers, *pod.init_containers)]
    return [counted(readings) for readings in container_readings(pod, side, options)]


def _init_steps(pod: Pod, starting: Sequence[ResourceList]) -> Iterator[ResourceList]:
    """What runs at the same time while each init container starts."""
    sidecars: dict[str, Quantity] = {}
    for container, amounts in zip(pod.init_containers, starting, strict=True):
        if container.is_sidecar:
            _add_to(sidecars, amounts)
            yield dict(sidecars)
        else:
            yield {**sidecars, **_beside(amounts, sidecars)}


def _add_to(total: dict[str, Quantity], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        held = total.get(name)
        total[name] = amount if held is None else held + amount


def _raise_to(total: dict[str, Quantity], amounts: ResourceList) -> None:
    """Take over each amount greater than the one held."""
    for name, amount in amounts.items():
        held = total.get(name)
        if held is None:
            total[name] = amount
        elif amount > held:
            # Comparing with a number in arbitrary precision turns the other into one as well.
            total[name] = amount if amount.big or not held.big else replace(amount, big=True)
