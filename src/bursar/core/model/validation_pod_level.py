"""What is wrong with the resources a pod states for itself, beside those of its containers."""

from typing import Final

from bursar.core.model.demand import DemandOptions, pod_limits, pod_requests
from bursar.core.model.names import is_hugepages
from bursar.core.model.pod import Pod, ResourceRequirements
from bursar.core.model.problem import Problem, forbidden, invalid
from bursar.core.model.validation_requirements import validate_requirements

PATH: Final = "spec.resources"
WINDOWS: Final = "windows"

_CONTAINERS_ALONE: Final = DemandOptions(exclude_overhead=True, skip_pod_level=True)


def validate_pod_level(pod: Pod, *, broken_pages_allowed: bool = False) -> tuple[Problem, ...]:
    """Judge `spec.resources`; a pod without them has no problem here."""
    if pod.resources is None:
        return ()
    if pod.os_name == WINDOWS:
        return (forbidden(PATH, "may not be set for a windows pod"),)
    problems: list[Problem] = []
    if pod.resources.claims:
        problems.append(
            forbidden(f"{PATH}.claims", "claims may not be set for Resources at pod-level")
        )
    problems += validate_requirements(
        pod.resources,
        PATH,
        claim_names=known_claims(pod),
        pod_level=True,
        broken_pages_allowed=broken_pages_allowed,
    )
    problems += _aggregates(pod, pod.resources)
    problems += _single_limits(pod, pod.resources)
    return tuple(problems)


def known_claims(pod: Pod) -> frozenset[str]:
    """The names in `spec.resourceClaims` that a container can refer to."""
    return frozenset(pod.claim_names) - {""}


def _aggregates(pod: Pod, stated: ResourceRequirements) -> list[Problem]:
    """The containers together may not request more than the pod, nor be limited to more pages."""
    problems: list[Problem] = []
    for name, total in sorted(pod_requests(pod, _CONTAINERS_ALONE).items(), key=_name_of):
        request = stated.requests.get(name)
        if request is not None and total > request:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            problems.append(invalid(f"{PATH}.requests[{name}]", str(request), detail))
    for name, total in sorted(pod_limits(pod, _CONTAINERS_ALONE).items(), key=_name_of):
        limit = stated.limits.get(name)
        if is_hugepages(name) and limit is not None and total > limit:
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            problems.append(invalid(f"{PATH}.limits[{name}]", str(limit), detail))
    return problems


def _single_limits(pod: Pod, stated: ResourceRequirements) -> list[Problem]:
    """No container may be limited to more than the pod. Init containers are not looked at."""
    problems: list[Problem] = []
    for index, container in enumerate(pod.containers):
        for name, limit in sorted(container.resources.limits.items(), key=_name_of):
            bound = stated.limits.get(name)
            if bound is not None and limit > bound:
                detail = f"must be less than or equal to pod limits of {bound}"
                field = f"{PATH}.containers[{index}][{name}].limits"
                problems.append(invalid(field, str(limit), detail))
    return problems


def _name_of(item: tuple[str, object]) -> str:
    return item[0]
