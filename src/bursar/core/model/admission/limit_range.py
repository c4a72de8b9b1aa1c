"""LimitRanges: the defaults that they give containers, and the bounds that they set.

The texts are the admission plugin's. It lists the resources of a bound in no fixed order; here they
are sorted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from bursar.core.model.demand import CONTAINERS_ALONE, pod_limits, pod_requests
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.numbers.binary_float import binary64
from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.core.model.pod import Container, Pod
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList, nothing, rounded_to_milli

CONTAINER: Final = "Container"
POD: Final = "Pod"
MAX_MILLI_VALUE: Final = INT64_MAX // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeItem:
    """One of `spec.limits`."""

    type: str
    min: ResourceList = field(default_factory=nothing)
    max: ResourceList = field(default_factory=nothing)
    default: ResourceList = field(default_factory=nothing)
    default_request: ResourceList = field(default_factory=nothing)
    max_ratio: ResourceList = field(default_factory=nothing)

    def stored(self) -> "LimitRangeItem":
        """The item with the server's defaults: the maximum is the default limit, and so on."""
        if self.type != CONTAINER:
            return _rounded(self)
        default = {**self.max, **self.default}
        requests = {**self.min, **default, **self.default_request}
        return _rounded(replace(self, default=default, default_request=requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...] = ()


def _rounded(item: LimitRangeItem) -> LimitRangeItem:
    return replace(
        item,
        min=rounded_to_milli(item.min),
        max=rounded_to_milli(item.max),
        default=rounded_to_milli(item.default),
        default_request=rounded_to_milli(item.default_request),
        max_ratio=rounded_to_milli(item.max_ratio),
    )


# ------------------------------------------------------------------ defaults


def with_container_defaults(pod: Pod, limits: LimitRange) -> tuple[Pod, tuple[str, ...]]:
    """The pod with the LimitRange's defaults, and what was set: `cpu request for container app`."""
    default: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    for item in limits.items:
        if item.type == CONTAINER:
            stored = item.stored()
            default |= stored.default
            requests |= stored.default_request
    changes: list[str] = []
    containers = tuple(
        _completed(each, default, requests, "container", changes) for each in pod.containers
    )
    init = tuple(
        _completed(each, default, requests, "init container", changes)
        for each in pod.init_containers
    )
    return replace(pod, containers=containers, init_containers=init), tuple(changes)


def _completed(
    container: Container,
    default: ResourceList,
    requests: ResourceList,
    kind: str,
    changes: list[str],
) -> Container:
    resources = container.resources
    for side, wanted, stated in (
        ("request", requests, resources.requests),
        ("limit", default, resources.limits),
    ):
        if added := sorted(wanted.keys() - stated.keys()):
            changes.append(f"{', '.join(added)} {side} for {kind} {container.name}")
    return replace(
        container,
        resources=replace(
            resources,
            requests={**requests, **resources.requests},
            limits={**default, **resources.limits},
        ),
    )


# ------------------------------------------------------------------ bounds


def limit_errors(pod: Pod, limits: LimitRange) -> tuple[str, ...]:
    """What of the pod is outside the LimitRange, each text once. The pod must have its defaults."""
    errors: list[str] = []
    for item in limits.items:
        stored = item.stored()
        if item.type == CONTAINER:
            for container in (*pod.containers, *pod.init_containers):
                resources = container.resources
                errors += _outside(stored, resources.requests, resources.limits)
        elif item.type == POD:
            errors += _outside(stored, *_whole_pod(pod))
    return tuple(dict.fromkeys(errors))


def _whole_pod(pod: Pod) -> tuple[ResourceList, ResourceList]:
    """Requests and limits of the pod. Of pod-level resources, the plugin reads cpu and memory."""
    requests, limits = pod_requests(pod, CONTAINERS_ALONE), pod_limits(pod, CONTAINERS_ALONE)
    for name in (CPU, MEMORY) if pod.resources is not None else ():
        assert pod.resources is not None, "asked for above"
        if name in pod.resources.requests:
            requests[name] = pod.resources.requests[name]
        if name in pod.resources.limits:
            limits[name] = pod.resources.limits[name]
    return requests, limits


def _outside(item: LimitRangeItem, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    for name, bound in _by_name(item.min):
        yield from _below(item.type, name, bound, requests.get(name), limits.get(name))
    for name, bound in _by_name(item.max):
        yield from _above(item.type, name, bound, requests.get(name), limits.get(name))
    for name, bound in _by_name(item.max_ratio):
        yield from _ratio(item.type, name, bound, requests.get(name), limits.get(name))


def _by_name(amounts: ResourceList) -> Iterable[tuple[str, Quantity]]:
    return sorted(amounts.items(), key=lambda pair: pair[0])


def _below(
    kind: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    least = f"minimum {name} usage per {kind} is {bound}"
    requested, limited, enforced = _numbers(request, limit, bound)
    if request is None:
        yield f"{least}.  No request is specified"
    elif requested < enforced:
        yield f"{least}, but request is {request}"
    elif limit is not None and limited < enforced:
        yield f"{least}, but limit is {limit}"


def _above(
    kind: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    most = f"maximum {name} usage per {kind} is {bound}"
    requested, limited, enforced = _numbers(request, limit, bound)
    if limit is None:
        yield f"{most}.  No limit is specified"
    elif limited > enforced:
        yield f"{most}, but limit is {limit}"
    elif request is not None and requested > enforced:
        yield f"{most}, but request is {request}"


def _ratio(
    kind: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    rule = f"{name} max limit to request ratio per {kind} is {bound}"
    requested, limited, _ = _numbers(request, limit, bound)
    if not requested:
        yield f"{rule}, but no request is specified or request is 0"
        return
    if not limited:
        yield f"{rule}, but no limit is specified or limit is 0"
        return
    observed = binary64(Fraction(limited, requested))
    most = binary64(bound.value())
    compared = observed
    if bound.value() <= MAX_MILLI_VALUE:
        compared, most = binary64(observed * 1000), binary64(bound.milli_value())
    if compared > most:
        yield f"{rule}, but provided ratio is {_six_digits(observed)}"


def _numbers(
    request: Quantity | None, limit: Quantity | None, bound: Quantity
) -> tuple[int, int, int]:
    """The amounts in thousandths, or in wholes if one of them is too large for that."""
    amounts = (request or ZERO, limit or ZERO, bound)
    if all(amount.value() <= MAX_MILLI_VALUE for amount in amounts):
        requested, limited, enforced = (amount.milli_value() for amount in amounts)
    else:
        requested, limited, enforced = (amount.value() for amount in amounts)
    return requested, limited, enforced


def _six_digits(number: Fraction) -> str:
    """The number as Go's `%f` prints it."""
    millionths = round(number * 1_000_000)
    return f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"
