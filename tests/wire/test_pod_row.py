"""Rows say the same as pods decoded whole, however many pods share what they hold."""

import copy
import hashlib
import json
import sys
from datetime import UTC, datetime
from runpy import run_path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model import pod_row
from bursar.core.model.demand import ASSIGNED, QUOTA, pod_limits, pod_requests
from bursar.core.model.pod_row import OTHER_GATES_MAX, Stamp
from bursar.core.model.pod_row import row_of as row_of_core
from bursar.core.model.qos import QosClass, qos_class
from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import GATE
from bursar.wire.cluster.object_identity import RawIdentity, find_identity
from bursar.wire.model import pod as wire_pod
from bursar.wire.model import pod_row as wire_pod_row
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.structs.fields import FieldError
from support.builders.random_objects import pods

FULL = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "7c1f",
        "resourceVersion": "42",
        "labels": {"app": "web", "tier": None},
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T04:00:00+01:00",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeName": "node-1",
        "priority": 1000000,
        "priorityClassName": "high",
        "runtimeClassName": "kata",
        "activeDeadlineSeconds": 600,
        "schedulingGates": [{"name": "a/gate"}, {"name": "b/gate"}],
        "containers": [
            {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100n", "memory": "7Ei"}}}
        ],
        "overhead": {"cpu": "250m"},
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1"},
}


def row_of(raw, decoder=None):
    """The row of a pod as the API server writes it: without blanks."""
    return (decoder or PodRowDecoder()).decode(json.dumps(raw, separators=(",", ":")).encode())


def shown(amounts):
    """Amounts with all that is visible of them: upstream's text and shape, not only the number."""
    return {name: (q.nanos, str(q), q.format, q.scale, q.big) for name, q in amounts.items()}


def check_demand(demand, pod):
    """It is the demand of the pod decoded whole."""
    assert shown(demand.quota_requests) == shown(pod_requests(pod, QUOTA))
    assert shown(demand.quota_limits) == shown(pod_limits(pod, QUOTA))
    assert shown(demand.assigned_requests) == shown(pod_requests(pod, ASSIGNED))


def test_a_row_holds_what_accounting_needs():
    row = row_of(FULL)
    profile = row.profile

    assert (row.namespace, row.name) == ("shop", "web-1")
    assert row.stamp[:2] == ("7c1f", "42")
    assert row.stamp.created_s == int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
    assert (row.node_name, row.phase, row.is_terminated) == ("node-1", "Running", False)
    assert (profile.priority, profile.priority_class) == (1000000, "high")
    assert (profile.runtime_class, profile.deadline_s) == ("kata", 600)
    assert profile.gates == ("a/gate", "b/gate")
    assert row.deletion == (int(datetime(2026, 1, 2, 3, tzinfo=UTC).timestamp()), None)
    assert row.demand.qos is QosClass.BURSTABLE


@pytest.mark.parametrize("place", [0, 7, 500])
def test_of_very_many_gates_a_row_keeps_ours_and_few_of_others(place):
    others = [f"example.com/gate-{number}" for number in range(500)]
    gates = [*others[:place], GATE, *others[place:]]
    raw = copy.deepcopy(FULL)
    raw["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    profile = row_of(raw).profile

    assert [gate for gate in profile.gates if gate != GATE] == others[:OTHER_GATES_MAX]
    assert len(profile.gates) + profile.gates_left_out == len(gates)
    assert gates[profile.gate_index] == GATE == profile.gates[min(place, OTHER_GATES_MAX)]
    whole = row_of_core(wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod))).profile
    assert (whole.gates, whole.gates_left_out) == (profile.gates, profile.gates_left_out)
    assert whole.gate_index == profile.gate_index


def test_gates_that_cannot_be_read_are_refused():
    raw = copy.deepcopy(FULL)
    raw["spec"]["schedulingGates"] = [{"name": 5}]

    with pytest.raises(ValueError, match="str"):
        row_of(raw)


def test_a_deletion_comes_with_its_grace():
    raw = copy.deepcopy(FULL)
    raw["metadata"]["deletionGracePeriodSeconds"] = 30

    assert row_of(raw).deletion.grace_s == 30


TERM = {"topologyKey": "zone", "namespaceSelector": {}}
ACROSS = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("metadata", {"namespace": "other"}),
        ("spec", {"priority": 1}),
        ("spec", {"priorityClassName": "low"}),
        ("spec", {"runtimeClassName": "gvisor"}),
        ("spec", {"activeDeadlineSeconds": None}),
        ("spec", {"schedulingGates": []}),
        ("spec", {"affinity": ACROSS}),
        ("spec", {"overhead": {"cpu": "1"}}),
        ("status", {"qosClass": "BestEffort"}),
    ],
)
def test_a_pod_that_differs_in_its_profile_has_its_own(part, fields):
    decoder = PodRowDecoder()
    other = copy.deepcopy(FULL)
    other[part] |= fields

    one, two = row_of(FULL, decoder).profile, row_of(other, decoder).profile

    assert one != two
    assert two == row_of(other).profile


