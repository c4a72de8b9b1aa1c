"""What pods use up, alone and together. The ids of rows are those of the compatibility table."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import PodDemand, row_of
from bursar.core.model.qos import QosClass
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList, add
from bursar.core.quota.scopes import ScopeRule, matches
from bursar.core.quota.usage import is_counted, native_usage
from support.builders.pods import a_pod, init, listed, main, status, texts
from support.builders.random_objects import as_pod

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOW_S = int(NOW.timestamp())


def used_by(pod: Pod) -> ResourceList:
    row = row_of(pod)
    return native_usage(row.demand, is_counted=is_counted(row, NOW_S))


def recounted(names: str, pods: Iterable[Pod], rules: Iterable[ScopeRule] = ()) -> dict[str, Any]:
    """What a quota over these names has in use, counted one pod after the other."""
    total: ResourceList = dict.fromkeys(names.split(), ZERO)
    for pod in pods:
        if matches(rules, row_of(pod).profile):
            total = add(total, used_by(pod))
    return {name: str(total[name]) for name in names.split()}


# ------------------------------------------------------------------ one pod

COUNTED = "pods=1 count/pods=1 "
RESOURCES = {
    "cpu": ("cpu=1m", "cpu=2m", "cpu=1m requests.cpu=1m limits.cpu=2m"),
    "memory": ("memory=1m", "memory=2m", "memory=1m requests.memory=1m limits.memory=2m"),
    "ephemeral storage": (
        "ephemeral-storage=32Mi",
        "ephemeral-storage=64Mi",
        "ephemeral-storage=32Mi requests.ephemeral-storage=32Mi limits.ephemeral-storage=64Mi",
    ),
    "hugepages": (
        "hugepages-2Mi=100Mi",
        "hugepages-2Mi=100Mi",
        "hugepages-2Mi=100Mi requests.hugepages-2Mi=100Mi",
    ),
    "an extended resource": (
        "example.com/dongle=3",
        "example.com/dongle=3",
        "requests.example.com/dongle=3",
    ),
}


@pytest.mark.parametrize(
    ("slot", "requests", "limits", "used"),
    [
        pytest.param(slot, *RESOURCES[what], id=f"U-EV-{number:02d} {slot.__name__} with {what}")
        for number, (slot, what) in enumerate(
            ((slot, what) for slot in (init, main) for what in RESOURCES), start=1
        )
    ],
)
def test_a_container_is_counted_under_the_names_of_its_resources(slot, requests, limits, used):
    assert texts(used_by(a_pod(slot(requests, limits)))) == listed(COUNTED + used)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"], ids="U-EV-11 {}".format)
def test_a_pod_that_has_ended_is_an_object_and_no_more(phase):
    assert texts(used_by(a_pod(main("cpu=1", "cpu=2"), phase=phase))) == {"count/pods": "1"}


def test_u_ev_12_what_starting_takes_beats_what_running_takes():
    pod = a_pod(
        init("cpu=1 memory=50M example.com/dongle=2", "cpu=2 memory=100M example.com/dongle=2"),
        init("cpu=4 memory=1M example.com/dongle=4", "cpu=8 memory=100M example.com/dongle=4"),
        main("cpu=1 memory=50M example.com/dongle=1", "cpu=2 memory=100M example.com/dongle=1"),
        main("cpu=2 memory=50M example.com/dongle=2", "cpu=5 memory=100M example.com/dongle=2"),
    )

    assert texts(used_by(pod)) == listed(
        COUNTED
        + "cpu=4 requests.cpu=4 limits.cpu=8 memory=100M requests.memory=100M limits.memory=200M"
        + " requests.example.com/dongle=4"
    )


def deleted(*, before: int, grace_s: int | None) -> Pod:
    due = NOW - timedelta(seconds=before)
    return a_pod(main("cpu=1", "cpu=2"), deleted_at=due, deletion_grace_s=grace_s)


ENDED = {"count/pods": "1"}
FULLY = listed(COUNTED + "cpu=1 requests.cpu=1 limits.cpu=2")


@pytest.mark.parametrize(
    ("pod", "used"),
    [
        pytest.param(deleted(before=31, grace_s=30), ENDED, id="U-EV-13 past its grace"),
        pytest.param(deleted(before=1, grace_s=0), ENDED, id="U-EV-13 without grace"),
        pytest.param(deleted(before=30, grace_s=30), FULLY, id="U-EV-14 in its last second"),
        pytest.param(deleted(before=-60, grace_s=30), FULLY, id="U-EV-14 not even due"),
        pytest.param(deleted(before=9999, grace_s=None), FULLY, id="no grace given"),
    ],
)
def test_a_pod_being_deleted_is_counted_until_its_grace_has_passed_once_more(pod, used):
    assert texts(used_by(pod)) == used


def test_u_ev_15_overhead_is_added_to_requests_and_limits():
    pod = a_pod(main("cpu=1", "cpu=2"), overhead="cpu=1")

    assert texts(used_by(pod)) == listed(COUNTED + "cpu=2 requests.cpu=2 limits.cpu=3")


def test_devices_of_a_class_are_requests_like_any_other():
    pod = a_pod(main("deviceclass.resource.kubernetes.io/gpu=2"))

    assert texts(used_by(pod)) == listed(
        COUNTED + "requests.deviceclass.resource.kubernetes.io/gpu=2"
    )


def test_names_a_quota_cannot_list_are_left_out():
    pod = a_pod(main("kubernetes.io/batteries=1 storage=1Gi", "example.com/dongle=1"))

    assert texts(used_by(pod)) == listed(COUNTED)


# ------------------------------------------------------------------ many pods

SHORT = "count/pods cpu pods"
RUNNING = a_pod(main("cpu=1", "cpu=2"), phase="Running")
GOLD = replace(RUNNING, priority_class="gold")
FAILED_GOLD = a_pod(main(), phase="Failed", priority_class="gold")
FAILED = replace(RUNNING, phase="Failed")
IN_GOLD = ScopeRule("PriorityClass", "In", ("gold",))
HAS_CLASS = ScopeRule("PriorityClass", "Exists")
BEST_EFFORT = ScopeRule("BestEffort", "Exists")


@pytest.mark.parametrize(
    ("pods", "rules", "used"),
    [
        pytest.param([RUNNING] * 2, [], "count/pods=2 cpu=2 pods=2", id="U-EV-16 two running"),
        pytest.param(
            [RUNNING, FAILED], [], "count/pods=2 cpu=1 pods=1", id="U-EV-17 one has ended"
        ),
        pytest.param(
            [GOLD, RUNNING, FAILED_GOLD],
            [IN_GOLD],
            "count/pods=2 cpu=1 pods=1",
            id="U-EV-18 the pods of a class",
        ),
        pytest.param(
            [GOLD, RUNNING, FAILED_GOLD],
            [HAS_CLASS, IN_GOLD],
            "count/pods=2 cpu=1 pods=1",
            id="U-EV-19 the class asked for twice",
        ),
        pytest.param(
            [GOLD, RUNNING, FAILED_GOLD],
            [HAS_CLASS, BEST_EFFORT, IN_GOLD],
            "count/pods=1 cpu=0 pods=0",
            id="U-EV-20 and best effort",
        ),
    ],
)
def test_a_quota_counts_the_pods_its_scopes_are_about(pods, rules, used):
    assert recounted(SHORT, pods, rules) == listed(used)


# ------------------------------------------------------------------ scopes of a pod

ALL_SCOPES = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
]


def scopes_of(pod: Pod, asked: Iterable[str] = ALL_SCOPES) -> set[str]:
    profile = row_of(pod).profile
    return {scope for scope in asked if matches([ScopeRule(scope, "Exists")], profile)}


@pytest.mark.parametrize(
    ("pod", "scopes"),
    [
        pytest.param(a_pod(main()), "NotTerminating BestEffort", id="U-EV-21 an empty pod"),
        pytest.param(
            a_pod(main(), priority_class="class1"),
            "NotTerminating BestEffort PriorityClass",
            id="U-EV-22 of a class",
        ),
        pytest.param(
            a_pod(main("cpu=1 memory=50M")),
            "NotTerminating NotBestEffort",
            id="U-EV-23 with requests",
        ),
        pytest.param(
            a_pod(main(), deadline_s=30), "Terminating BestEffort", id="U-EV-24 with a deadline"
        ),
    ],
)
def test_a_pod_is_in_the_scopes_that_hold_for_it(pod, scopes):
    assert scopes_of(pod) == set(scopes.split())


def test_u_ev_25_only_the_scopes_asked_for_are_answered():
    assert scopes_of(a_pod(main(), deadline_s=30), ["Terminating"]) == {"Terminating"}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMED = {"topologyKey": "zone", "namespaces": ["shop"]}
SELECTED = {"topologyKey": "zone", "namespaceSelector": {}}
BOTH = NAMED | SELECTED
AT_HOME = {"topologyKey": "zone", "namespaces": [], "namespaceSelector": None}


def raw_affinity(side: str, when: str, term: dict[str, Any]) -> dict[str, Any]:
    terms = term if when == REQUIRED else {"weight": 1, "podAffinityTerm": term}
    return {side: {when: [terms]}}


def with_affinity(affinity: dict[str, Any] | None) -> Pod:
    return as_pod({"metadata": {"name": "web"}, "spec": {"affinity": affinity}})


@pytest.mark.parametrize(
    ("side", "when", "term"),
    [
        pytest.param("podAffinity", REQUIRED, NAMED, id="U-EV-26"),
        pytest.param("podAffinity", REQUIRED, SELECTED, id="U-EV-27"),
        pytest.param("podAffinity", PREFERRED, BOTH, id="U-EV-28"),
        pytest.param("podAntiAffinity", REQUIRED, NAMED, id="U-EV-29"),
        pytest.param("podAntiAffinity", PREFERRED, SELECTED, id="U-EV-30"),
        pytest.param("podAntiAffinity", REQUIRED, BOTH, id="U-EV-31"),
    ],
)
def test_a_term_that_names_or_selects_namespaces_crosses_them(side, when, term):
    assert "CrossNamespacePodAffinity" in scopes_of(with_affinity(raw_affinity(side, when, term)))


@pytest.mark.parametrize(
    "affinity",
    [None, {}, {"podAffinity": {}}, {"podAffinity": {PREFERRED: [{"weight": 1}]}}]
    + [raw_affinity("podAntiAffinity", when, AT_HOME) for when in (REQUIRED, PREFERRED)],
)
def test_other_affinity_stays_at_home(affinity):
    assert "CrossNamespacePodAffinity" not in scopes_of(with_affinity(affinity))


def test_a_stored_class_of_service_stays_what_it_was():
    pod = a_pod(main("cpu=1"), reported_qos="BestEffort")

    assert row_of(pod).profile.qos is QosClass.BEST_EFFORT
    assert row_of(replace(pod, reported_qos="")).profile.qos is QosClass.BURSTABLE


# ------------------------------------------------------------------ resized pods


@pytest.mark.parametrize(
    ("pod", "used"),
    [
        pytest.param(
            a_pod(
                main("memory=200Mi", "memory=400Mi"),
                container_statuses=(status("c0", allocated="memory=150Mi"),),
            ),
            "memory=200Mi requests.memory=200Mi limits.memory=400Mi",
            id="U-EV-32 allocated, and nothing in force",
        ),
        pytest.param(
            a_pod(
                main("cpu=100m", "cpu=200m"),
                container_statuses=(status("c0", "cpu=150m", "cpu=250m", allocated="cpu=150m"),),
            ),
            "cpu=150m requests.cpu=150m limits.cpu=250m",
            id="U-EV-33 more cpu in force than wanted",
        ),
        pytest.param(
            a_pod(
                main("cpu=100m memory=200Mi", "cpu=200m memory=400Mi"),
                container_statuses=(
                    status(
                        "c0",
                        "cpu=150m memory=250Mi",
                        "cpu=250m memory=450Mi",
                        allocated="cpu=150m memory=250Mi",
                    ),
                ),
            ),
            "cpu=150m requests.cpu=150m limits.cpu=250m"
            " memory=250Mi requests.memory=250Mi limits.memory=450Mi",
            id="U-EV-34 more of both",
        ),
        pytest.param(
            a_pod(main("cpu=100m", "cpu=200m"), container_statuses=(status("c0"),)),
            "cpu=100m requests.cpu=100m limits.cpu=200m",
            id="U-EV-35 an empty status",
        ),
    ],
)
def test_what_is_in_force_counts_where_it_is_more_than_wanted(pod, used):
    assert texts(used_by(pod)) == listed(COUNTED + used)


def test_an_ended_demand_needs_no_amounts():
    demand = PodDemand.of(RUNNING)

    assert texts(native_usage(demand, is_counted=False)) == {"count/pods": "1"}
