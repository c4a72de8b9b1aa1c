"""How much work the report of a pod is: the pod's author decides how many containers it has."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from bursar.app.reports.node import node_report
from bursar.app.reports.pod import pod_report
from bursar.cli.reports import pod_document, pod_layout
from bursar.core.model.demand import ASSIGNED, INCOMING, QUOTA, pod_limits, pod_requests
from bursar.core.model.node import Node
from bursar.core.model.pod import Container, ContainerStatus, Pod, ResourceRequirements
from bursar.core.model.provenance import explain_limits, explain_requests
from bursar.core.model.quantity import Quantity
from support.builders.pods import parsed
from support.looks import Looks

FEW, MANY = 150, 300
NODE = Node(name="n", capacity=parsed("memory=64Gi"), allocatable=parsed("memory=64Gi"))

Builder: TypeAlias = Callable[[Looks, int], Pod]
Work: TypeAlias = Callable[[Pod], object]


def container(looks: Looks, index: int, *, restart: str) -> Container:
    """It has cpu and memory, as all containers here, and a resource that no other has."""
    amounts = {
        "cpu": looks.amount(index + 1),
        "memory": looks.amount(index + 1),
        looks.name(f"example.com/r{index}"): looks.amount(1),
    }
    return Container(
        name=f"c{index}",
        restart_policy=restart,
        resources=ResourceRequirements(requests=amounts, limits=dict(amounts)),
    )


def containers(looks: Looks, count: int, *, restart: str = "") -> tuple[Container, ...]:
    return tuple(container(looks, index, restart=restart) for index in range(count))


def with_containers(looks: Looks, count: int) -> Pod:
    return Pod(namespace="a", name="b", containers=containers(looks, count))


def with_sidecars(looks: Looks, count: int) -> Pod:
    sidecars = containers(looks, count, restart="Always")
    return Pod(namespace="a", name="b", containers=(Container(name="m"),), init_containers=sidecars)


def with_init_containers(looks: Looks, count: int) -> Pod:
    return replace(with_sidecars(looks, count), init_containers=containers(looks, count))


def with_both_in_turns(looks: Looks, count: int) -> Pod:
    starting = tuple(
        container(looks, index, restart="Always" if index % 2 else "") for index in range(count)
    )
    return replace(with_sidecars(looks, 1), init_containers=starting)


def resized(looks: Looks, count: int) -> Pod:
    """The kubelet reports for each sidecar what it applied and granted."""
    pod = with_sidecars(looks, count)
    statuses = tuple(
        ContainerStatus(
            name=sidecar.name,
            resources=sidecar.resources,
            allocated=sidecar.resources.requests,
        )
        for sidecar in pod.init_containers
    )
    return replace(pod, init_container_statuses=statuses)


def with_own_resources(looks: Looks, count: int) -> Pod:
    """Pod-level memory, of which each container gets a part, and many sizes of hugepages."""
    sizes: dict[str, Quantity] = {
        looks.name(f"hugepages-{2 * index}Mi"): looks.amount(1) for index in range(1, count)
    }
    amounts = {**sizes, "memory": Quantity.of(10**6), "cpu": Quantity.of(10**6)}
    own = ResourceRequirements(requests={**amounts, "memory": Quantity.of(10**5)}, limits=amounts)
    return replace(with_sidecars(looks, count), resources=own)


def demand(pod: Pod) -> object:
    for options in (INCOMING, ASSIGNED, QUOTA):
        pod_requests(pod, options)
        pod_limits(pod, options)
    return None


def provenance(pod: Pod) -> object:
    return explain_requests(pod, ASSIGNED), explain_limits(pod, ASSIGNED)


def report(pod: Pod) -> object:
    return pod_report(pod, NODE)


def document(pod: Pod) -> object:
    return pod_document.as_dict(pod_report(pod, NODE))


def text(pod: Pod) -> object:
    return pod_layout.pod_text(pod_report(pod, NODE))


def line_of_node(pod: Pod) -> object:
    return node_report(NODE, [replace(pod, node_name=NODE.name)])


@pytest.mark.parametrize(
    "work", [demand, provenance, report, document, text, line_of_node], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    "pod_of",
    [
        with_containers,
        with_sidecars,
        with_init_containers,
        with_both_in_turns,
        resized,
        with_own_resources,
    ],
    ids=lambda f: f.__name__,
)
def test_twice_as_many_containers_are_twice_the_work(pod_of: Builder, work: Work):
    counts = []
    for count in (FEW, MANY):
        looks = Looks()
        pod = pod_of(looks, count)
        before = looks.count
        work(pod)
        counts.append(looks.count - before)

    assert 0 < counts[1] < 2.5 * counts[0]


def test_the_totals_of_a_node_are_added_up_once_per_amount():
    """However many resources the other pods of the node have."""
    counts = []
    for count in (FEW, MANY):
        looks = Looks()
        amounts = [{looks.name(f"example.com/r{index}"): looks.amount(1)} for index in range(count)]
        pods = [
            Pod(
                namespace="a",
                name=f"p{index}",
                node_name=NODE.name,
                containers=(Container(name="c", resources=ResourceRequirements(requests=each)),),
            )
            for index, each in enumerate(amounts)
        ]
        before = looks.count
        node_report(NODE, pods)
        counts.append(looks.count - before)

    assert 0 < counts[1] < 2.5 * counts[0]