@given(pods(resized=True), st.sampled_from([None, 0, 30]), st.sampled_from([None, ACROSS]))
def test_a_pod_decoded_whole_makes_the_same_row(raw, grace_s, affinity):
    """Offline files go that way, and must be counted like the pods of a live cluster."""
    raw["metadata"] = {**FULL["metadata"], "deletionGracePeriodSeconds": grace_s}
    raw["spec"] = {**FULL["spec"], **raw["spec"], "affinity": affinity}
    raw["status"] = {**FULL["status"], **raw.get("status", {})}
    whole = pod_row.row_of(wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod)))
    live = row_of(raw, MANY)

    assert whole._replace(packed_stamp=live.packed_stamp) == live
    assert whole.stamp == live.stamp._replace(resource_version="")
    assert shown(whole.demand.quota_requests) == shown(live.demand.quota_requests)


def test_amounts_far_out_are_exact():
    demand = row_of(FULL).demand

    assert demand.quota_requests["cpu"].nanos == 100 + 250_000_000
    assert demand.quota_requests["memory"].whole_units == 7 * 2**60


def test_what_is_missing_is_empty():
    row = row_of({"metadata": {"name": "bare"}})

    assert row.namespace == row.node_name == row.phase == ""
    assert row.stamp == ("", "", 0)
    assert (row.profile.gates, row.profile.priority) == ((), None)
    assert (row.deletion, row.profile.deadline_s) == (None, None)
    assert dict(row.demand.quota_requests) == {}


UUIDS = st.uuids().map(str)
TEXTS = st.text(max_size=40)


@given(
    st.one_of(UUIDS, UUIDS.map(str.upper), UUIDS.map(lambda uid: uid.replace("-", "")), TEXTS),
    st.one_of(st.integers(0, 2**70).map(str), st.sampled_from(["", "007", "-1", "²"]), TEXTS),
    st.integers(-(2**33), 2**33),
)
def test_packing_a_stamp_loses_nothing(uid, resource_version, created_s):
    stamp = Stamp(uid, resource_version, created_s)
    row = row_of(FULL)._replace(packed_stamp=stamp.packed())

    assert row.stamp == stamp
    assert (row.uid, row.created_s) == (uid, created_s)


def test_the_stamps_an_api_server_writes_are_packed():
    stamp = Stamp("0a1b2c3d-0000-4000-8000-00000000000f", "18446744", 1_700_000_000)

    assert isinstance(stamp.packed(), bytes)


@given(pods(resized=True), st.data())
def test_a_status_that_repeats_the_spec_changes_nothing(raw, data):
    """The usual case, which the decoder takes a shorter way for."""
    decoder = PodRowDecoder()
    lists = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
    raw["status"] = {
        kept: [
            {
                "name": each["name"],
                "resources": each["resources"],
                "allocatedResources": each["resources"].get("requests", {}),
            }
            for each in raw["spec"][wanted]
        ]
        for wanted, kept in lists.items()
    }
    first = row_of(raw, decoder).demand
    statuses = raw["status"]["containerStatuses"]
    if statuses and data.draw(st.booleans()):
        statuses[0]["allocatedResources"] = {"cpu": data.draw(st.sampled_from(["77", "1m"]))}
    reference = wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod))

    assert first is not None
    demand = row_of(raw, decoder).demand
    check_demand(demand, reference)


@pytest.mark.parametrize(
    ("allocated", "counted"),
    [(None, "3"), ({"cpu": "1"}, "3"), ({"cpu": "3"}, "5")],
    ids=["not reported", "as requested", "more than requested"],
)
def test_what_was_allocated_counts_if_it_is_more_than_the_spec_requests(allocated, counted):
    sized = [{"name": name, "resources": {"requests": {"cpu": cpu}}} for name, cpu in ("a1", "b2")]
    first = sized[0] | ({} if allocated is None else {"allocatedResources": allocated})
    status = {"containerStatuses": [first, sized[1]]}
    raw = {"metadata": {"name": "p"}, "spec": {"containers": sized}, "status": status}

    row = row_of(raw)

    assert str(row.demand.quota_requests["cpu"]) == counted
    check_demand(row.demand, wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod)))


def test_containers_of_the_same_name_are_counted_one_by_one():
    """No API server stores such a pod, but a file may hold it."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    status = {"containerStatuses": [container]}
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [container] * 2}, "status": status}
    reference = wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod))

    assert shown(row_of(raw).demand.quota_requests) == shown(pod_requests(reference, QUOTA))


def test_the_reason_of_a_resize_is_found_among_other_conditions():
    sized = [{"name": "c", "resources": {"requests": {"cpu": cpu}}} for cpu in ("4", "2")]
    ready = {"type": "Ready", "reason": "Infeasible"}
    pending = {"type": "PodResizePending", "reason": "Infeasible"}
    status = {"containerStatuses": sized[1:], "conditions": [ready]}
    raw = {"metadata": {"name": "p"}, "spec": {"containers": sized[:1]}, "status": status}

    assert str(row_of(raw).demand.quota_requests["cpu"]) == "4"
    status["conditions"].append(pending)
    assert str(row_of(raw).demand.quota_requests["cpu"]) == "2"


MANY = PodRowDecoder()
"""Used for all generated pods, so that a demand wrongly taken for another's shows."""


