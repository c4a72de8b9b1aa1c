"""Defaulting: what the API server makes of a pod before it stores it."""

import pytest
from hypothesis import given, settings

from bursar.core.model.defaulting import (
    node_with_defaults,
    with_defaults,
    with_template_defaults,
)
from bursar.core.model.node import Node
from bursar.core.model.pod import NO_RESOURCES, Pod, ResourceRequirements
from bursar.core.model.qos import QosClass, qos_class
from bursar.core.model.quantity import Quantity
from support.builders.pods import (
    a_pod,
    init,
    listed,
    main,
    parsed,
    resources,
    sidecar,
    status,
    texts,
)
from support.builders.random_objects import as_pod, pods

REQUESTS = {
    "limits only": (("", "cpu=1 memory=1Gi"), "cpu=1 memory=1Gi"),
    "a request of its own": (("cpu=500m", "cpu=1 memory=1Gi"), "cpu=500m memory=1Gi"),
    "an explicit zero": (("cpu=0", "cpu=1"), "cpu=0"),
    "a request without a limit": (("cpu=1", "memory=1Gi"), "cpu=1 memory=1Gi"),
    "extended resources and hugepages": (
        ("", "example.com/foo=2 hugepages-2Mi=4Mi"),
        "example.com/foo=2 hugepages-2Mi=4Mi",
    ),
    "nothing": (("", ""), ""),
}


