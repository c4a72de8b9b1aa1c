"""Containers that are shown their own resources, which are no longer there."""

import pytest

from bursar.core.peerpods.downward_api import ResourceField
from bursar.wire.peerpods.pod import read_resource_fields
from support.builders.peer_pods import UPSTREAM, a_peer_pod, init, main, rewritten


def shown(resource, container=None):
    named = {"containerName": container} if container else {}
    return {"resourceFieldRef": {"resource": resource, **named}}


def entry(resource, container=None):
    return {"name": "SIZE", "valueFrom": shown(resource, container)}


def not_seen(*fields):
    return f"resourceFieldRef does not see the VM: {', '.join(fields)}"


def told(raw):
    return [each for each in rewritten(raw).warnings if "resourceFieldRef" in each]


def test_w16_a_limit_is_shown_as_the_workers_and_a_request_as_nothing():
    env = [entry("limits.cpu"), entry("requests.memory"), {"name": "PLAIN", "value": "1"}]
    raw = a_peer_pod(main("cpu=1 memory=1Gi", "cpu=1 memory=1Gi", env=env))

    assert told(raw) == [
        not_seen(
            "limits.cpu of container c0 shows what the worker has",
            "requests.memory of container c0 shows 0",
        )
    ]


def test_w16_volumes_show_them_as_well_and_each_is_told_once():
    items = {"items": [shown("limits.memory", "i0"), shown("limits.memory", "i0")]}
    projected = {"sources": [{"downwardAPI": {"items": [shown("limits.memory", "c0")]}}]}
    raw = a_peer_pod(
        init("", "memory=1Gi"),
        main("", "memory=1Gi"),
        volumes=[{"name": "a", "downwardAPI": items}, {"name": "b", "projected": projected}],
    )

    assert told(raw) == [
        not_seen(
            "limits.memory of container i0 shows what the worker has",
            "limits.memory of container c0 shows what the worker has",
        )
    ]


def test_huge_pages_are_never_the_workers():
    assert str(ResourceField("c0", "limits", "hugepages-2Mi")).endswith("shows 0")


def test_the_limit_of_the_pod_was_shown_to_containers_without_one():
    raw = a_peer_pod(main(env=[entry("limits.cpu")]), resources={"limits": {"cpu": "2"}})
    raw["spec"]["resources"]["requests"] = {"cpu": "2"}

    assert told(raw)


@pytest.mark.parametrize(
    "resource", ["limits.memory", "requests.cpu", "limits.ephemeral-storage", "cpu", "other.cpu"]
)
def test_nothing_is_said_of_what_was_not_there(resource):
    assert told(a_peer_pod(main("", "cpu=1", env=[entry(resource)]))) == []


def test_nothing_is_said_of_containers_that_are_not_there():
    limits = {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    raw = a_peer_pod(main(env=[entry("limits.cpu", "nobody")]), resources=limits)

    assert told(raw) == []


def test_nothing_is_said_twice():
    raw = a_peer_pod(main("", "cpu=1", env=[entry("limits.cpu")]))

    assert told(raw)
    assert told(rewritten(raw).document) == []


def test_in_upstreams_mode_nothing_is_said():
    raw = a_peer_pod(main("cpu=1", "cpu=1", env=[entry("limits.cpu")]))

    assert rewritten(raw, UPSTREAM).warnings == ()


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {"containers": "c"},
        {"containers": ["c", {"env": "e"}, {"env": [1, {"valueFrom": 2}]}]},
        {"containers": [{"env": [{"valueFrom": {"resourceFieldRef": {"resource": 1}}}]}]},
        {"volumes": [{"downwardAPI": []}, {"projected": {"sources": [{}]}}]},
    ],
)
def test_what_has_another_shape_shows_nothing(spec):
    assert list(read_resource_fields({"spec": spec})) == []
