"""Choosing an instance type. V*, S*, F*, G*, L* are upstream's tests by name."""

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.instances import (
    Chosen,
    InstanceType,
    MachineSize,
    NothingFits,
    best_choice,
    upstream_choice,
    upstream_order,
    upstream_verified,
)


def a_type(name, vcpus, memory_mib, gpus=0, price=None):
    return InstanceType(
        name=name,
        vcpus=vcpus,
        memory_mib=memory_mib,
        gpus=gpus,
        price=None if price is None else Quantity.parse(price),
    )


def ask(vcpus=0, memory=0, gpus=0):
    return MachineSize(vcpus=vcpus, memory_mib=memory, gpus=gpus)


def name_or_text(choice):
    return choice.name if isinstance(choice, Chosen) else choice.message


def upstream(size, types, *, default="default", valid=None, named=""):
    names = [each.name for each in types] if valid is None else valid
    return name_or_text(
        upstream_choice(size, upstream_order(types), default=default, valid=names, named=named)
    )


def best(size, types, **more):
    return name_or_text(best_choice(size, types, **more))


# ------------------------------------------------------------------ upstream's own tests

NOT_LISTED = "is not part of supported instance types list"
LIST_EMPTY = 'is not default ("medium") and supported instance types list is empty'


@pytest.mark.parametrize(
    ("candidate", "valid", "expected"),
    [
        pytest.param("small", ["small", "medium"], "small", id="V1"),
        pytest.param("small", ["medium"], NOT_LISTED, id="V2"),
        pytest.param("", ["medium"], "medium", id="V3"),
        pytest.param("", [], "medium", id="V4"),
        pytest.param("small", [], LIST_EMPTY, id="V5"),
        pytest.param("medium", [], "medium", id="the default needs no list"),
    ],
)
def test_verification(candidate, valid, expected):
    found = name_or_text(upstream_verified(candidate, default="medium", valid=valid))

    assert expected in found
    assert found == expected or found.startswith(
        f'failed to verify instance type: requested instance type ("{candidate}")'
    )


SMALL, MEDIUM, LARGE = a_type("small", 2, 6), a_type("medium", 4, 8), a_type("large", 8, 16)
WITH_GPUS = [a_type("small-gpu", 2, 4096, 1), a_type("medium-gpu", 4, 8192, 2)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([SMALL, MEDIUM, LARGE], "small medium large", id="S1"),
        pytest.param([SMALL, LARGE, MEDIUM], "small medium large", id="S2"),
        pytest.param([MEDIUM, SMALL, LARGE], "small medium large", id="S3"),
        pytest.param([*WITH_GPUS[::-1], LARGE], "large small-gpu medium-gpu", id="S4"),
    ],
)
def test_order(given, expected):
    assert " ".join(each.name for each in upstream_order(given)) == expected


MEDIUM_WITH_GPU = a_type("medium", 4, 8, 1)


@pytest.mark.parametrize(
    ("types", "size", "expected"),
    [
        pytest.param([SMALL, MEDIUM, LARGE], ask(2, 6), "small", id="F1"),
        pytest.param([SMALL, MEDIUM, LARGE], ask(4, 8), "medium", id="F2"),
        pytest.param([SMALL, MEDIUM, LARGE], ask(4, 16), "large", id="F3"),
        pytest.param([SMALL, MEDIUM_WITH_GPU, LARGE], ask(4, 8), "large", id="F4"),
        pytest.param(
            [SMALL, MEDIUM, LARGE],
            ask(4, 32),
            "failed to get instance type based on vCPU and memory annotations: no instance type "
            "found for the given vcpus (4) and memory (32)",
            id="F5",
        ),
        pytest.param(WITH_GPUS, ask(2, 4096, 1), "small-gpu", id="G1"),
        pytest.param(WITH_GPUS, ask(3, 6144, 1), "medium-gpu", id="G2"),
        pytest.param(
            WITH_GPUS,
            ask(8, 16384, 4),
            "failed to get instance type based on GPU, vCPU, and memory annotations: no instance "
            "type found for the given GPUs (4), vCPUs (8), and memory (16384)",
            id="G3",
        ),
        pytest.param(
            [],
            ask(2, 4096, 1),
            "failed to get instance type based on GPU, vCPU, and memory annotations: no instance "
            "type found for the given GPUs (1), vCPUs (2), and memory (4096)",
            id="G4",
        ),
    ],
)
def test_best_fit_as_upstream_searches_it(types, size, expected):
    assert upstream(size, types) == expected
    if " " not in expected:
        assert best(size, types) == expected
    else:
        assert isinstance(best_choice(size, types), NothingFits)


