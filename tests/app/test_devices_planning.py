"""Only pods that changed are resolved again."""

from bursar.app.devices.node_pods import PodsView
from bursar.app.devices.planning import CompatPlanning, HoldingPlanning
from bursar.core.devices.allocation import ReportedContainer, ReportedPod
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.pod import live_pods
from bursar.core.devices.resolve import Rules
from support.devices.pod_resources_proxy import SOURCES, gpu_pod


def view(*pods):
    return PodsView(live_pods(pods), 0.0)


def reported(name):
    return ReportedPod(namespace="team", name=name, containers=(ReportedContainer(name="main"),))


def test_plans_are_the_same_object_as_long_as_pods_say_the_same():
    planning = HoldingPlanning(SOURCES, Rules(needs_inventory=False))
    first = planning.plans(view(gpu_pod("a", "GPU-1"), gpu_pod("plain")), None)
    again = planning.plans(view(gpu_pod("a", "GPU-1"), gpu_pod("another")), None)
    fewer = planning.plans(view(gpu_pod("plain")), None)

    assert first is again
    assert fewer is not first
    assert fewer.holdings == {}


def test_pods_that_hold_what_they_held_keep_what_was_planned_for_them():
    planning = HoldingPlanning(SOURCES, Rules(needs_inventory=False))
    a, b = reported("a"), reported("b")
    before = planning.plans(view(gpu_pod("a", "GPU-1"), gpu_pod("b", "GPU-2")), None)
    kept, changed = before.plan(a), before.plan(b)
    after = planning.plans(view(gpu_pod("a", "GPU-1"), gpu_pod("b", "GPU-3")), None)

    assert after.plan(a) is kept
    assert changed is not None
    assert after.plan(b) != changed


def test_new_inventory_is_asked_about_every_pod():
    planning = HoldingPlanning(SOURCES, Rules(needs_inventory=False))
    a = reported("a")
    pods = view(gpu_pod("a", "GPU-1"))
    unknown = planning.plans(pods, None).plan(a)
    absent = planning.plans(pods, Inventory((Device(kind="gpu", minor=0, id="GPU-9"),))).plan(a)
    present = planning.plans(pods, Inventory((Device(kind="gpu", minor=0, id="GPU-1"),))).plan(a)

    assert unknown is not None
    assert absent is None
    assert present is not None


def test_shares_are_numbered_if_wanted():
    planning = HoldingPlanning(SOURCES, Rules(needs_inventory=False, numbers_shares=True))
    plans = planning.plans(view(gpu_pod("a", "GPU-1")), None)

    assert [each.device for each in plans.holdings["team", "a"].allocations] == ["GPU-1"]


def test_memory_of_plans_has_a_bound():
    planning = HoldingPlanning(SOURCES, Rules(needs_inventory=False))
    plans = planning.plans(view(gpu_pod("a", "GPU-1")), None)
    for _ in range(1000):
        plans.plan(reported("a"))

    assert len(plans._planned) < 20


def test_koordinators_plans_are_kept_as_long_as_the_pods_are():
    planning = CompatPlanning()
    pods = view(gpu_pod("a", "GPU-1"))

    assert planning.plans(pods, None) is planning.plans(pods, Inventory())
    assert planning.plans(view(), None) is not planning.plans(pods, None)
