"""Pod demand during an in-place resize: spec, what the kubelet granted, what runs."""

import pytest
from hypothesis import assume, given, settings

from bursar.core.model.demand import (
    ASSIGNED,
    INCOMING,
    QUOTA,
    DemandOptions,
    container_limits_seen,
    is_resize_infeasible,
    pod_limits,
    pod_requests,
)
from bursar.core.model.pod import Condition
from support.builders.pods import (
    a_pod,
    init,
    listed,
    main,
    parsed,
    resize,
    resources,
    sidecar,
    status,
    texts,
)
from support.builders.random_objects import as_pod, pods

REFUSED = resize("Infeasible")
RESIZES = {
    "refused: what runs counts": (
        a_pod(main("cpu=4"), container_statuses=(status("c0", "cpu=2"),), conditions=REFUSED),
        "cpu=2",
    ),
    "refused: what was granted counts if it is more": (
        a_pod(
            main("cpu=6"),
            container_statuses=(status("c0", "cpu=2", allocated="cpu=4"),),
            conditions=REFUSED,
        ),
        "cpu=4",
    ),
    "under way: the spec counts if it is more": (
        a_pod(main("cpu=4"), container_statuses=(status("c0", "cpu=2"),)),
        "cpu=4",
    ),
    "deferred: likewise": (
        a_pod(
            main("cpu=4"),
            container_statuses=(status("c0", "cpu=2"),),
            conditions=resize("Deferred"),
        ),
        "cpu=4",
    ),
    "the greatest of the three, per resource": (
        a_pod(
            main("cpu=30m memory=20M ephemeral-storage=10G"),
            container_statuses=(
                status(
                    "c0",
                    "cpu=10m memory=30M ephemeral-storage=20G",
                    allocated="cpu=20m memory=10M ephemeral-storage=30G",
                ),
            ),
        ),
        "cpu=30m memory=30M ephemeral-storage=30G",
    ),
    "a request that only the status has": (
        a_pod(main(), container_statuses=(status("c0", "cpu=2"),)),
        "cpu=2",
    ),
    "a status without resources says nothing": (
        a_pod(main("cpu=1"), container_statuses=(status("c0", allocated="cpu=9"),)),
        "cpu=1",
    ),
    "a status of somebody else says nothing": (
        a_pod(main("cpu=1"), container_statuses=(status("c7", "cpu=9"),)),
        "cpu=1",
    ),
    "sidecars: refused": (
        a_pod(
            sidecar("cpu=4"), init_container_statuses=(status("i0", "cpu=2"),), conditions=REFUSED
        ),
        "cpu=2",
    ),
    "sidecars: under way": (
        a_pod(sidecar("cpu=4"), init_container_statuses=(status("i0", "cpu=2"),)),
        "cpu=4",
    ),
    "plain init containers keep to the spec": (
        a_pod(init("cpu=4"), init_container_statuses=(status("i0", "cpu=9"),)),
        "cpu=4",
    ),
}


@pytest.mark.parametrize(("pod", "requests"), RESIZES.values(), ids=RESIZES)
def test_resized_requests(pod, requests):
    assert texts(pod_requests(pod, QUOTA)) == listed(requests)


def test_the_status_is_not_looked_at_unless_asked():
    pod = a_pod(
        main("cpu=4", "cpu=5"),
        container_statuses=(status("c0", "cpu=2", "cpu=9"),),
        conditions=REFUSED,
    )

    assert texts(pod_requests(pod)) == {"cpu": "4"}
    assert texts(pod_limits(pod)) == {"cpu": "5"}


@pytest.mark.parametrize(
    ("reason", "limits"), [("", "memory=2Gi cpu=1"), ("Infeasible", "memory=2Gi")]
)
def test_resized_limits_ignore_what_was_granted(reason, limits):
    pod = a_pod(
        main("", "memory=1Gi cpu=1"),
        container_statuses=(status("c0", "", "memory=2Gi", allocated="memory=9Gi"),),
        conditions=resize(reason),
    )

    assert texts(pod_limits(pod, QUOTA)) == listed(limits)


def test_only_the_first_resize_condition_counts_and_its_status_does_not():
    pod = a_pod(
        main("cpu=4"),
        container_statuses=(status("c0", "cpu=2"),),
        conditions=(
            Condition(type="Ready", reason="Infeasible"),
            Condition(type="PodResizePending", status="False", reason="Infeasible"),
            Condition(type="PodResizePending", status="True", reason="Deferred"),
        ),
    )

    assert texts(pod_requests(pod, QUOTA)) == {"cpu": "2"}


RESIZED_POD = {
    "under way": ("", "cpu=4 memory=3Gi", "cpu=5 memory=4Gi"),
    "refused": ("Infeasible", "cpu=3 memory=3Gi", "cpu=5 memory=0"),
}


@pytest.mark.parametrize(("reason", "requests", "limits"), RESIZED_POD.values(), ids=RESIZED_POD)
def test_pod_level_status_counts_only_for_the_scheduler(reason, requests, limits):
    pod = a_pod(
        main("cpu=1"),
        resources=resources("cpu=4 memory=1Gi", "cpu=4 memory=4Gi"),
        status_resources=resources("cpu=2 memory=2Gi", "cpu=5"),
        status_allocated=parsed("cpu=3 memory=3Gi"),
        conditions=resize(reason),
    )

    assert texts(pod_requests(pod, ASSIGNED)) == listed(requests)
    assert texts(pod_limits(pod, ASSIGNED)) == listed(limits)
    for options in (INCOMING, QUOTA, DemandOptions(use_pod_level_status=True)):
        assert texts(pod_requests(pod, options)) == listed("cpu=4 memory=1Gi")
        assert texts(pod_limits(pod, options)) == listed("cpu=4 memory=4Gi")


def test_a_refused_pod_level_resize_without_report_gives_no_request_but_the_limit_of_the_spec():
    pod = a_pod(
        main("cpu=1"),
        resources=resources("cpu=4", "cpu=5"),
        status_resources=resources(),
        conditions=REFUSED,
    )

    assert texts(pod_requests(pod, ASSIGNED)) == {"cpu": "0"}
    assert texts(pod_limits(pod, ASSIGNED)) == {"cpu": "5"}


def test_pod_level_resources_without_status_keep_to_the_spec():
    pod = a_pod(main(), resources=resources("cpu=4", "cpu=5"), conditions=REFUSED)

    assert texts(pod_requests(pod, ASSIGNED)) == {"cpu": "4"}
    assert texts(pod_limits(pod, ASSIGNED)) == {"cpu": "5"}


def test_limits_seen_follow_the_status_when_asked():
    pod = a_pod(main("", "cpu=1"), container_statuses=(status("c0", "", "cpu=3"),))

    assert [texts(limits) for limits in container_limits_seen(pod, QUOTA)] == [{"cpu": "3"}]


@settings(max_examples=50)
@given(pods(resized=True).map(as_pod))
def test_looking_at_the_status_never_lowers_a_demand_unless_the_resize_is_refused(pod):
    assume(not is_resize_infeasible(pod))
    for demand in (pod_requests, pod_limits):
        plain, grown = demand(pod, INCOMING), demand(pod, ASSIGNED)

        assert plain.keys() <= grown.keys()
        assert all(grown[name] >= amount for name, amount in plain.items())
