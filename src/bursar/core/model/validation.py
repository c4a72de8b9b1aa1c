"""Validation: what the API server would say about the resources of a pod.

Only rules about resources are here: requests, limits, overhead, claims, emptyDir
sizes, and scheduling gates, which decide when resources are asked for. A pod
without a problem here can still be refused for, say, a missing image.

The pod must have its defaults, for the API server fills them in before it looks.
"""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import (
    EPHEMERAL_STORAGE,
    MEMORY,
    label_errors,
    qualified_name_errors,
)
from bursar.core.model.pod import NO_RESOURCES, Container, Pod, ResourceRequirements
from bursar.core.model.problem import Problem, duplicate, forbidden, invalid, quoted, required
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation_pod_level import known_claims, validate_pod_level
from bursar.core.model.validation_requirements import validate_requirements

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Set by the kubelet on the API's copy of a static pod."""

WHOLE_OBJECT: Final = "[]"
"""How upstream prints the path of a problem with the object as a whole."""


def validate_pod(pod: Pod) -> tuple[Problem, ...]:
    """Judge a pod that is being created."""
    problems = validate_pod_spec(pod)
    if pod.node_name and pod.scheduling_gates:
        return (
            *problems,
            forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"),
        )
    return problems


def validate_pod_spec(pod: Pod, *, broken_pages_allowed: bool = False) -> tuple[Problem, ...]:
    """Judge a pod at any time of its life, whether it is being created or changed."""
    return (
        *_empty_dir_problems(pod),
        *_pod_claim_problems(pod),
        *_container_problems(pod, broken_pages_allowed=broken_pages_allowed),
        *validate_pod_level(pod, broken_pages_allowed=broken_pages_allowed),
        *_gate_problems(pod),
        *validate_requirements(
            ResourceRequirements(limits=pod.overhead),
            "spec.overhead",
            broken_pages_allowed=broken_pages_allowed,
        ),
    )


def validate_gate_update(old: Pod, new: Pod) -> tuple[Problem, ...]:
    """Judge a change of scheduling gates in a pod that exists: they may only go."""
    places = {gate: index for index, gate in enumerate(new.scheduling_gates)}
    return tuple(
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate}'",
        )
        for gate, index in places.items()
        if gate not in old.scheduling_gates
    )


def pod_warnings(pod: Pod) -> tuple[str, ...]:
    """What the API server warns of when it accepts the pod: memory or disk in parts of a byte."""
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


def _container_problems(pod: Pod, *, broken_pages_allowed: bool) -> list[Problem]:
    problems: list[Problem] = []
    claims = known_claims(pod)
    ephemeral = [*_located("ephemeralContainers", pod.ephemeral_containers)]
    for path, container in (
        *_located("containers", pod.containers),
        *_located("initContainers", pod.init_containers),
        *ephemeral,
    ):
        problems += validate_requirements(
            container.resources,
            f"{path}.resources",
            claim_names=claims,
            broken_pages_allowed=broken_pages_allowed,
        )
    problems += [
        forbidden(f"{path}.resources", "cannot be set for an Ephemeral Container")
        for path, container in ephemeral
        if container.resources != NO_RESOURCES
    ]
    return problems


def _empty_dir_problems(pod: Pod) -> list[Problem]:
    return [
        forbidden(
            f"spec.volumes[{volume.index}].emptyDir.sizeLimit",
            "SizeLimit field must be a valid resource quantity",
        )
        for volume in pod.empty_dirs
        if volume.size_limit is not None and volume.size_limit.is_negative
    ]


def _pod_claim_problems(pod: Pod) -> list[Problem]:
    if MIRROR_ANNOTATION in pod.annotations:
        refusal = forbidden(WHOLE_OBJECT, "static pods do not support resource claims")
        return [refusal] * len(pod.claim_names)
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, name in enumerate(pod.claim_names):
        field = f"spec.resourceClaims[{index}].name"
        if not name:
            problems.append(required(field))
        elif name in seen:
            problems.append(duplicate(field, name))
        else:
            problems += [invalid(field, name, error) for error in label_errors(name)]
            seen.add(name)
    return problems


def _gate_problems(pod: Pod) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, gate in enumerate(pod.scheduling_gates):
        field = f"spec.schedulingGates[{index}]"
        problems += [invalid(field, gate, error) for error in qualified_name_errors(gate)]
        if gate in seen:
            problems.append(duplicate(field, gate))
        seen.add(gate)
    return problems