@pytest.mark.parametrize(("written", "stored"), REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("slot", [main, init, sidecar])
def test_missing_requests_are_taken_from_limits(slot, written, stored):
    pod = with_defaults(a_pod(slot(*written)))

    (container,) = (*pod.containers, *pod.init_containers)
    assert texts(container.resources.requests) == listed(stored)
    assert texts(container.resources.limits) == listed(written[1])


def test_limits_on_every_container_make_a_guaranteed_pod():
    pod = a_pod(main("", "cpu=1 memory=1Gi"), init("", "cpu=2 memory=1Gi"))

    assert qos_class(pod) is QosClass.BURSTABLE
    assert qos_class(with_defaults(pod)) is QosClass.GUARANTEED


ROUNDING = [
    ("cpu=0.5m", "cpu=1m"),
    ("cpu=100n", "cpu=1m"),
    ("cpu=-0.5m", "cpu=-1m"),
    ("cpu=1.0001", "cpu=1001m"),
    ("cpu=1.500", "cpu=1.500"),
    ("memory=0.05Gi", "memory=53687091200m"),
]


@pytest.mark.parametrize(("written", "stored"), ROUNDING)
def test_every_list_is_rounded_up_to_a_thousandth(written, stored):
    both = resources(written, written)
    pod = a_pod(
        main(written, written),
        init(written, written),
        ephemeral_containers=a_pod(main(written, written)).containers,
        resources=both,
        overhead=written,
        container_statuses=(status("c0", written, written, allocated=written), status("c1")),
        init_container_statuses=(status("i0", written, written, allocated=written),),
        status_resources=both,
        status_allocated=parsed(written),
    )

    stored_pod = with_defaults(pod)

    assert {tuple(texts(amounts).items()) for amounts in every_list(stored_pod)} == {
        tuple(listed(stored).items())
    }
    assert stored_pod.container_statuses[1].resources is None


def every_list(pod):
    """All resource lists of a pod that are not empty."""
    containers = (*pod.containers, *pod.init_containers, *pod.ephemeral_containers)
    statuses = (*pod.container_statuses, *pod.init_container_statuses)
    both = [c.resources for c in containers] + [s.resources for s in statuses]
    both += [pod.resources, pod.status_resources]
    lists = [pod.overhead, pod.status_allocated, *(s.allocated for s in statuses)]
    for each in both:
        lists += [] if each is None else [each.requests, each.limits]
    return [amounts for amounts in lists if amounts]


def test_the_size_of_a_volume_is_not_rounded():
    raw = {"spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "0.5m"}}]}}

    assert str(with_defaults(as_pod(raw)).empty_dirs[0].size_limit) == "500u"


POD_LEVEL = {
    "absent stays absent": (a_pod(main("cpu=1", "cpu=1")), None),
    "empty stays empty": (a_pod(main("", "hugepages-2Mi=4Mi"), resources=NO_RESOURCES), ("", "")),
    "requests alone draw no others": (
        a_pod(main("memory=1Gi"), resources=resources("cpu=1")),
        ("cpu=1", ""),
    ),
    "limits alone are requests too": (
        a_pod(main(), resources=resources("", "cpu=2 memory=1Gi")),
        ("cpu=2 memory=1Gi", "cpu=2 memory=1Gi"),
    ),
    "requests of the containers together come first": (
        a_pod(
            main("cpu=500m"),
            main("", "cpu=1 memory=1Gi"),
            resources=resources("", "cpu=4"),
        ),
        ("cpu=1500m memory=1Gi", "cpu=4"),
    ),
    "a request of the pod's own is kept": (
        a_pod(main("cpu=500m"), resources=resources("cpu=1", "cpu=4")),
        ("cpu=1", "cpu=4"),
    ),
    "overhead has no part in it": (
        a_pod(main("cpu=1"), resources=resources("", "cpu=4"), overhead="cpu=1 memory=1Gi"),
        ("cpu=1", "cpu=4"),
    ),
    "only cpu and memory come from containers": (
        a_pod(
            main("ephemeral-storage=1Gi example.com/foo=1"),
            resources=resources("", "cpu=4"),
        ),
        ("cpu=4", "cpu=4"),
    ),
    "hugepages of containers become a pod limit, and with it a request": (
        a_pod(
            main("", "hugepages-2Mi=4Mi cpu=1"),
            main("", "hugepages-2Mi=2Mi"),
            resources=resources("cpu=1"),
        ),
        ("cpu=1 hugepages-2Mi=6Mi", "hugepages-2Mi=6Mi"),
    ),
    "unless the pod requests them itself": (
        a_pod(main("", "hugepages-2Mi=4Mi"), resources=resources("hugepages-2Mi=8Mi")),
        ("hugepages-2Mi=8Mi", ""),
    ),
    "or limits them itself": (
        a_pod(main("", "hugepages-2Mi=4Mi"), resources=resources("", "hugepages-2Mi=8Mi")),
        ("hugepages-2Mi=8Mi", "hugepages-2Mi=8Mi"),
    ),
    "a limit the pod may not have draws no request of its own": (
        a_pod(main(), resources=resources("", "ephemeral-storage=1Gi")),
        ("", "ephemeral-storage=1Gi"),
    ),
    "the exact sum is taken before rounding": (
        a_pod(main("cpu=0.5m"), main("cpu=0.5m"), resources=resources("", "cpu=4")),
        ("cpu=1m", "cpu=4"),
    ),
}


@pytest.mark.parametrize(("pod", "expected"), POD_LEVEL.values(), ids=POD_LEVEL)
def test_pod_level_resources(pod, expected):
    stored = with_defaults(pod).resources

    assert told(stored) == (None if expected is None else tuple(map(listed, expected)))


def told(sized: ResourceRequirements | None):
    return None if sized is None else (texts(sized.requests), texts(sized.limits))


def test_a_template_is_rounded_but_nothing_is_filled_in():
    pod = a_pod(
        main("", "cpu=0.5m"),
        resources=resources("", "cpu=2.5m"),
        status_allocated=parsed("cpu=0.5m"),
    )

    stored = with_template_defaults(pod)

    assert told(stored.containers[0].resources) == ({}, {"cpu": "1m"})
    assert told(stored.resources) == ({}, {"cpu": "3m"})
    assert stored.status_allocated is pod.status_allocated
    assert with_template_defaults(a_pod(main())).resources is None


@settings(max_examples=100)
@given(pods(hostile=True).map(as_pod))
def test_defaulting_twice_changes_nothing_more(pod):
    once = with_defaults(pod)

    assert repr(with_defaults(once)) == repr(once)


@settings(max_examples=50)
@given(pods().map(as_pod))
def test_afterwards_every_limit_has_a_request(pod):
    stored = with_defaults(pod)

    for container in (*stored.containers, *stored.init_containers):
        assert container.resources.limits.keys() <= container.resources.requests.keys()


def test_a_node_is_stored_rounded_and_never_without_allocatable():
    stored = node_with_defaults(
        Node(name="n", capacity={"cpu": Quantity.parse("0.5m"), "memory": Quantity.parse("1Gi")})
    )

    assert {name: str(amount) for name, amount in stored.capacity.items()} == {
        "cpu": "1m",
        "memory": "1Gi",
    }
    assert stored.allocatable == stored.capacity
    assert node_with_defaults(stored) == stored


def test_a_pod_whose_manifest_names_no_namespace_is_created_in_default():
    for written, created in (("", "default"), ("shop", "shop")):
        assert Pod(namespace=written, name="web").with_namespace().namespace == created
