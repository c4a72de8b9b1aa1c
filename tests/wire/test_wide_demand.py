"""Pods with very many resource names: the same sums as other pods, for little time and memory."""

import copy
import json

import msgspec
import pytest
from hypothesis import given

from bursar.core.counting.counter import Pending
from bursar.core.counting.counters import Counters
from bursar.core.counting.device_settings import DeviceCounting
from bursar.core.counting.devices import DeviceCounter
from bursar.core.counting.peer_pods import UnreadablePeerPod
from bursar.core.devices.source import KOORDINATOR
from bursar.core.model.demand import ASSIGNED, QUOTA, pod_limits, pod_requests
from bursar.core.model.pod_row import ALWAYS_COUNTED, NAMES_MAX, TOO_MANY_NAMES
from bursar.core.model.qos import qos_class
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.views.recount import Recount
from bursar.wire.launcher_pods import derive_launcher_facts
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.peerpods.recognition import derive_peer_pod
from bursar.wire.structs.fields import FieldError
from support.builders.manifests import pod_manifest
from support.builders.pods import texts
from support.builders.quota_books import NOW_S, a_key, a_quota, open_books
from support.builders.random_objects import pods
from support.counting.policies import a_counter, a_policy
from support.counting.table_counter import TableCounter

MANY = {f"example.com/r{number}": "1" for number in range(NAMES_MAX + 1)}


def a_body(requests=None, **fields):
    raw = pod_manifest("a/web", **fields)
    amounts = MANY if requests is None else requests
    resources = {"requests": amounts, "limits": amounts}
    raw["spec"]["containers"] = [{"name": "c", "resources": resources}]
    return json.dumps(raw, separators=(",", ":")).encode()


def row_of(raw, decoder=None):
    body = raw if isinstance(raw, bytes) else json.dumps(raw, separators=(",", ":")).encode()
    return (decoder or PodRowDecoder()).decode(body)


def shown(amounts):
    return {name: (q.nanos, str(q), q.format, q.scale, q.big) for name, q in amounts.items()}


@given(pods())
def test_each_name_is_counted_as_if_it_were_one_of_few(raw):
    raw = copy.deepcopy(raw)
    raw["spec"]["containers"] += [{"name": "wide", "resources": {"requests": MANY}}]
    whole = wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod))

    demand = row_of(raw).demand

    assert demand.rest is not None
    assert demand.qos is qos_class(whole)
    expected = [
        pod_requests(whole, QUOTA),
        {name: each for name, each in pod_limits(whole, QUOTA).items() if name in ALWAYS_COUNTED},
        pod_requests(whole, ASSIGNED),
    ]
    names = {name for amounts in expected for name in amounts}
    found = demand.in_names(names)
    limits = {name: each for name, each in found.quota_limits.items() if name in ALWAYS_COUNTED}
    for amounts, each in zip(
        expected, (found.quota_requests, limits, found.assigned_requests), strict=True
    ):
        assert shown(each) == shown(amounts)
    for name in sorted(names)[:3]:
        alone = demand.in_names([name])
        assert shown(alone.quota_requests) == shown(
            {each: amount for each, amount in expected[0].items() if each == name}
        )


def test_few_names_are_counted_at_once_and_the_others_take_little_memory():
    names = {f"example.com/r{number:05}": "1" for number in range(5000)} | {"cpu": "2"}
    body = a_body(names)
    row = row_of(body)

    assert texts(row.demand.quota_requests) == texts(row.demand.quota_limits) == {"cpu": "2"}
    assert row.demand.weight < len(body) / 4


def test_a_name_that_the_pod_does_not_have_costs_nothing():
    demand = row_of(a_body()).demand

    assert texts(demand.in_names(["example.com/other"]).quota_requests) == {}


def test_an_update_finds_the_demand_of_the_pod_before():
    decoder = PodRowDecoder()
    one = row_of(a_body(), decoder)
    other = row_of(a_body(metadata={"labels": {"changed": "yes"}}), decoder)

    assert other.profile is one.profile


@pytest.mark.parametrize(
    "amount", ["-1", "x", True, "-1Gi", "1e"], ids=["negative", "text", "bool", "suffix", "half"]
)
def test_an_amount_that_cannot_be_counted_is_refused_at_once(amount):
    with pytest.raises(FieldError):
        row_of(a_body({**MANY, "example.com/bad": amount}))


