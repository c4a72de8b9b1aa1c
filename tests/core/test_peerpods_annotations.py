"""Annotated sizes, as the adaptor reads them; and the instance type beside them."""

import copy

import pytest

from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.machine_size import whole_number
from bursar.core.peerpods.settings import PeerPodSettings
from support.builders.peer_pods import KATA, a_peer_pod, main, rewritten, sized

MACHINE_TYPE = f"{KATA}machine_type"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0" * 20 + "5", 5),
        ("+7", 7),
        ("-07", -7),
        ("0" * 5000, 0),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None),
        ("1" * 20, None),
        ("", None),
        ("+", None),
        ("+-5", None),
        ("0-5", None),
        ("0" * 5000 + "x", None),
        ("1_0", None),
        ("\u0661", None),
    ],
)
def test_sizes_are_read_as_go_reads_whole_numbers(text, number):
    assert whole_number(text) == number


# ------------------------------------------------------------------ the instance type

CATALOGUE = PeerPodSettings(
    catalogue=(
        InstanceType(name="small", vcpus=2, memory_mib=4096),
        InstanceType(name="large", vcpus=8, memory_mib=16384),
    )
)


def machine_type(outcome):
    return outcome.document["metadata"].get("annotations", {}).get(MACHINE_TYPE)


def test_the_instance_type_is_written_on_request_and_grows_with_the_pod():
    first = rewritten(a_peer_pod(main("cpu=2")), CATALOGUE)
    assert (machine_type(first), first.instance) == ("small", "small")
    assert rewritten(first.document, CATALOGUE).steps == ()
    assert rewritten(first.document).steps == ()

    later = copy.deepcopy(first.document)
    later["spec"]["containers"].append({"name": "proxy", "resources": sized("cpu=1")})
    second = rewritten(later, CATALOGUE)
    assert machine_type(second) == "large"

    later = copy.deepcopy(second.document)
    later["spec"]["containers"].append({"name": "huge", "resources": sized("cpu=100")})
    third = rewritten(later, CATALOGUE)
    assert machine_type(third) is None
    assert third.warnings == (
        "no instance type of 2 in the catalogue has 103 vCPUs, 0 MiB of memory and 0 GPUs",
    )


def test_an_instance_type_named_by_the_author_stays():
    raw = a_peer_pod(main("cpu=2"), annotations={MACHINE_TYPE: "mine"})
    outcome = rewritten(raw, CATALOGUE)

    assert (machine_type(outcome), outcome.instance) == ("mine", "")
    assert outcome.warnings == (
        'the instance type "mine" named by the pod is not in the catalogue',
    )
    assert rewritten(raw).warnings == ()


def test_the_author_is_told_of_a_type_that_is_too_small():
    named = {MACHINE_TYPE: "small"}
    fitting = rewritten(a_peer_pod(main("cpu=2"), annotations=named), CATALOGUE)
    outcome = rewritten(a_peer_pod(main("cpu=3"), annotations=named), CATALOGUE)

    assert (machine_type(fitting), fitting.warnings) == ("small", ())
    assert machine_type(outcome) == "small"
    assert outcome.warnings == (
        (
            'the instance type "small" named by the pod has 2 vCPUs, 4096 MiB of memory and '
            "0 GPUs; the containers need 3, 0 and 0"
        ),
    )


def test_a_type_chosen_for_a_size_of_the_author_grows_with_the_pod_as_well():
    """Nothing was removed from it at first."""
    first = rewritten(a_peer_pod(main(), annotations={f"{KATA}default_vcpus": "2"}), CATALOGUE)
    assert machine_type(first) == "small"
    assert rewritten(first.document, CATALOGUE).steps == ()

    later = copy.deepcopy(first.document)
    later["spec"]["containers"].append({"name": "proxy", "resources": sized("cpu=8")})
    second = rewritten(later, CATALOGUE)
    assert (machine_type(second), second.warnings[1:]) == ("large", ())
    assert rewritten(second.document, CATALOGUE).steps == ()


def test_an_empty_instance_type_counts_as_none():
    raw = a_peer_pod(main("cpu=2"), annotations={MACHINE_TYPE: ""})
    kept, chosen = rewritten(raw), rewritten(raw, CATALOGUE)

    assert (machine_type(kept), machine_type(chosen)) == ("", "small")
    assert (kept.warnings, chosen.warnings) == ((), ())
    assert rewritten(kept.document).steps == ()
    assert rewritten(chosen.document, CATALOGUE).steps == ()


def test_a_pod_that_asks_for_nothing_gets_the_providers_default():
    assert machine_type(rewritten(a_peer_pod(main()), CATALOGUE)) is None
