"""Validation of pod-level resources."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from bursar.core.model.demand import CONTAINERS_ALONE, Side, pod_limits, pod_requests
from bursar.core.model.names import is_hugepages
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.problem import Problem, forbidden, invalid
from bursar.core.model.validation.requirements import KnownClaims, validate_requirements

PATH: Final = "spec.resources"
WINDOWS: Final = "windows"


def validate_pod_level(
    pod: Pod, claims: KnownClaims, *, broken_pages_allowed: bool = False
) -> Iterator[Problem]:
    """Validate `spec.resources`. A pod without them has no problems."""
    if pod.resources is None:
        return
    if pod.os_name == WINDOWS:
        yield forbidden(PATH, "may not be set for a windows pod")
        return
    if pod.resources.claims:
        yield forbidden(f"{PATH}.claims", "claims may not be set for Resources at pod-level")
    yield from validate_requirements(
        pod.resources,
        PATH,
        claims=claims,
        pod_level=True,
        broken_pages_allowed=broken_pages_allowed,
    )
    yield from _aggregates(pod, pod.resources)
    yield from _single_limits(pod, pod.resources)


def _aggregates(pod: Pod, stated: ResourceRequirements) -> Iterator[Problem]:
    """The containers together may not request more than the pod, nor be limited to more pages."""
    for name, part in _parts(pod, Side.REQUESTS, stated.requests):
        request, total = stated.requests[name], pod_requests(part, CONTAINERS_ALONE)[name]
        if total > request:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            yield invalid(f"{PATH}.requests[{name}]", str(request), detail)
    for name, part in _parts(pod, Side.LIMITS, filter(is_hugepages, stated.limits)):
        limit, total = stated.limits[name], pod_limits(part, CONTAINERS_ALONE)[name]
        if total > limit:
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            yield invalid(f"{PATH}.limits[{name}]", str(limit), detail)


def _parts(pod: Pod, side: Side, names: Iterable[str]) -> Iterator[tuple[str, Pod]]:
    """For each of these names, sorted, the pod as far as its containers name it.

    Summing up a pod goes through all its resources once for each init container. With
    thousands of both that takes minutes, and hardly any container names more than a few.
    """
    wanted = frozenset(names)
    parts: dict[str, tuple[list[Container], list[Container]]] = {}
    for place, containers in enumerate((pod.containers, pod.init_containers)):
        for container in containers:
            amounts = side.of(container.resources)
            for name in wanted.intersection(amounts):
                alone = {name: amounts[name]}
                part = replace(
                    container, resources=ResourceRequirements(requests=alone, limits=alone)
                )
                parts.setdefault(name, ([], []))[place].append(part)
    for name in sorted(parts):
        running, starting = map(tuple, parts[name])
        yield name, Pod(namespace="", name="", containers=running, init_containers=starting)


def _single_limits(pod: Pod, stated: ResourceRequirements) -> Iterator[Problem]:
    """No container may be limited to more than the pod. Init containers are not checked."""
    for index, container in enumerate(pod.containers):
        for name, limit in sorted(container.resources.limits.items(), key=_name_of):
            bound = stated.limits.get(name)
            if bound is not None and limit > bound:
                detail = f"must be less than or equal to pod limits of {bound}"
                field = f"{PATH}.containers[{index}][{name}].limits"
                yield invalid(field, str(limit), detail)


def _name_of(item: tuple[str, object]) -> str:
    return item[0]
