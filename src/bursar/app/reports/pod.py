"""The report of `describe pod`: effective requests and limits, QoS, cgroups, problems."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bursar.core.model.cgroup.pod import ContainerCgroup, PodCgroup, pod_cgroup
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.demand import ASSIGNED
from bursar.core.model.names import MEMORY
from bursar.core.model.node import Node
from bursar.core.model.pod import Container, ContainerState, Pod
from bursar.core.model.problem import Problem
from bursar.core.model.provenance import Decision, explain_limits, explain_requests
from bursar.core.model.qos import QosExplanation, explain_qos
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.pod import pod_warnings, validate_pod


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReport:
    name: str
    requests: ResourceList
    """Requests after defaulting: a limit without a request sets the request."""
    limits: ResourceList
    cgroup: ContainerCgroup
    last_state: ContainerState | None
    """The last termination, such as `OOMKilled`; None if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    pod: Pod
    """The pod with the API server's defaults."""
    containers: tuple[ContainerReport, ...]
    """Init containers, containers and ephemeral containers, in this order."""
    requests: Mapping[str, Decision]
    limits: Mapping[str, Decision]
    qos: QosExplanation
    cgroup: PodCgroup
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def pod_report(pod: Pod, node: Node | None = None) -> PodReport:
    """Report on a pod. `node` is its node, if known; some cgroup values depend on it."""
    stored = with_defaults(pod)
    memory = 0 if node is None else node.capacity.get(MEMORY, ZERO).value()
    cgroup = pod_cgroup(stored, memory or None)
    return PodReport(
        pod=stored,
        containers=tuple(_containers(stored, cgroup)),
        requests=explain_requests(stored, ASSIGNED),
        limits=explain_limits(stored, ASSIGNED),
        qos=explain_qos(stored),
        cgroup=cgroup,
        problems=validate_pod(stored),
        warnings=pod_warnings(stored),
    )


def _containers(pod: Pod, cgroup: PodCgroup) -> Iterator[ContainerReport]:
    ended = {
        status.name: status.last_state or status.state
        for status in (*pod.init_container_statuses, *pod.container_statuses)
    }
    for container, values in zip(_in_order_of_start(pod), cgroup.containers, strict=True):
        last = ended.get(container.name)
        yield ContainerReport(
            name=container.name,
            requests=container.resources.requests,
            limits=container.resources.limits,
            cgroup=values,
            last_state=last if last is not None and last.kind == "terminated" else None,
        )


def _in_order_of_start(pod: Pod) -> tuple[Container, ...]:
    return (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)
