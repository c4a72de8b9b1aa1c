"""What a quota can charge for a rewritten pod by its record, and what forged records lead to."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod import NO_RESOURCES, Pod
from bursar.core.model.pod_row import PodDemand
from bursar.core.peerpods.decision import Denied
from bursar.core.peerpods.record import NO_RECORD
from bursar.core.peerpods.restored import restored
from bursar.wire.peerpods.record import read_record
from support.builders.peer_pods import (
    KATA,
    PEER_PODS,
    RECORD,
    UPSTREAM,
    VM,
    a_peer_pod,
    decided,
    init,
    main,
    recorded_demand,
    rewritten,
    sidecar,
)
from support.builders.pods import texts
from support.builders.random_objects import as_pod


def record_of(raw):
    return read_record(as_pod(raw).annotations)


def test_the_demand_is_what_it_was_with_the_vm_besides():
    raw = a_peer_pod(
        sidecar("cpu=100m", "cpu=200m"),
        init("cpu=4"),
        main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi"),
        overhead={"cpu": "250m", "memory": "120Mi"},
    )
    document = rewritten(raw).document
    stored = as_pod(document)
    record = record_of(document)
    assert record is not None
    demand = recorded_demand(record, stored)

    assert texts(demand.quota_requests) == {VM: "1", "cpu": "4350m", "memory": "1144Mi"}
    assert texts(demand.quota_limits) == {VM: "1", "cpu": "1450m", "memory": "2168Mi"}


def without_vm(pod: Pod) -> Pod:
    """The pod as it was before it asked for a VM."""

    def stripped(amounts):
        return {name: amount for name, amount in amounts.items() if name != VM}

    first, *rest = pod.containers
    sides = replace(
        first.resources,
        requests=stripped(first.resources.requests),
        limits=stripped(first.resources.limits),
    )
    return replace(pod, containers=(replace(first, resources=sides), *rest))


@settings(max_examples=60)
@given(PEER_PODS)
def test_a_quota_can_charge_what_was_removed(raw):
    """For random pods: what is charged afterwards is what would have been charged before."""
    if isinstance(decided(raw), Denied):
        return
    document = rewritten(raw).document
    original, stored = with_defaults(as_pod(raw)), as_pod(document)
    record = record_of(document) or NO_RECORD

    back = without_vm(restored(record, stored))
    assert [c.resources for c in back.containers] == [c.resources for c in original.containers]
    assert back.init_containers == original.init_containers
    assert (back.resources or NO_RESOURCES) == (original.resources or NO_RESOURCES)
    was, charged = PodDemand.of(original), recorded_demand(record, stored)
    assert texts(was.quota_requests).items() <= texts(charged.quota_requests).items()
    assert texts(was.quota_limits).items() <= texts(charged.quota_limits).items()
    assert charged.quota_requests.keys() - was.quota_requests.keys() == {VM}


# ------------------------------------------------------------------ whoever forges it

FORGED = json.dumps(
    {"v": "1", "containers": [{"name": "c0", "kind": "container", "requests": {"cpu": "1m"}}]}
)


def test_no_record_makes_less_of_what_is_still_in_the_containers():
    """As on a pod that was never rewritten, for want of a webhook."""
    raw = a_peer_pod(main(f"cpu=64 {VM}=1", f"cpu=64 {VM}=1"), annotations={RECORD: FORGED})
    record = record_of(raw)
    demand = recorded_demand(record, as_pod(raw))

    assert texts(demand.quota_requests) == texts(demand.quota_limits) == {"cpu": "64", VM: "1"}


def test_in_upstreams_mode_nobody_keeps_a_record_and_none_is_kept():
    raw = a_peer_pod(main(f"cpu=64 {VM}=1", f"cpu=64 {VM}=1"), annotations={RECORD: FORGED})
    outcome = rewritten(raw, UPSTREAM)

    assert outcome.document["metadata"]["annotations"] == {f"{KATA}default_vcpus": "64"}
    assert outcome.warnings == (f"annotation {RECORD} is not for users: what it said is ignored",)
    assert rewritten(outcome.document, UPSTREAM).warnings == ()


def test_what_a_forged_record_says_is_what_the_vm_gets():
    raw = a_peer_pod(main(f"cpu=64 {VM}=1", f"{VM}=1"), annotations={RECORD: FORGED})
    after = rewritten(raw).document

    assert after["metadata"]["annotations"][f"{KATA}default_vcpus"] == "1"
    assert texts(recorded_demand(record_of(after), as_pod(after)).quota_requests) == {
        "cpu": "1m",
        VM: "1",
    }


GPU = "nvidia.com/gpu"


def recorded(**parts):
    return json.dumps({"v": "1", **parts})


def of_container(**sides):
    return recorded(containers=[{"name": "c0", "kind": "container", **sides}])


REFUSED_IN_CONTAINERS = {
    "a part of a GPU": (
        of_container(requests={GPU: "1n"}, limits={GPU: "1n"}),
        'limits[nvidia.com/gpu]: Invalid value: "1n": must be an integer',
    ),
    "a request above its limit": (
        of_container(requests={"cpu": "64"}, limits={"cpu": "1m"}),
        'requests: Invalid value: "64": must be less than or equal to cpu limit of 1m',
    ),
    "GPUs that are requested and not the limit": (
        of_container(requests={GPU: "0"}, limits={GPU: "8"}),
        'requests: Invalid value: "0": must be equal to nvidia.com/gpu limit of 8',
    ),
    "no name of a resource": (
        of_container(requests={"cores": "1"}),
        'requests[cores]: Invalid value: "cores": must be a standard resource type',
    ),
    "a claim that the pod does not have": (
        of_container(claims=[{"name": "card"}]),
        'claims[0]: Not found: "card"',
    ),
    "containers that request more than the pod": (
        recorded(
            containers=[{"name": "c0", "kind": "container", "requests": {"cpu": "64"}}],
            pod={"requests": {"cpu": "1"}},
        ),
        "must be greater than or equal to aggregate container requests of 64",
    ),
}


@pytest.mark.parametrize("case", REFUSED_IN_CONTAINERS)
def test_nobody_gets_by_a_record_what_the_containers_would_be_denied(case):
    record, message = REFUSED_IN_CONTAINERS[case]
    raw = a_peer_pod(main(f"{VM}=1", f"{VM}=1"), annotations={RECORD: record})
    outcome = decided(raw)

    assert isinstance(outcome, Denied)
    assert outcome.message.startswith(f"annotation {RECORD}: spec.")
    assert message in outcome.message


def test_nor_by_a_record_together_with_what_is_in_the_containers():
    """Each of the two alone could be asked for."""
    raw = a_peer_pod(
        main(f"cpu=64 {VM}=1", f"{VM}=1"),
        annotations={RECORD: recorded(pod={"requests": {"cpu": "1"}})},
    )
    outcome = decided(raw)

    assert isinstance(outcome, Denied)
    assert "must be greater than or equal to aggregate container requests of 64" in outcome.message


def test_a_limit_found_beside_a_request_on_record_is_a_default_of_the_namespace():
    first = rewritten(a_peer_pod(main("cpu=4")))
    again = first.document
    again["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1m"
    second = rewritten(again)

    assert second.document["metadata"] == first.document["metadata"]


def test_a_gpu_on_record_is_charged_even_if_only_its_limit_is_there():
    raw = a_peer_pod(
        main(f"{VM}=1", f"{VM}=1"),
        annotations={RECORD: of_container(limits={GPU: "8", "cpu": "1"})},
    )
    after = rewritten(raw).document

    assert after["metadata"]["annotations"][f"{KATA}default_gpus"] == "8"
    for each in (raw, after):
        charged = recorded_demand(record_of(each), as_pod(each))
        assert texts(charged.quota_requests) == {VM: "1", GPU: "8"}
