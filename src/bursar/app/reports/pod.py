"""The report of `describe pod`: effective amounts, QoS, cgroups, the API server's verdict."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.core.model.admission.admit import Admission, Policies, admit
from bursar.core.model.cgroup.pod import ContainerCgroup, PodCgroup, pod_cgroup
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.demand import ASSIGNED
from bursar.core.model.names import MEMORY
from bursar.core.model.node import Node
from bursar.core.model.pod import Container, ContainerState, Pod
from bursar.core.model.provenance import Decision, explain_limits, explain_requests
from bursar.core.model.qos import QosExplanation, explain_qos
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.pod import pod_warnings, validate_pod
from bursar.wire.documents.tree import Value

ONLY_A_CLUSTER_KNOWS: Final = (
    "quotas, Pod Security, admission webhooks and admission policies: only a cluster knows them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The object that a pod comes from, as it was written: the pod itself, or its workload."""

    kind: str
    value: dict[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    errors: tuple[str, ...]
    not_checked: tuple[str, ...]


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
    """The pod with the API server's defaults, and those of LimitRanges and classes of the input."""
    containers: tuple[ContainerReport, ...]
    """Init containers, containers and ephemeral containers, in this order."""
    requests: Mapping[str, Decision]
    limits: Mapping[str, Decision]
    qos: QosExplanation
    cgroup: PodCgroup
    admission: tuple[str, ...]
    """What LimitRanges, RuntimeClasses and PriorityClasses of the input set."""
    errors: tuple[str, ...]
    """What the API server would refuse, in its words."""
    not_checked: tuple[str, ...]
    """What the API server checks and this report does not."""
    warnings: tuple[str, ...]
    is_stored: bool = False
    """Whether an API server has stored the pod, so that nothing is left to be judged."""

    @property
    def is_valid(self) -> bool:
        return not self.errors


def pod_report(
    pod: Pod,
    node: Node | None = None,
    *,
    written: Written | None = None,
    policies: Policies | None = None,
    is_stored: bool = False,
) -> PodReport:
    """Report on a pod. `node` is its node, if known; some cgroup values depend on it.

    Without `written`, only the resources of the pod are validated. If the pod `is_stored` by an
    API server, it is taken as it is: admission is over.
    """
    defaulted = with_defaults(pod)
    if is_stored:
        admission = Admission(pod=defaulted, changes=(), refusals=(), unknown=())
        verdict = _Verdict(errors=(), not_checked=())
    else:
        admission = admit(defaulted, policies or Policies())
        verdict = _verdict(pod, admission, written)
    stored = admission.pod
    memory = 0 if node is None else node.capacity.get(MEMORY, ZERO).value()
    cgroup = pod_cgroup(stored, memory or None)
    return PodReport(
        pod=stored,
        containers=tuple(_containers(stored, cgroup)),
        requests=explain_requests(stored, ASSIGNED),
        limits=explain_limits(stored, ASSIGNED),
        qos=explain_qos(stored),
        cgroup=cgroup,
        admission=admission.changes,
        errors=verdict.errors,
        not_checked=verdict.not_checked,
        warnings=pod_warnings(stored),
        is_stored=is_stored,
    )


def _verdict(pod: Pod, admission: Admission, written: Written | None) -> _Verdict:
    """The server's verdict on the object, and on the pods of a workload."""
    # The rules are many modules, and other reports do without them.
    from bursar.wire.validation.verdict import verdict_on  # noqa: PLC0415

    of_pod = tuple(str(problem) for problem in validate_pod(admission.pod))
    if written is None:
        return _Verdict(errors=(*of_pod, *admission.refusals), not_checked=())
    is_pod = written.kind == "Pod"
    found = verdict_on(written.kind, written.value, admission.pod if is_pod else pod)
    errors = list(found.errors)
    if not is_pod and not errors:
        # The workload is created, and its pods are refused one after the other.
        errors += [f"its pods: {text}" for text in of_pod]
    errors += [text if is_pod else f"its pods: {text}" for text in admission.refusals]
    return _Verdict(
        errors=tuple(errors),
        not_checked=(*found.not_checked, *admission.unknown, ONLY_A_CLUSTER_KNOWS),
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
