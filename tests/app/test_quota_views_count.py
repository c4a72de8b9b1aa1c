"""Views count as the controller does: with its counters, and with what these depend on."""

import json

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ForbiddenError
from bursar.app.counting.provenance import (
    PARTS_MAX,
    REASON_LENGTH_MAX,
    ChargePart,
    charge_parts,
    cost_text,
)
from bursar.app.counting.uncounted import (
    DEVICE_NAMES,
    TEXT_LENGTH_MAX,
    uncounted_names,
    uncounted_text,
)
from bursar.app.quota.views.inventory import inventory_of, read_inventory
from bursar.app.quota.views.read_model import queue_report, quota_reports
from bursar.core.counting.counters import CountedPart
from bursar.core.counting.device_settings import charged_name
from bursar.core.devices.source import KOORDINATOR
from bursar.core.model.namespace import NamespaceObject
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.core.quota.refusal import Reason
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from bursar.wire.model.pod import decode_pod
from bursar.wire.quota.objects import decode_quota
from support.builders.manifests import (
    DEFINITIONS,
    a_manifest,
    arq_manifest,
    namespace_manifest,
    pod_manifest,
)
from support.builders.pods import parsed, texts
from support.builders.quota_books import a_row
from support.cluster.scripted_cluster import seeded
from support.counting.plan_counter import DEFINITION, PLANS, SEATS, a_plan, plan_counting, with_plan
from support.faults.line import ScriptedLists

NOW_S = 1_000_000
TARGETING = Targeting(own_namespace="aaq")
QUOTA = arq_manifest("a/q", {SEATS: "5", "requests.cpu": "9", "cpu/vmi": "1"})
PODS_OF_A = [
    pod_manifest("a/big", requests="cpu=1", metadata=with_plan("gold")),
    pod_manifest("a/lost", requests="cpu=2", metadata=with_plan("tin")),
    pod_manifest("a/plain", requests="cpu=4"),
    pod_manifest("a/waits", GATE, requests="cpu=1", metadata=with_plan("gold")),
]
GOLD = a_plan("a/gold", 3)
NATIVE = a_manifest("v1", "ResourceQuota", "a/native", spec={"hard": {"requests.cpu": "9"}})


async def a_cluster(*manifests):
    cluster = MemoryCluster(SYSTEM_CLOCK, source=seeded(1))
    home = namespace_manifest("a", **{GATING_LABEL: ""})
    await load_manifests(cluster, [*DEFINITIONS, home, QUOTA, NATIVE, *PODS_OF_A, *manifests])
    return cluster


def parts(inventory, name="q"):
    [report] = quota_reports(inventory, NOW_S, name=name)
    return {
        each.pod.name: [
            (part.counter, part.reason, part.amounts and texts(part.amounts)) for part in each.parts
        ]
        for each in report.charges
    }


def used(inventory, name="q"):
    [report] = quota_reports(inventory, NOW_S, name=name)
    return texts(report.used)


def waiting(inventory):
    [pod] = queue_report(inventory, TARGETING, NOW_S)
    return pod


BY_PLAN = {
    "big": [("plans", "plan gold: 3 seats", {SEATS: "3"})],
    "lost": [("plans", "there is no plan tin", None)],
}
NOT_LISTED = [("plans", "plans are not listed", None)]

# ------------------------------------------------------------------ a cluster


async def test_objects_that_a_counter_depends_on_are_listed():
    cluster = await a_cluster(DEFINITION, GOLD)
    inventory = await read_inventory(cluster, counting=plan_counting())

    assert inventory.problems == ()
    assert parts(inventory) == BY_PLAN
    # The pod that cannot be counted yet costs at least what it requests.
    assert used(inventory) == {SEATS: "3", "requests.cpu": "6", "cpu/vmi": "0"}
    pod = waiting(inventory)
    assert pod.reason is Reason.QUOTA_EXCEEDED
    assert "requested: seats/plan=3, used: seats/plan=3" in pod.refusals[0].message()
    [part] = charge_parts(inventory.counting.explain, pod.row)
    assert (part.counter, part.reason) == ("plans", "plan gold: 3 seats")


async def test_a_resource_quota_of_kubernetes_counts_natively():
    cluster = await a_cluster(DEFINITION, GOLD)
    inventory = await read_inventory(cluster, counting=plan_counting())

    assert used(inventory, "native") == {"requests.cpu": "8"}
    assert parts(inventory, "native") == {}


async def test_a_kind_that_is_not_installed_has_no_objects():
    inventory = await read_inventory(await a_cluster(), counting=plan_counting())

    assert inventory.problems == ()
    assert parts(inventory) == {}
    assert used(inventory)["requests.cpu"] == "7"
    assert waiting(inventory).reason is None


async def test_pods_are_not_counted_by_objects_that_may_not_be_listed():
    cluster = await a_cluster(DEFINITION, GOLD)
    refused = [ForbiddenError("you may not")]
    reader = ScriptedLists(cluster, plans=refused)
    inventory = await read_inventory(reader, counting=plan_counting())

    assert inventory.problems == ("left out: plans.example.com: you may not",)
    assert parts(inventory) == {"big": NOT_LISTED, "lost": NOT_LISTED}
    assert waiting(inventory).reason is Reason.NOT_COUNTED


async def test_an_object_that_cannot_be_read_is_left_out_by_name():
    bad = a_plan("a/tin", "many")
    inventory = await read_inventory(
        await a_cluster(DEFINITION, GOLD, bad), counting=plan_counting()
    )

    assert inventory.problems == (
        "left out: plans.example.com a/tin: spec.seats: a number is expected",
    )
    assert parts(inventory) == BY_PLAN


