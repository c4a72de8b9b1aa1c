"""Defaulting: the defaults that the API server sets on resources before it stores a pod.

A pod read back from a cluster has passed through this already, and passing again
changes nothing. A manifest on disk has not, and counting it without this step
gives a limits-only container no requests.
"""

from collections.abc import Iterable
from dataclasses import replace

from bursar.core.model.demand import CONTAINERS_ALONE, pod_limits, pod_requests
from bursar.core.model.names import is_hugepages, is_pod_level, may_overcommit
from bursar.core.model.node import Node
from bursar.core.model.pod import Container, ContainerStatus, Pod, ResourceRequirements
from bursar.core.model.resources import is_whole_in_milli, rounded_to_milli


def with_defaults(pod: Pod) -> Pod:
    """The pod as the API server stores it.

    Missing requests are taken from limits, pod-level ones from the containers
    together; then every amount is rounded up to a thousandth. The order shows:
    containers of 0.5m each give the pod their exact sum, and become 1m each.
    """
    if _is_as_stored(pod):
        return pod
    pod = replace(
        pod,
        containers=_with_requests(pod.containers),
        init_containers=_with_requests(pod.init_containers),
    )
    if pod.resources is not None:
        pod = replace(pod, resources=_pod_level_defaults(pod, pod.resources))
    return _rounded_status(with_template_defaults(pod))


def _is_as_stored(pod: Pod) -> bool:
    """Whether nothing is to be filled in or rounded, as in most pods of a cluster.

    Copying 20,000 of them for nothing takes as long as decoding them.
    """
    started = (*pod.init_containers, *pod.containers)
    statuses = (*pod.init_container_statuses, *pod.container_statuses)
    lists = [
        *(each.resources for each in (*started, *pod.ephemeral_containers)),
        *(each.resources for each in statuses if each.resources is not None),
    ]
    return (
        pod.resources is None
        and pod.status_resources is None
        and all(each.resources.limits.keys() <= each.resources.requests.keys() for each in started)
        and all(is_whole_in_milli(each.requests) for each in lists)
        and all(is_whole_in_milli(each.limits) for each in lists)
        and is_whole_in_milli(pod.overhead)
        and is_whole_in_milli(pod.status_allocated)
        and all(is_whole_in_milli(each.allocated) for each in statuses)
    )


def with_template_defaults(pod: Pod) -> Pod:
    """The pod inside a template, as the API server stores that: rounded, nothing filled in."""
    return replace(
        pod,
        containers=_rounded_containers(pod.containers),
        init_containers=_rounded_containers(pod.init_containers),
        ephemeral_containers=_rounded_containers(pod.ephemeral_containers),
        resources=None if pod.resources is None else _rounded(pod.resources),
        overhead=rounded_to_milli(pod.overhead),
    )


def _with_requests(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        replace(
            container,
            resources=replace(
                container.resources,
                requests={**container.resources.limits, **container.resources.requests},
            ),
        )
        for container in containers
    )


def _pod_level_defaults(pod: Pod, stated: ResourceRequirements) -> ResourceRequirements:
    limits = dict(stated.limits)
    if stated.limits or stated.requests:
        for name, amount in pod_limits(pod, CONTAINERS_ALONE).items():
            if is_hugepages(name) and name not in stated.requests:
                limits.setdefault(name, amount)
    if not limits:
        return stated
    requests = dict(stated.requests)
    for name, amount in pod_requests(pod, CONTAINERS_ALONE).items():
        if is_pod_level(name) and may_overcommit(name):
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, amount)
    return replace(stated, limits=limits, requests=requests)


def _rounded_status(pod: Pod) -> Pod:
    resources = pod.status_resources
    return replace(
        pod,
        container_statuses=_rounded_statuses(pod.container_statuses),
        init_container_statuses=_rounded_statuses(pod.init_container_statuses),
        status_resources=None if resources is None else _rounded(resources),
        status_allocated=rounded_to_milli(pod.status_allocated),
    )


def _rounded(resources: ResourceRequirements) -> ResourceRequirements:
    return replace(
        resources,
        requests=rounded_to_milli(resources.requests),
        limits=rounded_to_milli(resources.limits),
    )


def _rounded_containers(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        replace(container, resources=_rounded(container.resources)) for container in containers
    )


def _rounded_statuses(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    return tuple(
        replace(
            status,
            resources=None if status.resources is None else _rounded(status.resources),
            allocated=rounded_to_milli(status.allocated),
        )
        for status in statuses
    )


def node_with_defaults(node: Node) -> Node:
    """The node as the API server stores it: amounts rounded, allocatable never missing."""
    capacity = rounded_to_milli(node.capacity)
    allocatable = rounded_to_milli(node.allocatable)
    return replace(node, capacity=capacity, allocatable=allocatable or capacity)
