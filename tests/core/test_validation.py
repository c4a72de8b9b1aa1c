"""Validation of a pod's resources: one row for every rule, with the text people will search for."""

from dataclasses import replace

import pytest

from bursar.core.model.pod import ClaimReference, Container, EmptyDir, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.model.validation.pod import (
    pod_warnings,
    validate_gate_update,
    validate_pod,
    validate_pod_spec,
)
from bursar.core.model.validation.requirements import (
    KnownClaims,
    validate_amount,
    validate_requirements,
    validate_resource_list,
)
from support.builders.pods import a_pod, init, main, parsed, resources, sidecar

CONTAINER = "spec.containers[0].resources"
PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def said(problems):
    return [str(problem) for problem in problems]


# ------------------------------------------------------------------ one resources block


@pytest.mark.parametrize(
    ("limits", "texts"),
    [
        ("cpu=1 memory=1Gi ephemeral-storage=1Gi", []),
        ("kubernetes.io/foo=1", []),
        (
            "-a=1",
            [
                f'p.limits[-a]: Invalid value: "-a": {PART_RULE}',
                'p.limits[-a]: Invalid value: "-a": must be a standard resource for containers',
            ],
        ),
        (
            "gpu=1",
            [
                (
                    'p.limits[gpu]: Invalid value: "gpu":'
                    " must be a standard resource type or fully qualified"
                ),
                'p.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
            ],
        ),
        (
            "pods=1",
            ['p.limits[pods]: Invalid value: "pods": must be a standard resource for containers'],
        ),
        (
            "requests.foo.com/x=1",
            [
                (
                    'p.limits[requests.foo.com/x]: Invalid value: "requests.foo.com/x":'
                    " doesn't follow extended resource name standard"
                )
            ],
        ),
        ("cpu=-1", ['p.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        (
            "memory=1Gi hugepages-2Mi=3Mi",
            [
                (
                    'p.limits[hugepages-2Mi]: Invalid value: "3Mi":'
                    " 3Mi is not positive integer multiple of hugepages-2Mi"
                )
            ],
        ),
        (
            "cpu=1 hugepages-xyz=2Mi",
            [
                (
                    'p.limits[hugepages-xyz]: Invalid value: "2Mi":'
                    " 2Mi is not positive integer multiple of hugepages-xyz"
                )
            ],
        ),
        ("hugepages-2Mi=4Mi", ["p: Forbidden: HugePages require cpu or memory"]),
    ],
)
def test_names_and_amounts_of_limits(limits, texts):
    assert said(validate_requirements(resources(limits=limits), "p")) == texts


@pytest.mark.parametrize("amount", ["3", "3000m", "3Ki", "0", "9300E"])
def test_extended_resources_come_in_wholes(amount):
    equal = resources(f"example.com/foo={amount}", f"example.com/foo={amount}")

    assert said(validate_requirements(equal, "p")) == []


@pytest.mark.parametrize(
    ("amount", "printed"), [("0.5", "500m"), ("1500m", "1500m"), ("9300000000000000", "9300T")]
)
def test_parts_of_an_extended_resource_are_refused(amount, printed):
    """The last is a whole number, but upstream's count of thousandths wraps around in 64 bits."""
    problems = validate_amount("example.com/foo", Quantity.parse(amount), "f")

    assert said(problems) == [f'f: Invalid value: "{printed}": must be an integer']


def test_an_amount_can_be_negative_and_broken_at_once():
    assert said(validate_amount("example.com/foo", Quantity.parse("-1500m"), "f")) == [
        'f: Invalid value: "-1500m": must be greater than or equal to 0',
        'f: Invalid value: "-1500m": must be an integer',
    ]


@pytest.mark.parametrize(
    ("requests", "limits", "texts"),
    [
        ("cpu=1", "cpu=2", []),
        ("cpu=1 pods=1", "", None),
        (
            "cpu=2",
            "cpu=1",
            ['p.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            "example.com/foo=1",
            "example.com/foo=2",
            ['p.requests: Invalid value: "1": must be equal to example.com/foo limit of 2'],
        ),
        (
            "memory=1Gi hugepages-2Mi=4Mi",
            "memory=1Gi hugepages-2Mi=2Mi",
            ['p.requests: Invalid value: "4Mi": must be equal to hugepages-2Mi limit of 2Mi'],
        ),
        (
            "example.com/foo=1",
            "",
            ["p.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            "memory=1Gi hugepages-2Mi=4Mi",
            "",
            ["p.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
    ],
)
def test_requests_against_limits(requests, limits, texts):
    problems = said(validate_requirements(resources(requests, limits), "p"))

    if texts is None:
        assert not [text for text in problems if text.startswith(("p.requests:", "p.limits:"))]
    else:
        assert problems == texts


def test_names_come_sorted():
    problems = validate_resource_list(parsed("memory=-1 cpu=-1"), "p")

    assert [problem.field for problem in problems] == ["p[cpu]", "p[memory]"]


def test_broken_pages_pass_where_they_were_stored_before():
    broken = resources(limits="cpu=1 hugepages-2Mi=3Mi")

    assert said(validate_requirements(broken, "p", broken_pages_allowed=True)) == []


def test_page_beyond_64_bits_is_refused_where_upstream_divides_by_zero():
    assert said(validate_resource_list(parsed("hugepages-1000E=1"), "p")) == [
        (
            'p[hugepages-1000E]: Invalid value: "1": 1 is not positive integer multiple of'
            " hugepages-1000E"
        )
    ]


def test_comparison_beyond_64_bits_changes_what_counts_as_whole_pages():
    alone = resources("cpu=1 hugepages-2Mi=12E", "hugepages-2Mi=12E")
    compared = resources("cpu=1 hugepages-2Mi=12E", "hugepages-2Mi=99999999999999999999")

    assert said(validate_requirements(alone, "p")) == []
    assert (
        'p.requests[hugepages-2Mi]: Invalid value: "12E": 12E is not positive integer multiple of'
        " hugepages-2Mi"
    ) in said(validate_requirements(compared, "p"))


# ------------------------------------------------------------------ claims


def claiming(*claims):
    names = [claim.partition("/") for claim in claims]
    return ResourceRequirements(
        claims=tuple(ClaimReference(name=name, request=request) for name, _, request in names)
    )


@pytest.mark.parametrize(
    ("claims", "texts"),
    [
        (["gpu", "nic"], []),
        (["gpu/a", "gpu/b"], []),
        ([""], ["p.claims[0]: Required value"]),
        (["gpu", "gpu"], ['p.claims[1]: Duplicate value: "gpu"']),
        (["gpu", "gpu/a"], ['p.claims[1]: Duplicate value: "gpu"']),
        (["gpu/a", "gpu/a"], ['p.claims[1]: Duplicate value: "gpu/a"']),
        (["gpu/a", "gpu/b", "gpu"], ['p.claims[2]: Duplicate value: "gpu"'] * 2),
        (
            ["gpu/a", "nic/a", "gpu", "gpu"],
            [f'p.claims[{i}]: Duplicate value: "gpu"' for i in (2, 3)],
        ),
        (["gpu/a.b"], ['p.claims[0].request: Invalid value: "a.b": must not contain dots']),
        (
            ["fpga"],
            [
                (
                    'p.claims[0]: Not found: "fpga":'
                    " must be one of the names in pod.spec.resourceClaims: gpu, nic"
                )
            ],
        ),
    ],
)
def test_claims_of_a_container(claims, texts):
    known = KnownClaims(["nic", "", "gpu"])
    problems = validate_requirements(claiming(*claims), "p", claims=known)

    assert said(problems) == texts


def test_claim_in_a_pod_without_claims():
    assert said(validate_requirements(claiming("gpu"), "p")) == [
        (
            'p.claims[0]: Not found: "gpu":'
            " must be one of the names in pod.spec.resourceClaims which is empty"
        )
    ]


def test_claims_of_a_pod_have_names_of_their_own():
    pod = a_pod(main(), claim_names=("gpu", "", "gpu", "a.b"))

    assert said(validate_pod(pod)) == [
        "spec.resourceClaims[1].name: Required value",
        'spec.resourceClaims[2].name: Duplicate value: "gpu"',
        'spec.resourceClaims[3].name: Invalid value: "a.b": must not contain dots',
    ]


def test_static_pod_may_have_no_claims():
    mirror = {"kubernetes.io/config.mirror": "x"}
    pod = a_pod(main(), claim_names=("gpu", "nic"), annotations=mirror)

    assert said(validate_pod(pod)) == [
        "[]: Forbidden: static pods do not support resource claims",
        "[]: Forbidden: static pods do not support resource claims",
    ]


def test_container_cannot_refer_to_a_claim_without_a_name():
    container = Container(name="c0", resources=claiming("gpu"))
    pod = replace(a_pod(claim_names=("",)), containers=(container,))

    assert str(validate_pod(pod)[-1]) == (
        f'{CONTAINER}.claims[0]: Not found: "gpu":'
        " must be one of the names in pod.spec.resourceClaims which is empty"
    )


# ------------------------------------------------------------------ the parts of a pod


def test_every_part_of_a_pod_is_looked_at_in_order():
    pod = replace(
        a_pod(main(limits="cpu=-1"), sidecar("cpu=-2"), overhead="cpu=-4"),
        ephemeral_containers=(Container(name="e0", resources=resources("cpu=-3")),),
        resources=resources("storage=1"),
        empty_dirs=(
            EmptyDir(index=1, name="ok"),
            EmptyDir(index=2, name="ok", size_limit=Quantity.parse("0")),
            EmptyDir(index=3, name="bad", size_limit=Quantity.parse("-1")),
        ),
    )

    assert said(validate_pod(pod)) == [
        (
            "spec.volumes[3].emptyDir.sizeLimit: Forbidden:"
            " SizeLimit field must be a valid resource quantity"
        ),
        f'{CONTAINER}.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        (
            'spec.initContainers[0].resources.requests[cpu]: Invalid value: "-2":'
            " must be greater than or equal to 0"
        ),
        (
            'spec.ephemeralContainers[0].resources.requests[cpu]: Invalid value: "-3":'
            " must be greater than or equal to 0"
        ),
        (
            "spec.ephemeralContainers[0].resources: Forbidden:"
            " cannot be set for an Ephemeral Container"
        ),
        (
            'spec.resources.requests[storage]: Unsupported value: "storage":'
            ' supported values: "cpu", "hugepages-", "memory"'
        ),
        'spec.overhead.limits[cpu]: Invalid value: "-4": must be greater than or equal to 0',
    ]


def test_ephemeral_container_without_resources_is_fine():
    pod = replace(a_pod(main()), ephemeral_containers=(Container(name="e0"),))

    assert validate_pod(pod) == ()


def test_scheduling_gates_are_qualified_names_without_duplicates():
    pod = a_pod(main(), scheduling_gates=("a", "example.com/b", "a", "-"))

    assert said(validate_pod(pod)) == [
        'spec.schedulingGates[2]: Duplicate value: "a"',
        f'spec.schedulingGates[3]: Invalid value: "-": {PART_RULE}',
    ]


def test_gated_pod_has_no_node_when_it_is_created():
    pod = a_pod(main(), scheduling_gates=("a",), node_name="n1")

    assert said(validate_pod(pod)) == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]
    assert validate_pod_spec(pod) == ()
    assert validate_pod(replace(pod, scheduling_gates=())) == ()


def test_gates_may_only_go():
    old = a_pod(main(), scheduling_gates=("a", "b"))
    new = a_pod(main(), scheduling_gates=("c", "b", "d", "c"))

    assert validate_gate_update(old, a_pod(main(), scheduling_gates=("b",))) == ()
    assert said(validate_gate_update(old, new)) == [
        (
            "spec.schedulingGates[3].name: Forbidden:"
            " only deletion is allowed, but found new scheduling gate 'c'"
        ),
        (
            "spec.schedulingGates[2].name: Forbidden:"
            " only deletion is allowed, but found new scheduling gate 'd'"
        ),
    ]


def test_parts_of_a_byte_are_warned_of_but_accepted():
    pod = a_pod(
        main("memory=100m cpu=100m", "memory=1500m"),
        init("ephemeral-storage=0.5"),
        overhead="memory=1 ephemeral-storage=1500m",
    )

    assert validate_pod(pod) == ()
    assert pod_warnings(pod) == (
        (
            'spec.overhead[ephemeral-storage]: fractional byte value "1500m" is invalid,'
            " must be an integer"
        ),
        (
            "spec.initContainers[0].resources.requests[ephemeral-storage]:"
            ' fractional byte value "500m" is invalid, must be an integer'
        ),
        f'{CONTAINER}.limits[memory]: fractional byte value "1500m" is invalid, must be an integer',
        (
            f'{CONTAINER}.requests[memory]: fractional byte value "100m" is invalid,'
            " must be an integer"
        ),
    )
