"""Validation of the resources of a pod.

Only rules about resources are here: requests, limits, overhead, claims, emptyDir
sizes, and scheduling gates, which decide when resources are asked for. A pod
without a problem here can still be refused for, say, a missing image.

The pod must have its defaults, because the API server sets them before validation.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Final

from bursar.core.model.names import (
    EPHEMERAL_STORAGE,
    MEMORY,
    label_errors,
    qualified_name_errors,
)
from bursar.core.model.pod import (
    MIRROR_ANNOTATION,
    NO_RESOURCES,
    Container,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.problem import Problem, duplicate, forbidden, invalid, quoted, required
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.pod_level import validate_pod_level
from bursar.core.model.validation.requirements import KnownClaims, validate_requirements

WHOLE_OBJECT: Final = "[]"
"""How upstream prints the path of a problem with the object as a whole."""


def validate_pod(pod: Pod) -> tuple[Problem, ...]:
    """Validate a pod that is being created."""
    problems = validate_pod_spec(pod)
    if pod.node_name and pod.scheduling_gates:
        return (
            *problems,
            forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"),
        )
    return problems


def validate_pod_spec(pod: Pod, *, broken_pages_allowed: bool = False) -> tuple[Problem, ...]:
    """Validate a pod that is being created or changed."""
    return (
        *_empty_dir_problems(pod),
        *_pod_claim_problems(pod),
        *validate_demand(pod, broken_pages_allowed=broken_pages_allowed),
        *_gate_problems(pod),
        *validate_requirements(
            ResourceRequirements(limits=pod.overhead),
            "spec.overhead",
            broken_pages_allowed=broken_pages_allowed,
        ),
    )


def validate_demand(pod: Pod, *, broken_pages_allowed: bool = False) -> Iterator[Problem]:
    """Validate only the resources of the containers and of the pod itself.

    Problems are computed one by one, so a caller that needs only the first can stop.
    """
    claims = KnownClaims(pod.claim_names)
    yield from _container_problems(pod, claims, broken_pages_allowed=broken_pages_allowed)
    yield from validate_pod_level(pod, claims, broken_pages_allowed=broken_pages_allowed)


def validate_gate_update(old: Pod, new: Pod) -> tuple[Problem, ...]:
    """Validate a change of scheduling gates: gates of an existing pod can only be removed."""
    before = frozenset(old.scheduling_gates)
    places = {gate: index for index, gate in enumerate(new.scheduling_gates)}
    return tuple(
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate}'",
        )
        for gate, index in places.items()
        if gate not in before
    )


def pod_warnings(pod: Pod) -> tuple[str, ...]:
    """The API server's warnings for a valid pod: fractions of bytes."""
    warnings = _fractional_bytes(pod.overhead, "spec.overhead", MEMORY)
    warnings += _fractional_bytes(pod.overhead, "spec.overhead", EPHEMERAL_STORAGE)
    for path, container in (
        *_located("initContainers", pod.init_containers),
        *_located("containers", pod.containers),
        *_located("ephemeralContainers", pod.ephemeral_containers),
    ):
        resources = container.resources
        for name in (MEMORY, EPHEMERAL_STORAGE):
            warnings += _fractional_bytes(resources.limits, f"{path}.resources.limits", name)
            warnings += _fractional_bytes(resources.requests, f"{path}.resources.requests", name)
    return tuple(warnings)


def _fractional_bytes(amounts: ResourceList, path: str, name: str) -> list[str]:
    amount = amounts.get(name)
    if amount is None or amount.milli_value() % 1000 == 0:
        return []
    text = quoted(str(amount))
    return [f"{path}[{name}]: fractional byte value {text} is invalid, must be an integer"]


# ------------------------------------------------------------------ the parts of a pod


def _located(field: str, containers: tuple[Container, ...]) -> Iterator[tuple[str, Container]]:
    for index, container in enumerate(containers):
        yield f"spec.{field}[{index}]", container


def _container_problems(
    pod: Pod, claims: KnownClaims, *, broken_pages_allowed: bool
) -> Iterator[Problem]:
    for path, container in (
        *_located("containers", pod.containers),
        *_located("initContainers", pod.init_containers),
        *_located("ephemeralContainers", pod.ephemeral_containers),
    ):
        yield from validate_requirements(
            container.resources,
            f"{path}.resources",
            claims=claims,
            broken_pages_allowed=broken_pages_allowed,
        )
    for path, container in _located("ephemeralContainers", pod.ephemeral_containers):
        if container.resources != NO_RESOURCES:
            yield forbidden(f"{path}.resources", "cannot be set for an Ephemeral Container")


def _empty_dir_problems(pod: Pod) -> Iterator[Problem]:
    for volume in pod.empty_dirs:
        if volume.size_limit is not None and volume.size_limit.is_negative:
            yield forbidden(
                f"spec.volumes[{volume.index}].emptyDir.sizeLimit",
                "SizeLimit field must be a valid resource quantity",
            )


def _pod_claim_problems(pod: Pod) -> Iterator[Problem]:
    if MIRROR_ANNOTATION in pod.annotations:
        refusal = forbidden(WHOLE_OBJECT, "static pods do not support resource claims")
        yield from repeat(refusal, len(pod.claim_names))
        return
    seen: set[str] = set()
    for index, name in enumerate(pod.claim_names):
        field = f"spec.resourceClaims[{index}].name"
        if not name:
            yield required(field)
        elif name in seen:
            yield duplicate(field, name)
        else:
            for error in label_errors(name):
                yield invalid(field, name, error)
            seen.add(name)


def _gate_problems(pod: Pod) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, gate in enumerate(pod.scheduling_gates):
        field = f"spec.schedulingGates[{index}]"
        for error in qualified_name_errors(gate):
            yield invalid(field, gate, error)
        if gate in seen:
            yield duplicate(field, gate)
        seen.add(gate)
