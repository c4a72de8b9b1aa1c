"""Upstream's tests around the choice of a VM, by the names they have on the page of scenarios.

`docs/reference/peerpod-scenarios.md` lists all of them. Where upstream goes on to create a
VM, the test ends with the decision, which is all that Bursar has a part in.
"""

import pytest

from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.capacity import (
    LIMIT_DEFAULT,
    LIMIT_KEY,
    CapacityNode,
    Declaration,
    limit_in,
    preset,
    wanted_on,
)
from bursar.core.peerpods.instances import (
    Chosen,
    InstanceType,
    MachineSize,
    upstream_choice,
    upstream_order,
)
from bursar.core.peerpods.machine_size import machine_size
from bursar.core.peerpods.names import VM_RESOURCE
from support.builders.peer_pods import (
    EFFECTIVE,
    KATA,
    RECORD,
    UPSTREAM,
    a_peer_pod,
    main,
    rewritten,
)

BOTH = pytest.mark.parametrize("settings", [UPSTREAM, EFFECTIVE], ids=["upstream", "effective"])
VCPUS, MEMORY, GPUS = (f"{KATA}default_{key}" for key in ("vcpus", "memory", "gpus"))
MACHINE_TYPE, IMAGE = f"{KATA}machine_type", f"{KATA}image"
ABSENT = object()

# ------------------------------------------------------------------ AWS CreateInstance

LISTED = ["t2.small", "t2.medium"]
NOT_LISTED = (
    'failed to verify instance type: requested instance type ("t2.large") is not part of supported '
    "instance types list"
)
LIST_EMPTY = (
    'failed to verify instance type: requested instance type ("t2.large") is not default '
    '("t2.small") and supported instance types list is empty'
)


@pytest.mark.parametrize(
    ("named", "valid", "expected"),
    [
        pytest.param("t2.medium", LISTED, "t2.medium", id="type in list"),
        pytest.param("t2.large", LISTED, NOT_LISTED, id="type not in list"),
        pytest.param("t2.large", [], LIST_EMPTY, id="empty list and other type"),
        pytest.param("", [], "t2.small", id="empty list and empty type"),
        pytest.param("", LISTED, "t2.small", id="empty type"),
    ],
)
def test_aws_create_instance_has_the_type_upstream_would_create(named, valid, expected):
    types = [InstanceType(name=name, vcpus=2, memory_mib=2048) for name in valid]
    choice = upstream_choice(
        MachineSize(), upstream_order(types), default="t2.small", valid=valid, named=named
    )

    assert (choice.name if isinstance(choice, Chosen) else choice.message) == expected


# ------------------------------------------------------------------ annotations


@BOTH
@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({VCPUS: "2"}, MachineSize(vcpus=2), id="vcpus only"),
        pytest.param({MEMORY: "4096"}, MachineSize(memory_mib=4096), id="memory only"),
        pytest.param(
            {VCPUS: "2", MEMORY: "4096"}, MachineSize(vcpus=2, memory_mib=4096), id="both"
        ),
        pytest.param({GPUS: "1"}, MachineSize(gpus=1), id="GPU only"),
        pytest.param(
            {VCPUS: "2", MEMORY: "4096", GPUS: "1"},
            MachineSize(vcpus=2, memory_mib=4096, gpus=1),
            id="all",
        ),
        pytest.param({VCPUS: "two", MEMORY: "4Gi", GPUS: "1k"}, MachineSize(), id="invalid text"),
    ],
)
def test_annotation_parsing_of_sizes(annotations, expected, settings):
    outcome = rewritten(a_peer_pod(main(), annotations=annotations), settings)

    assert machine_size(outcome.size) == expected
    held = outcome.document["metadata"]["annotations"]
    assert {key: text for key, text in held.items() if key != RECORD} == annotations


def test_annotation_parsing_of_invalid_text_is_told_to_the_author():
    annotations = {VCPUS: "two", MEMORY: "4Gi", GPUS: "1k"}

    assert rewritten(a_peer_pod(main(), annotations=annotations)).warnings == tuple(
        f"annotation {key}: not a whole number, and taken for none" for key in annotations
    )


@BOTH
def test_annotation_parsing_of_machine_type_present(settings):
    raw = a_peer_pod(main("cpu=2"), annotations={MACHINE_TYPE: "t2.medium"})
    annotations = rewritten(raw, settings).document["metadata"]["annotations"]

    assert annotations[MACHINE_TYPE] == "t2.medium"


@BOTH
def test_annotation_parsing_of_machine_type_empty(settings):
    """Nobody is told a type then: the annotation stays empty, or goes."""
    raw = a_peer_pod(main("cpu=2"), annotations={MACHINE_TYPE: ""})
    annotations = rewritten(raw, settings).document["metadata"]["annotations"]

    assert not annotations.get(MACHINE_TYPE)


@BOTH
@pytest.mark.parametrize(
    "image", [pytest.param("podvm-2", id="present"), pytest.param("", id="empty")]
)
def test_annotation_parsing_of_image(image, settings):
    raw = a_peer_pod(main("cpu=2"), annotations={IMAGE: image})

    assert rewritten(raw, settings).document["metadata"]["annotations"][IMAGE] == image


# ------------------------------------------------------------------ GPU container


@BOTH
@pytest.mark.parametrize(("amount", "expected"), [("1", "1"), ("0", ABSENT), ("", ABSENT)])
def test_gpu_container_is_one_of_a_pod_that_asks_for_gpus(amount, expected, settings):
    """The adaptor hands GPUs to every container of a pod with the annotation, be it of 0."""
    gpus = f"nvidia.com/gpu={amount}" if amount else ""
    outcome = rewritten(a_peer_pod(main(f"cpu=1 {gpus}", f"cpu=1 {gpus}"), main()), settings)

    assert outcome.document["metadata"]["annotations"].get(GPUS, ABSENT) == expected


# ------------------------------------------------------------------ numbers of the environment


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({}, LIMIT_DEFAULT, id="default"),
        pytest.param({LIMIT_KEY: "3"}, 3, id="env beats default"),
        pytest.param({LIMIT_KEY: "three"}, LIMIT_DEFAULT, id="invalid env"),
        pytest.param({LIMIT_KEY: ""}, LIMIT_DEFAULT, id="empty env"),
    ],
)
def test_env_numbers_are_read_as_upstream_reads_them(data, expected):
    assert limit_in(data) == expected


def test_env_numbers_go_after_what_is_said_more_directly():
    """Upstream has a flag for it; here are declarations, and the node's own annotation."""
    everywhere = parse_selector("")
    (limit,) = preset({LIMIT_KEY: "3"}, everywhere).declarations
    declared = Declaration(name="vms", resource=VM_RESOURCE, amount=5, selector=everywhere)
    node, outspoken = CapacityNode(name="n"), CapacityNode(name="n", override={VM_RESOURCE: 7})

    assert wanted_on(node, [limit]) == {VM_RESOURCE: 3}
    assert wanted_on(node, [limit, declared]) == {VM_RESOURCE: 5}
    assert wanted_on(outspoken, [limit, declared]) == {VM_RESOURCE: 7}
