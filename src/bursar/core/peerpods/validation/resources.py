"""Validation of a peer pod's resources, in the API server's words.

Once the rewrite has removed the resources, the API server no longer sees them and cannot refuse
them. Fields that stay in the pod, such as `spec.resourceClaims`, are left to the API server.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from bursar.core.model.pod import Pod
from bursar.core.model.problem import Problem, ProblemKind, duplicate, required
from bursar.core.model.validation.pod import validate_demand
from bursar.core.peerpods.validation.trivially_valid import is_trivially_valid

PROBLEMS_MAX: Final = 5
"""Most problems that are reported for one pod."""

_TOLERATED: Final = frozenset({ProblemKind.REQUIRED, ProblemKind.FORBIDDEN})
"""Kinds of problem that do not matter to a VM, such as an extended resource without a limit."""


def resource_problems(pod: Pod) -> tuple[Problem, ...]:
    """The first `PROBLEMS_MAX` problems. The search ends there, because a pod can have many."""
    if is_trivially_valid(pod):
        return ()
    problems = (each for each in validate_demand(pod) if each.kind not in _TOLERATED)
    return tuple(islice(problems, PROBLEMS_MAX))


def name_problems(pod: Pod) -> tuple[Problem, ...]:
    """The first container whose name is not unique. The record identifies containers by name."""
    seen: set[str] = set()
    for field, containers in (
        ("spec.containers", pod.containers),
        ("spec.initContainers", pod.init_containers),
    ):
        for index, container in enumerate(containers):
            if container.name in seen:
                place = f"{field}[{index}].name"
                return (duplicate(place, container.name) if container.name else required(place),)
            seen.add(container.name)
    return ()


def joined(problems: Iterable[Problem]) -> str:
    return "; ".join(map(str, problems))