# ------------------------------------------------------------------ files


def inventory_of_files(counting, *plans):
    bodies = [json.dumps(each).encode() for each in PODS_OF_A]
    return inventory_of(
        [decode_pod(body) for body in bodies],
        [NamespaceObject(name="a", labels={GATING_LABEL: ""})],
        [decode_quota(QuotaKind.NAMESPACED, json.dumps(QUOTA).encode())],
        counting=counting,
        bodies={PODS: bodies, PLANS: [json.dumps(each).encode() for each in plans]},
    )


def test_files_are_counted_like_a_cluster():
    inventory = inventory_of_files(plan_counting(), GOLD)

    assert parts(inventory) == BY_PLAN
    assert waiting(inventory).reason is Reason.QUOTA_EXCEEDED


async def test_a_pod_that_has_ended_is_not_charged():
    done = pod_manifest("a/done", metadata=with_plan("gold")) | {"status": {"phase": "Succeeded"}}
    cluster = await a_cluster(DEFINITION, GOLD, done)
    inventory = await read_inventory(cluster, counting=plan_counting())

    assert (used(inventory)[SEATS], "done" in parts(inventory)) == ("3", False)


async def test_a_pod_that_costs_nothing_of_what_the_quota_limits_is_not_listed():
    cluster = await a_cluster(DEFINITION, GOLD, arq_manifest("a/cpu", {"requests.cpu": "9"}))
    inventory = await read_inventory(cluster, counting=plan_counting())

    assert list(parts(inventory, "cpu")) == ["lost"]


async def test_a_pod_out_of_scope_is_not_charged():
    scoped = arq_manifest("a/scoped", {SEATS: "5"})
    scoped["spec"]["scopes"] = ["Terminating"]
    cluster = await a_cluster(DEFINITION, GOLD, scoped)
    inventory = await read_inventory(cluster, counting=plan_counting())

    assert (used(inventory, "scoped"), parts(inventory, "scoped")) == ({SEATS: "0"}, {})


def test_whole_pods_are_needed_only_if_a_counter_needs_them():
    assert plan_counting().whole_kinds == [PODS, PLANS]
    assert inventory_of([], [], []).counting.whole_kinds == []


@pytest.mark.parametrize(
    ("is_named_by_pods", "expected"),
    [(False, {}), (True, {"big": NOT_LISTED, "lost": NOT_LISTED})],
    ids=["absent", "named"],
)
def test_pods_that_name_objects_which_the_files_lack_are_not_counted(is_named_by_pods, expected):
    inventory = inventory_of_files(plan_counting(is_named_by_pods=is_named_by_pods))

    assert parts(inventory) == expected


# ------------------------------------------------------------------ names and words


@pytest.mark.parametrize(
    ("name", "is_counted"),
    [
        ("requests.cpu", True),
        ("requests.example.com/gpu", True),
        ("requests.smarter-devices/gpio", True),
        ("services", True),
        ("requests.cpu/vmi", False),
        ("requests.gpus/peerpod", False),
        ("requests.gpu/koordinator", False),
        ("instances/notebook", False),
        ("limits.cpu/vmi", False),
        ("limits.example.com/gpu", False),
    ],
)
def test_names_that_only_a_counter_can_charge(name, is_counted):
    found = uncounted_names([name], NativeCounter().may_charge)

    assert found == (() if is_counted else (name,))


def test_the_names_of_devices_are_those_of_koordinator():
    """They are written out, so that a view does not import the descriptions of allocators."""
    charged = {charged_name(KOORDINATOR, kind) for kind in KOORDINATOR.kinds}

    assert {name.removeprefix("requests.") for name in DEVICE_NAMES} == charged


async def test_a_report_names_what_no_counter_charges():
    inventory = await read_inventory(await a_cluster(DEFINITION), counting=plan_counting())
    [report] = quota_reports(inventory, NOW_S, name="q")

    assert report.uncounted == ("cpu/vmi",)


async def test_names_in_a_resource_quota_are_kubernetes_to_judge():
    hard = {"requests.cpu/vmi": "1"}
    other = a_manifest("v1", "ResourceQuota", "a/other", spec={"hard": hard})
    inventory = await read_inventory(await a_cluster(other), counting=plan_counting())
    [report] = quota_reports(inventory, NOW_S, name="other")

    assert (list(report.seen.quota.hard), report.uncounted) == (list(hard), ())


def test_it_is_said_what_would_count_a_name():
    text = uncounted_text(
        ["requests.cpu/vmi", "gpus/peerpod", "requests.gpu/koordinator", "seats/pln"]
    )

    assert text == (
        "requests.cpu/vmi: counted only with --vmi-mode DedicatedVirtualResources; "
        "gpus/peerpod: counted only with --peerpod-mode DedicatedVirtualResources; "
        "requests.gpu/koordinator: counted only with --count-devices; "
        "seats/pln: no counter charges this name; "
        "check its spelling, or charge it by a CountingPolicy (--counting-policies)"
    )


def test_many_names_are_cut():
    text = uncounted_text([f"seats/{'x' * 50}{number}" for number in range(60)])

    assert len(text) <= TEXT_LENGTH_MAX
    assert text.endswith(" more")


def test_long_reasons_are_cut_and_many_counters_are_counted():
    row = a_row("a/web", "cpu=1")
    long = [CountedPart("vmi", "VM " + "x" * 5000, parsed("cpu=1"))]
    [part] = charge_parts(lambda _: long, row)
    many = [ChargePart(f"c{number}", "why", parsed("cpu=1")) for number in range(PARTS_MAX + 2)]

    assert len(part.reason) == REASON_LENGTH_MAX
    assert cost_text(many).endswith("c4: why; and 2 more")