@given(pods(resized=True))
def test_the_demand_is_that_of_the_pod_decoded_whole(raw):
    reference = wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod))

    for _ in range(2):
        demand = row_of(raw, MANY).demand
        check_demand(demand, reference)
        assert demand.qos is qos_class(reference)


@given(pods(resized=True), st.data())
def test_a_pod_that_differs_in_one_place_has_its_own_demand(raw, data):
    """Containers trade places between the lists, and names change: the key must see it."""
    decoder = PodRowDecoder()
    row_of(raw, decoder)
    other = copy.deepcopy(raw)
    spec, status = other["spec"], other.get("status", {})
    match data.draw(st.integers(0, 4)):
        case 0:
            spec["initContainers"] = spec["initContainers"] + spec["containers"][-1:]
            spec["containers"] = spec["containers"][:-1]
        case 1:
            for container in spec["initContainers"]:
                container["restartPolicy"] = "Always"
        case 2:
            spec["containers"][0]["name"] = "renamed"
        case 3:
            status["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
        case _:
            status["initContainerStatuses"] = status.pop("containerStatuses", [])
    reference = wire_pod.to_core(msgspec.convert(other, wire_pod.Pod))

    demand = row_of(other, decoder).demand

    check_demand(demand, reference)


def test_pods_of_one_workload_share_what_they_have_in_common():
    decoder = PodRowDecoder()
    other = copy.deepcopy(FULL)
    other["metadata"] |= {"name": "web-2", "uid": "9", "resourceVersion": "77"}

    first, one, two = row_of(FULL, decoder), row_of(FULL, decoder), row_of(other, decoder)

    assert first.profile is one.profile is two.profile
    assert first.node_name is one.node_name is two.node_name


def test_profiles_live_as_long_as_a_row_has_them():
    decoder = PodRowDecoder()
    rows = []
    for priority in (-1, -2, -1, -2):
        raw = copy.deepcopy(FULL)
        raw["spec"]["priority"] = priority
        rows.append(row_of(raw, decoder))

        assert rows[-1].profile.priority == priority
    assert len(decoder._profiles) == 2
    assert rows[0].profile is rows[2].profile
    rows.clear()
    assert len(decoder._profiles) == 0


def demand_of(requests, limits):
    raw = copy.deepcopy(FULL)
    raw["spec"] |= {"overhead": None, "containers": [{"name": "c", "resources": {}}]}
    raw["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
    return row_of(raw).demand


def test_limits_that_are_the_requests_are_held_once():
    amounts = {"cpu": "500m", "memory": "1Gi"}
    demand = demand_of(amounts, amounts)

    assert demand.quota_limits is demand.quota_requests


@pytest.mark.parametrize("other", ["0.5", "500000u", "5e-1", "501m"])
def test_limits_that_look_otherwise_than_the_requests_are_held_apart(other):
    demand = demand_of({"cpu": "500m"}, {"cpu": other})

    assert shown(demand.quota_requests) == shown({"cpu": Quantity.parse("500m")})
    assert shown(demand.quota_limits) == shown({"cpu": Quantity.parse(other)})


def test_nobody_can_change_what_many_share():
    demand = row_of(FULL).demand

    with pytest.raises(TypeError):
        demand.quota_requests["cpu"] = None


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"metadata": 5}', b'{"metadata": {"name": 5}}', b'{"spec": {}}']
    + [b'{"metadata": {"name": "a", "creationTimestamp": "yesterday"}}', b"\xff"]
    + [
        b'{"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"requests": %s}}]}}'
        % requests
        for requests in (b'{"cpu": "x"}', b'{"cpu": "-1"}', b'{"cpu": true}', b"7")
    ],
)
def test_what_is_not_a_pod_is_a_value_error(body):
    with pytest.raises(ValueError, match=r"."):
        PodRowDecoder().decode(body)


def test_a_negative_amount_is_refused_by_name():
    raw = copy.deepcopy(FULL)
    raw["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "-1"}

    with pytest.raises(FieldError, match=r"spec.containers\[0\].resources.limits\[cpu\]"):
        row_of(raw)


def test_the_identity_is_found_where_the_pod_cannot_be_read():
    raw = copy.deepcopy(FULL)
    raw["spec"] = "nonsense"

    assert find_identity(json.dumps(raw).encode()) == RawIdentity("shop", "web-1", "7c1f", "42")


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"metadata": {"name": "a"}}', b"\xff"])
def test_no_identity_is_found_in_noise(body):
    assert find_identity(body) is None


def test_a_python_without_its_own_blake2_takes_that_of_hashlib():
    own = sys.modules.get("_blake2")
    sys.modules["_blake2"] = None
    try:
        assert run_path(wire_pod_row.__file__)["blake2b"] is hashlib.blake2b
    finally:
        sys.modules["_blake2"] = own
