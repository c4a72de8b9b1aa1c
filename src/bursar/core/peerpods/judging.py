"""What the API server would refuse of a pod's resources, as far as that matters to a VM.

Once they are removed from the containers it can no longer say so. About the rest, such as
`spec.resourceClaims`, it says it itself.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from bursar.core.model.pod import Container, Pod
from bursar.core.model.problem import Problem, ProblemKind, duplicate, required
from bursar.core.model.validation.pod import validate_demand
from bursar.core.peerpods.plain import is_plain
from bursar.core.peerpods.reading import CONTAINERS, INIT_CONTAINERS

PROBLEMS_TOLD_MAX: Final = 5

_TOLERATED: Final = frozenset({ProblemKind.REQUIRED, ProblemKind.FORBIDDEN})
"""That something is lacking beside an amount, such as a limit, does not matter to a VM."""


def resource_problems(pod: Pod) -> tuple[Problem, ...]:
    """The first few of them. No more are looked for: a pod can have very many."""
    if is_plain(pod):
        return ()
    problems = (each for each in validate_demand(pod) if each.kind not in _TOLERATED)
    return tuple(islice(problems, PROBLEMS_TOLD_MAX))


def name_problems(pod: Pod) -> tuple[Problem, ...]:
    """The first container that has no name of its own, which is what a record goes by."""
    seen: set[str] = set()
    for key, containers in ((CONTAINERS, pod.containers), (INIT_CONTAINERS, pod.init_containers)):
        for index, container in enumerate(containers):
            if container.name in seen:
                return (_without_name(container, f"spec.{key}[{index}].name"),)
            seen.add(container.name)
    return ()


def _without_name(container: Container, field: str) -> Problem:
    return duplicate(field, container.name) if container.name else required(field)


def told(problems: Iterable[Problem]) -> str:
    return "; ".join(map(str, problems))
