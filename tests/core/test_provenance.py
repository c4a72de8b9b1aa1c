"""Provenance: every number of a demand is accounted for, down to container and reading."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.model.demand import (
    ASSIGNED,
    INCOMING,
    QUOTA,
    Basis,
    DemandOptions,
    pod_limits,
    pod_requests,
)
from bursar.core.model.provenance import (
    Decision,
    Kind,
    Part,
    Rule,
    explain_limits,
    explain_requests,
)
from bursar.core.model.quantity import Quantity
from support.builders.pods import a_pod, init, main, parsed, resize, resources, sidecar, status
from support.builders.random_objects import as_pod, pods


def told(decision: Decision) -> str:
    """A decision in one line, for tables: `sum ...: c0 1 + c1 2`."""
    return f"{decision.rule.value}: " + " + ".join(map(told_part, decision.parts))


def told_part(part: Part) -> str:
    basis = "" if part.basis is Basis.SPEC else f" ({part.basis.value})"
    return f"{part.kind.value} {part.source} {part.amount}{basis}"


CASES = {
    "containers": (
        a_pod(main("cpu=250m"), main("cpu=500m"), main("memory=1Gi")),
        "sum of containers and sidecars: container c0 250m + container c1 500m",
    ),
    "containers and sidecars": (
        a_pod(main("cpu=1"), sidecar("cpu=2", name="proxy"), init("cpu=1")),
        "sum of containers and sidecars: container c0 1 + sidecar proxy 2",
    ),
    "an explicit zero is shown": (
        a_pod(main("cpu=0"), main("cpu=1")),
        "sum of containers and sidecars: container c0 0 + container c1 1",
    ),
    "an init container larger than all": (
        a_pod(main("cpu=1"), init("cpu=2"), init("cpu=4", name="migrate")),
        "init container peak: init container migrate 4",
    ),
    "an init container beside sidecars already started": (
        a_pod(main("cpu=100"), sidecar("cpu=10"), init("cpu=200"), sidecar("cpu=20")),
        "init container peak: init container i1 200 + sidecar i0 10",
    ),
    "the first of equal init containers": (
        a_pod(main("cpu=1"), init("cpu=4"), init("cpu=4")),
        "init container peak: init container i0 4",
    ),
    "the sum where it equals the peak": (
        a_pod(main("cpu=4"), init("cpu=4")),
        "sum of containers and sidecars: container c0 4",
    ),
    "only an init container asks": (
        a_pod(main(), init("cpu=0")),
        "init container peak: init container i0 0",
    ),
    "the pod's own number": (
        a_pod(main("cpu=4"), resources=resources("cpu=2")),
        "pod-level resources: pod pod 2",
    ),
    "overhead on top": (
        a_pod(main("cpu=1"), overhead="cpu=250m"),
        "sum of containers and sidecars: container c0 1 + overhead overhead 250m",
    ),
    "overhead on top of the pod's own number": (
        a_pod(main("cpu=1"), resources=resources("cpu=2"), overhead="cpu=250m"),
        "pod-level resources: pod pod 2 + overhead overhead 250m",
    ),
    "overhead alone": (
        a_pod(main(), overhead="cpu=250m"),
        "overhead only: overhead overhead 250m",
    ),
}


@pytest.mark.parametrize(("pod", "expected"), CASES.values(), ids=CASES)
def test_requests_are_traced_to_their_parts(pod, expected):
    assert told(explain_requests(pod)["cpu"]) == expected


def test_limits_are_traced_to_their_parts():
    pod = a_pod(
        main("", "cpu=1 memory=0"),
        init("", "cpu=3"),
        resources=resources("", "hugepages-2Mi=4Mi"),
        overhead="cpu=1 memory=1Mi ephemeral-storage=1Gi",
    )

    assert {name: told(decision) for name, decision in explain_limits(pod).items()} == {
        "cpu": "init container peak: init container i0 3 + overhead overhead 1",
        "memory": "sum of containers and sidecars: container c0 0",
        "hugepages-2Mi": "pod-level resources: pod pod 4Mi",
    }


RESIZED = a_pod(
    main("cpu=3 memory=1Gi", "cpu=3"),
    main("cpu=1"),
    container_statuses=(
        status("c0", "cpu=2 memory=2Gi", "cpu=4", allocated="cpu=3 memory=3Gi"),
        status("c1", "cpu=5", allocated="cpu=2"),
    ),
)


def test_a_part_says_where_its_number_was_read_during_a_resize():
    requests = explain_requests(RESIZED, QUOTA)
    limits = explain_limits(RESIZED, QUOTA)

    assert told(requests["cpu"]).endswith(": container c0 3 + container c1 5 (actual)")
    assert told(requests["memory"]).endswith(": container c0 3Gi (allocated)")
    assert told(limits["cpu"]).endswith(": container c0 4 (actual)")


def test_an_assumed_request_says_so():
    options = DemandOptions(non_missing=parsed("cpu=100m"))

    decision = explain_requests(a_pod(main(), main("cpu=1")), options)["cpu"]

    assert [part.basis for part in decision.parts] == [Basis.ASSUMED, Basis.SPEC]


def test_a_pod_level_number_says_where_it_was_read():
    pod = a_pod(
        main(),
        resources=resources("cpu=1 memory=1Gi hugepages-2Mi=2Mi", "cpu=1"),
        status_resources=resources("cpu=2", "cpu=3"),
        status_allocated=parsed("memory=2Gi"),
        conditions=resize("Infeasible"),
    )

    requests = explain_requests(pod, ASSIGNED)

    assert told(requests["cpu"]) == "pod-level resources: pod pod 2 (actual)"
    assert told(requests["memory"]) == "pod-level resources: pod pod 2Gi (allocated)"
    assert told(requests["hugepages-2Mi"]) == "pod-level resources: pod pod 0 (actual)"
    assert told(explain_limits(pod, ASSIGNED)["cpu"]) == "pod-level resources: pod pod 3 (actual)"


OPTIONS = st.sampled_from(
    [
        INCOMING,
        ASSIGNED,
        QUOTA,
        DemandOptions(exclude_overhead=True, skip_pod_level=True),
        DemandOptions(non_missing=parsed("cpu=100m memory=200Mi"), use_status=True),
    ]
)


@settings(max_examples=150)
@given(pods().map(as_pod) | pods(hostile=True).map(as_pod), OPTIONS)
def test_the_parts_add_up_to_exactly_the_demand(pod, options):
    for explain, demand in ((explain_requests, pod_requests), (explain_limits, pod_limits)):
        explained = explain(pod, options)

        assert {n: str(d.amount) for n, d in explained.items()} == {
            n: str(amount) for n, amount in demand(pod, options).items()
        }
        for decision in explained.values():
            assert decision.parts
            assert sum((p.amount for p in decision.parts), Quantity(0)) == decision.amount
            assert all(part.kind is not Kind.OVERHEAD for part in decision.parts[:-1])


KINDS = {
    Rule.SUM_OF_CONTAINERS: {Kind.CONTAINER, Kind.SIDECAR},
    Rule.INIT_PEAK: {Kind.INIT, Kind.SIDECAR},
    Rule.POD_LEVEL: {Kind.POD},
    Rule.OVERHEAD_ONLY: set(),
}


@settings(max_examples=100)
@given(pods().map(as_pod))
def test_each_rule_adds_up_its_own_kinds_of_parts(pod):
    for decision in (*explain_requests(pod).values(), *explain_limits(pod).values()):
        assert {part.kind for part in decision.parts} <= KINDS[decision.rule] | {Kind.OVERHEAD}