@pytest.mark.parametrize("amount", [7, 1.5, None, "1.5", "1e3", "0.5Gi", "123456789012345678901"])
def test_unusual_amounts_are_counted(amount):
    row = row_of(a_body({**MANY, "example.com/odd": amount}))
    few = row_of(a_body({"example.com/odd": amount}))

    assert shown(row.demand.in_names(["example.com/odd"]).quota_requests) == shown(
        few.demand.quota_requests
    )


# ------------------------------------------------------------------ quotas


def test_a_quota_that_comes_later_counts_a_name_that_none_listed_before():
    books = open_books(NativeCounter().count)
    row = row_of(a_body({**MANY, "hugepages-2Mi": "4Mi"}))
    books.see_pod(row)
    books.see_quota(
        a_quota("a/late", "requests.example.com/r7=5 requests.hugepages-2Mi=1Gi hugepages-2Mi=1Gi")
    )

    late = books.coverage.quota(a_key("a/late"))
    used = {name: str(account.used) for name, account in late.accounts.items()}
    assert used["requests.example.com/r7"] == "1"
    assert used["requests.hugepages-2Mi"] == "4Mi"
    recount = Recount([row], NOW_S)
    assert texts(recount.used(late.quota, []))["requests.example.com/r7"] == "1"


def test_a_quota_of_the_cluster_counts_the_name_in_total_and_in_the_share():
    books = open_books(NativeCounter().count)
    books.see_quota(a_quota("wide", "requests.example.com/r7=5"))
    books.see_pod(row_of(a_body()))

    covered = books.coverage.quota(a_key("wide"))
    name = "requests.example.com/r7"
    assert str(covered.accounts[name].used) == str(covered.shares["a"][name].used) == "1"


def test_names_are_counted_once_for_all_quotas_that_list_them():
    counter = NativeCounter()
    row = row_of(a_body())
    charge = counter.count(row)
    assert "requests.example.com/r1" not in charge.amounts

    first = charge.amounts_of(["requests.example.com/r1", "requests.cpu", "pods"])

    assert "requests.example.com/r1" in first
    assert charge.amounts_of(["requests.example.com/r1"]) is first
    assert counter.count(row) is charge


# ------------------------------------------------------------------ other counters


def test_a_launcher_pod_with_very_many_names_keeps_few_of_them():
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
    body = a_body(
        {**MANY, "cpu": "1"},
        metadata={
            "labels": {"kubevirt.io": "virt-launcher"},
            "ownerReferences": [{**owner, "name": "db", "uid": "7"}],
        },
    ).replace(b'"name":"c"', b'"name":"compute"')

    facts = derive_launcher_facts(body)

    assert texts(facts.compute.quota_requests) == {"cpu": "1"}


def test_very_many_names_and_an_addition_of_a_counter_add_up():
    """And the sum is one charge for as long as the pod has it."""
    table = TableCounter(names=("gpus/mine",), is_addition=True)
    table.table["web"] = "gpus/mine=2"
    counters = Counters((table,))
    row = row_of(a_body())

    charge = counters.count(row)

    amounts = charge.amounts_of(["requests.example.com/r7", "gpus/mine"])
    assert {name: nanos // 10**9 for name, (nanos, _) in amounts.items()} == {
        "count/pods": 1,
        "pods": 1,
        "gpus/mine": 2,
        "requests.example.com/r7": 1,
    }
    assert counters.count(row) is charge
    del charge, amounts
    assert len(counters._charges) == 0


def test_a_device_among_very_many_names_is_counted():
    counter = DeviceCounter(DeviceCounting(sources=(KOORDINATOR,)), lambda _: None)
    few, many = ({"koordinator.sh/gpu": "200"}, {**MANY, "koordinator.sh/gpu": "200"})
    row = row_of(a_body(many))

    counted = counter.count(row)

    assert counted == counter.count(row_of(a_body(few)))
    assert counted is not None
    assert counter.count(row) == counted
    assert len(counter._wide) == 1
    del row
    assert len(counter._wide) == 0


def test_a_policy_holds_a_pod_with_very_many_names():
    counter = a_counter(a_policy("all", match="true", charges={"instances/all": "1"}))

    assert counter.count(row_of(a_body())) == Pending(TOO_MANY_NAMES)


def test_a_peer_pod_with_very_many_names_waits_with_the_reason():
    derive = derive_peer_pod(["kata-remote"])
    body = a_body(runtimeClassName="kata-remote")

    assert derive(body) == UnreadablePeerPod(TOO_MANY_NAMES)
