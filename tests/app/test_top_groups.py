"""Groups of `bursar top`: owners of pods, labels, devices, and quotas with pods that wait."""

from dataclasses import replace

import pytest

from bursar.app.reports.top.consumption import counted_pods
from bursar.app.reports.top.devices import device_lines, device_totals
from bursar.app.reports.top.grouping import GroupBy, Grouping, GroupingError, parse_grouping
from bursar.app.reports.top.owners import Owner, top_owner
from support.builders.manifests import node_manifest, pod_manifest
from support.builders.pods import a_pod
from support.builders.random_objects import as_node, as_pod


def owned(kind: str, name: str, **labels: str):
    labels = {key.replace("_", "-"): value for key, value in labels.items()}
    return replace(a_pod(), controller_kind=kind, controller_name=name, labels=labels)


@pytest.mark.parametrize(
    ("pod", "owner"),
    [
        (a_pod(), ("Pod", "web")),
        (owned("DaemonSet", "agent"), ("DaemonSet", "agent")),
        (owned("ReplicaSet", "web-5d4f", pod_template_hash="5d4f"), ("Deployment", "web")),
        (owned("ReplicaSet", "web-5d4f"), ("ReplicaSet", "web-5d4f")),
        (owned("ReplicaSet", "web", pod_template_hash="5d4f"), ("ReplicaSet", "web")),
        (owned("Job", "x-5d4f", pod_template_hash="5d4f"), ("Job", "x-5d4f")),
    ],
)
def test_the_owner_is_told_by_the_pod_alone(pod, owner):
    assert top_owner(pod, {}) == Owner("default", *owner)


def test_owners_that_were_read_are_followed_to_the_top():
    controllers = {
        Owner("default", "ReplicaSet", "web-5d4f"): Owner("default", "Rollout", "web"),
        Owner("default", "Rollout", "web"): Owner("default", "App", "shop"),
    }

    pod = owned("ReplicaSet", "web-5d4f", pod_template_hash="5d4f")
    assert top_owner(pod, controllers) == Owner("default", "App", "shop")


def test_owners_in_a_circle_end():
    first, second = Owner("default", "A", "a"), Owner("default", "B", "b")

    assert top_owner(owned("A", "a"), {first: second, second: first}) in {first, second}


def test_groups_are_parsed():
    choices = (GroupBy.OWNER, GroupBy.LABEL)

    assert parse_grouping("owner", choices) == Grouping(by=GroupBy.OWNER)
    label = Grouping(by=GroupBy.LABEL, label="app.kubernetes.io/name")
    assert parse_grouping("label:app.kubernetes.io/name", choices) == label


@pytest.mark.parametrize("text", ["label:", "label:a b", "label", "node", "Owner"])
def test_other_groups_are_refused(text):
    with pytest.raises(GroupingError, match="label"):
        parse_grouping(text, (GroupBy.OWNER, GroupBy.LABEL))


def test_labels_are_no_group_where_there_are_none():
    with pytest.raises(GroupingError, match="the groups are: resource"):
        parse_grouping("label:app", (GroupBy.RESOURCE,))


# ------------------------------------------------------------------ devices

GPU = "nvidia.com/gpu"


def devices(**more):
    nodes = [
        as_node(node_manifest("a", f"cpu=4 {GPU}=4")),
        as_node(node_manifest("b", f"cpu=4 {GPU}=2") | {"spec": {"unschedulable": True}}),
        as_node(node_manifest("plain", "cpu=4")),
    ]
    pods = [
        pod_manifest("ml/x", limits=f"{GPU}=1", requests=f"{GPU}=1", node="a", phase="Running"),
        pod_manifest("ml/y", limits=f"{GPU}=2", requests=f"{GPU}=2", node="a", phase="Running"),
        pod_manifest("lab/z", limits=f"{GPU}=2", requests=f"{GPU}=2", node="b", phase="Running"),
        pod_manifest("lab/done", requests=f"{GPU}=1", node="b", phase="Failed"),
        pod_manifest("lab/waits", requests=f"{GPU}=1"),
        pod_manifest("lab/odd", requests="example.com/x=1", node="plain", phase="Running"),
    ]
    return device_lines(nodes, counted_pods(map(as_pod, pods), {}), **more)


def told(line):
    amounts = (line.capacity, line.allocatable, line.allocated, line.free)
    return (line.node, line.resource, *(None if each is None else str(each) for each in amounts))


def test_devices_are_listed_by_node_and_resource():
    lines = devices()

    assert [told(line) for line in lines] == [
        ("a", GPU, "4", "4", "3", "1"),
        ("b", GPU, "2", "2", "2", "0"),
        ("plain", "example.com/x", None, None, "1", "0"),
    ]
    assert [(each.name, str(each.amount)) for each in lines[0].holdings] == [("x", "1"), ("y", "2")]
    assert [told(line) for line in device_totals(lines)] == [
        ("", "example.com/x", "0", "0", "1", "0"),
        ("", GPU, "6", "6", "5", "1"),
    ]


def test_devices_of_other_namespaces_are_not_free():
    first, *_ = devices(is_shown=lambda pod: pod.namespace == "lab")

    assert told(first) == ("a", GPU, "4", "4", "0", "1")
    assert first.holdings == ()


def test_other_resources_are_listed_if_they_are_named():
    assert [told(line) for line in devices(resources=["cpu"])] == [
        ("a", "cpu", "4", "4", "0", "4"),
        ("b", "cpu", "4", "4", "0", "4"),
        ("plain", "cpu", "4", "4", "0", "4"),
    ]
