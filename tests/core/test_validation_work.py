"""How much work it is to judge a pod: its author decides how long the lists in it are.

What counts is how often a name is looked at. Twice as many names are twice as much work; if
each were compared with all others, it would be four times as much.
"""

from collections.abc import Callable

import pytest

from bursar.core.model.pod import ClaimReference, Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.model.validation.pod import validate_gate_update, validate_pod_spec
from support.builders.pods import resources
from support.looks import Looks

FEW, MANY = 200, 400


def claiming(*claims: ClaimReference) -> Container:
    return Container(name="c", resources=ResourceRequirements(claims=claims))


def with_claims(looks: Looks, count: int) -> Pod:
    """All of them known, each referred to once."""
    names = [looks.name(f"claim-{index}") for index in range(count)]
    references = [ClaimReference(name=name) for name in names]
    return Pod(
        namespace="a", name="b", claim_names=tuple(names), containers=(claiming(*references),)
    )


def with_parts_of_claims(looks: Looks, count: int) -> Pod:
    """Every second one is a part of a claim, and then comes the whole."""
    names = [looks.name(f"claim-{index}/part") for index in range(count)]
    wholes = [looks.name(f"claim-{index}") for index in range(count)]
    references = [ClaimReference(name=name) for name in (*names, *wholes)]
    return Pod(namespace="a", name="b", containers=(claiming(*references),))


def with_sidecars(looks: Looks, count: int) -> Pod:
    """Each asks for something that no other asks for, and the pod for all of it."""
    names = [looks.name(f"hugepages-{index}Mi") for index in range(1, count)]
    zero = Quantity.of(0)
    sidecars = tuple(
        Container(
            name=f"i{index}",
            restart_policy="Always",
            resources=ResourceRequirements(requests={name: zero}, limits={name: zero}),
        )
        for index, name in enumerate(names)
    )
    whole = ResourceRequirements(
        requests=dict.fromkeys(names, zero), limits=dict.fromkeys(names, zero)
    )
    return Pod(
        namespace="a",
        name="b",
        containers=(Container(name="c", resources=resources("cpu=1")),),
        init_containers=sidecars,
        resources=whole,
    )


def with_gates(looks: Looks, count: int) -> Pod:
    gates = tuple(looks.name(f"gate-{index}") for index in range(count))
    return Pod(namespace="a", name="b", scheduling_gates=gates)


@pytest.mark.parametrize(
    "pod_of",
    [with_claims, with_parts_of_claims, with_sidecars, with_gates],
    ids=lambda f: f.__name__,
)
def test_twice_as_many_names_are_twice_the_work(pod_of: Callable[[Looks, int], Pod]):
    work = []
    for count in (FEW, MANY):
        looks = Looks()
        pod = pod_of(looks, count)
        before = looks.count
        validate_pod_spec(pod)
        validate_gate_update(pod, pod)
        work.append(looks.count - before)

    assert 0 < work[1] < 2.5 * work[0]


def test_however_many_claims_are_unknown_the_known_ones_are_listed_once():
    known = tuple(f"known-{index}" for index in range(FEW))
    unknown = [claiming(ClaimReference(name=f"c{index}")) for index in range(FEW)]
    pod = Pod(namespace="a", name="b", claim_names=known, containers=tuple(unknown))
    problems = validate_pod_spec(pod)

    assert len(problems) == FEW
    assert len({id(problem.detail) for problem in problems}) == 1
    assert ", ".join(sorted(known)) in problems[0].detail