CLOUD = [
    a_type("t3.small", 2, 2048),
    a_type("t3.xlarge", 4, 16384),
    a_type("p3.xlarge", 4, 61440, 1),
]


@pytest.mark.parametrize(
    ("size", "named", "expected"),
    [
        pytest.param(ask(4, 8192, 1), "t3.small", "t3.small", id="L1"),
        pytest.param(ask(4, 8192), "t3.small", "t3.small", id="L2"),
        pytest.param(ask(2, 4096, 1), "", "p3.xlarge", id="L3"),
        pytest.param(ask(4, 8192), "", "t3.xlarge", id="L4"),
        pytest.param(ask(), "m5.large", NOT_LISTED, id="L5"),
        pytest.param(ask(), "", "t3.small", id="L6"),
    ],
)
def test_selection(size, named, expected):
    assert expected in upstream(size, CLOUD, default="t3.small", named=named)
    choice = best_choice(size, CLOUD, default="t3.small", named=named)
    assert isinstance(choice, NothingFits) if " " in expected else choice.name == expected


def test_e10_and_e11_say_what_was_asked_for():
    types = [a_type("bx2-2x8", 2, 8192), a_type("mx2-2x16", 2, 16384)]

    assert upstream(ask(2, 12288), types) == "mx2-2x16"
    assert upstream(ask(2, 18432), types).endswith("vcpus (2) and memory (18432)")
    assert upstream(ask(3, 12288), types).endswith("vcpus (3) and memory (12288)")


# ------------------------------------------------------------------ where upstream errs

M5_LARGE, M5_XLARGE = a_type("m5.large", 2, 8192), a_type("m5.xlarge", 4, 16384)
R5_LARGE, R5_XLARGE = a_type("r5.large", 2, 16384), a_type("r5.xlarge", 4, 32768)
C5_XLARGE = a_type("c5.xlarge", 4, 8192)


def test_w9_a_type_that_fits_is_found():
    types = [
        M5_LARGE,
        a_type("c5.4xlarge", 16, 32768),
        a_type("r5.2xlarge", 8, 65536),
        a_type("x1e.xlarge", 4, 124_928),
    ]

    assert "no instance type found" in upstream(ask(16, 8192), types)
    assert best(ask(16, 8192), types) == "c5.4xlarge"


def test_w9_the_smallest_that_fits_is_found():
    types = [M5_LARGE, C5_XLARGE, R5_LARGE, M5_XLARGE, R5_XLARGE]

    assert upstream(ask(4, 8192), types) == "m5.xlarge"
    assert best(ask(4, 8192), types) == "c5.xlarge"


@pytest.mark.parametrize("size", [ask(vcpus=8), ask(memory=16)])
def test_w7_a_pod_that_asks_for_one_thing_gets_it(size):
    types = [SMALL, MEDIUM, LARGE]

    assert upstream(size, types, default="small") == "small"
    assert best(size, types, default="small") == "large"


def test_the_cheapest_wins_then_the_smallest():
    dear, cheap, cheap_too = (
        a_type("dear", 2, 4096, price="0.1"),
        a_type("cheap", 4, 8192, price="0.05"),
        a_type("cheap-too", 8, 8192, price="50m"),
    )
    unpriced = a_type("unpriced", 2, 2048)
    choice = best_choice(ask(2, 2048), [unpriced, dear, cheap_too, cheap])

    assert isinstance(choice, Chosen)
    assert [choice.name, *(each.name for each in choice.others)] == [
        "cheap",
        "cheap-too",
        "dear",
        "unpriced",
    ]


def test_a_pod_that_asks_for_nothing_gets_the_default_or_the_cheapest():
    assert best(ask(), CLOUD, default="elsewhere") == "elsewhere"
    assert best(ask(), CLOUD) == "t3.small"


def test_a_type_must_be_in_the_catalogue_to_be_named():
    assert best(ask(), CLOUD, named="x") == (
        'the instance type "x" named by the pod is not in the catalogue'
    )
