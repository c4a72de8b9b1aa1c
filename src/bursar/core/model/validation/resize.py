"""Validation of in-place resizes by the rules of the `resize` subresource.

Only cpu and memory can change; an amount can be added or altered but not taken
away, and the QoS class must stay. Both pods must have their defaults.

Changes to anything but resources are not problems: the subresource ignores them.
The resize policy of containers is not checked, because a core pod does not have it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import (
    MIRROR_ANNOTATION,
    NO_RESOURCES,
    Container,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.problem import JsonText, Problem, forbidden, invalid
from bursar.core.model.qos import qos_class
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.pod import WHOLE_OBJECT, validate_pod_spec
from bursar.core.model.validation.pod_level import WINDOWS
from bursar.core.model.validation.requirements import breaks_pages

_MUTABLE: Final = frozenset({CPU, MEMORY})
_ONLY_CPU_AND_MEMORY: Final = "only cpu and memory resources are mutable"


def validate_resize(old: Pod, new: Pod) -> tuple[Problem, ...]:
    """Validate the change from the stored pod `old` to `new`."""
    if MIRROR_ANNOTATION in old.annotations:
        return (forbidden(WHOLE_OBJECT, "static pods cannot be resized"),)
    if old.os_name == WINDOWS:
        return (forbidden(WHOLE_OBJECT, "windows pods cannot be resized"),)
    new = _resources_changed_only(old, new)
    problems = [*validate_pod_spec(new, broken_pages_allowed=_has_broken_pages(old))]
    if (old.reported_qos or qos_class(old).value) != qos_class(new).value:
        detail = "Pod QOS Class may not change as a result of resizing"
        problems.append(invalid("spec", JsonText(new.reported_qos), detail))
    if not _node_can_resize(old):
        problems.append(forbidden("spec", "Pod running on node without support for resize"))
    problems += _pod_level_problems(old, new)
    misplaced = [*_misplaced(old, new)]
    if misplaced:
        return (*problems, *misplaced)
    problems += [*_removed(old, new), *_immutable(old, new)]
    if not problems and _empty_block_changed(old, new):
        problems.append(forbidden("spec", _ONLY_CPU_AND_MEMORY))
    return tuple(problems)


def _resources_changed_only(old: Pod, new: Pod) -> Pod:
    """The new pod as the subresource sees it: the old one with the new one's resources.

    It gives up on that when containers come or go, and validation then refuses the change.
    """
    if len(old.containers) != len(new.containers):
        return new
    if len(old.init_containers) != len(new.init_containers):
        return new
    return replace(
        old,
        resources=new.resources,
        containers=_same_containers(old.containers, new.containers),
        init_containers=_same_containers(old.init_containers, new.init_containers),
    )


def _same_containers(
    old: tuple[Container, ...], new: tuple[Container, ...]
) -> tuple[Container, ...]:
    pairs = list(zip(old, new, strict=True))
    if any(before.name != after.name for before, after in pairs):
        return new
    return tuple(replace(before, resources=after.resources) for before, after in pairs)


def _has_broken_pages(pod: Pod) -> bool:
    containers = (*pod.containers, *pod.init_containers, *pod.ephemeral_containers)
    lists = [side for c in containers for side in (c.resources.limits, c.resources.requests)]
    return any(
        breaks_pages(name, amount)
        for amounts in (*lists, pod.overhead)
        for name, amount in amounts.items()
    )


def _node_can_resize(pod: Pod) -> bool:
    """A kubelet that can resize reports the resources of running containers.

    Upstream looks at the first running one. While none runs, it assumes the best.
    """
    for status in pod.container_statuses:
        if status.state is not None and status.state.kind == "running":
            return status.resources is not None
    return True


# ------------------------------------------------------------------ the pod's own resources


def _states_amounts(pod: Pod) -> bool:
    return pod.resources is not None and bool(pod.resources.requests or pod.resources.limits)


def _pod_level_problems(old: Pod, new: Pod) -> Iterator[Problem]:
    if not _states_amounts(old) and not _states_amounts(new):
        return
    if new.resources is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    was, now = old.resources or NO_RESOURCES, new.resources
    for side in _removed_sides(was, now):
        yield forbidden(f"spec.resources.{side}", f"pod-level resource {side} cannot be removed")
    if _fixed(was) != _fixed(now) or was.claims != now.claims:
        yield forbidden("spec", f"{_ONLY_CPU_AND_MEMORY} at pod-level")


def _empty_block_changed(old: Pod, new: Pod) -> bool:
    """A block without amounts came or went, which upstream notices only in the end."""
    neither = not _states_amounts(old) and not _states_amounts(new)
    return neither and old.resources != new.resources


# ------------------------------------------------------------------ containers


def _misplaced(old: Pod, new: Pod) -> Iterator[Problem]:
    """Containers that came, went, moved or took another name."""
    for field, before, after in (
        ("containers", old.containers, new.containers),
        ("initContainers", old.init_containers, new.init_containers),
    ):
        if len(before) != len(after):
            yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (was, now) in enumerate(zip(before, after, strict=True)):
            if was.name != now.name:
                yield forbidden(
                    f"spec.{field}[{index}].name",
                    f"{field} may not be renamed or reordered on resize",
                )


def _removed(old: Pod, new: Pod) -> Iterator[Problem]:
    for field, before, after in (
        ("initContainers", old.init_containers, new.init_containers),
        ("containers", old.containers, new.containers),
    ):
        for index, (was, now) in enumerate(zip(before, after, strict=True)):
            for side in _removed_sides(was.resources, now.resources):
                yield forbidden(
                    f"spec.{field}[{index}].resources.{side}",
                    f"resource {side} cannot be removed",
                )


def _immutable(old: Pod, new: Pod) -> Iterator[Problem]:
    for was, now in zip(old.containers, new.containers, strict=True):
        if not _keeps_fixed_part(was, now):
            yield forbidden("spec", _ONLY_CPU_AND_MEMORY)
    for index, (was, now) in enumerate(zip(old.init_containers, new.init_containers, strict=True)):
        if not _keeps_fixed_part(was, now):
            yield forbidden(
                f"spec.initContainers[{index}]",
                "only cpu and memory resources for init or sidecar containers are mutable",
            )


def _keeps_fixed_part(was: Container, now: Container) -> bool:
    # Upstream forgets the new claims before it compares. So a container that has claims
    # cannot be resized at all, and one that has none may acquire some.
    return not was.resources.claims and _fixed(was.resources) == _fixed(now.resources)


# ------------------------------------------------------------------ parts of a resources block


def _removed_sides(was: ResourceRequirements, now: ResourceRequirements) -> Iterator[str]:
    if not was.requests.keys() <= now.requests.keys():
        yield "requests"
    if not was.limits.keys() <= now.limits.keys():
        yield "limits"


def _fixed(resources: ResourceRequirements) -> tuple[ResourceList, ResourceList]:
    return _without_mutable(resources.requests), _without_mutable(resources.limits)


def _without_mutable(amounts: ResourceList) -> ResourceList:
    return {name: amount for name, amount in amounts.items() if name not in _MUTABLE}
