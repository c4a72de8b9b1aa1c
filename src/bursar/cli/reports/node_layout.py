"""The text of `describe node`: kubectl's layout to the last space, then a section of our own.

Left out are the lines that need a live cluster: the lease, the events and the node's
resource slices. Leaving them out moves nothing, since kubectl puts a line without
columns between them and whatever is wide enough to be aligned with them.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final

from bursar.app.reports.node import Allocation, NodeReport, PodLine, Share, WaitingPod
from bursar.cli.output.ages import age, format_time
from bursar.cli.output.formats import printable
from bursar.cli.output.tabwriter import aligned
from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages
from bursar.core.model.node import Node, NodeCondition, SystemInfo, Taint
from bursar.core.model.numbers.int64 import INT64_MIN
from bursar.core.model.resources import ResourceList

NONE: Final = "<none>"
ROLE_PREFIX: Final = "node-role.kubernetes.io/"
ROLE_LABEL: Final = "kubernetes.io/role"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATION_BYTES_MAX: Final = 140
"""An annotation longer than this, key included, gets lines of its own, each of them cut."""

NO_SHARE_IN_ROW: Final = INT64_MIN
"""A pod's percentage of nothing: kubectl divides by zero and prints what amd64 makes of it."""
NO_SHARE_IN_TOTAL: Final = 0
"""A percentage of nothing in the totals, where kubectl checks before it divides."""


def node_text(report: NodeReport, now: datetime, zone: tzinfo) -> str:
    """All sections, with a blank line between them."""
    parts = [
        describe_node(report, now=now, zone=zone),
        still_fits(report),
        waiting_pods(report) if report.waiting else "",
        validation_errors(report) if report.problems else "",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part)


def describe_node(report: NodeReport, *, now: datetime, zone: tzinfo) -> str:
    """What `kubectl describe node` prints, with ages as of `now` and times in `zone`."""
    node = report.node
    return _text(
        [
            *_identity(node, zone),
            *_conditions(node.conditions, zone),
            "Addresses:",
            *(f"  {address.type}:\t{address.address}" for address in node.addresses),
            *_resource_list("Capacity", node.capacity),
            *_resource_list("Allocatable", node.allocatable),
            *_system_info(node.info),
            *_network(node),
            *_pods(report.pods, now),
            *_allocated(report.allocated),
        ]
    )


def still_fits(report: NodeReport) -> str:
    """What kubectl does not tell: how much of each resource the node would still take."""
    return _text(
        [
            "Still fits:",
            "  Resource\tFree",
            *(f"  {name}\t{amount}" for name, amount in report.free.items()),
        ]
    )


def waiting_pods(report: NodeReport) -> str:
    """Which pods without a node would fit this one, placed one after the other."""
    return _text(
        [
            "Waiting pods:",
            "  Namespace\tName\tFits",
            *(f"  {pod.namespace}\t{pod.name}\t{_fits(pod)}" for pod in report.waiting),
        ]
    )


def validation_errors(report: NodeReport) -> str:
    """The amounts of the node that the API server would refuse, in its words."""
    return _text(
        ["Validation errors:", *(f"  {printable(str(problem))}" for problem in report.problems)]
    )


def _fits(pod: WaitingPod) -> str:
    if pod.fits:
        return "yes"
    known = {lack.reason for lack in pod.shortfalls}
    reasons = [reason for reason in pod.reasons if reason not in known]
    reasons += [
        f"{lack.reason} (wants {lack.requested_amount}, {lack.free_amount} free)"
        for lack in pod.shortfalls
    ]
    return f"no: {', '.join(reasons)}"


def _text(lines: Sequence[str]) -> str:
    return aligned("".join(f"{line}\n" for line in lines))


def _identity(node: Node, zone: tzinfo) -> Iterator[str]:
    yield f"Name:\t{node.name}"
    yield f"Roles:\t{','.join(_roles(node.labels)) or NONE}"
    yield from _listed("Labels", [f"{key}={node.labels[key]}" for key in sorted(node.labels)])
    yield from _listed("Annotations", list(_annotations(node.annotations)))
    yield f"CreationTimestamp:\t{format_time(node.created_at, zone)}"
    taints = sorted(node.taints, key=lambda taint: f"{taint.effect},{taint.key}")
    yield from _listed("Taints", [_taint(taint) for taint in taints])
    yield f"Unschedulable:\t{str(node.unschedulable).lower()}"


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    """One item per line, all of them behind the title's column."""
    yield f"{title}:\t{items[0] if items else NONE}"
    for item in items[1:]:
        yield f"\t{item}"


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    roles.add(labels.get(ROLE_LABEL, ""))
    return sorted(roles - {""})


def _annotations(annotations: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(annotations.keys() - {LAST_APPLIED}):
        value = annotations[key].removesuffix("\n")
        if "\n" in value or len(f"{key}: {value}".encode()) > ANNOTATION_BYTES_MAX:
            yield f"{key}:"
            for line in value.split("\n"):
                yield f"  {_shortened(line, ANNOTATION_BYTES_MAX - 2)}"
        else:
            yield f"{key}: {value}"


def _shortened(text: str, bytes_max: int) -> str:
    """Cut as kubectl does, at a byte; each byte left of a broken character becomes U+FFFD."""
    head = text.encode()[:bytes_max]
    whole = head.decode(errors="ignore")
    if whole == text:
        return text
    broken = len(head) - len(whole.encode())
    return whole + "\N{REPLACEMENT CHARACTER}" * broken + "..."


def _taint(taint: Taint) -> str:
    if not taint.value:
        return f"{taint.key}:{taint.effect}" if taint.effect else taint.key
    return f"{taint.key}={taint.value}:{taint.effect}"


def _conditions(conditions: Sequence[NodeCondition], zone: tzinfo) -> Iterator[str]:
    if not conditions:
        return
    yield "Conditions:"
    yield "  Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage"
    yield "  ----\t------\t-----------------\t------------------\t------\t-------"
    for condition in conditions:
        heartbeat = format_time(condition.heartbeat_at, zone)
        transition = format_time(condition.transition_at, zone)
        yield (
            f"  {condition.type} \t{condition.status} \t{heartbeat} \t{transition} "
            f"\t{condition.reason} \t{condition.message}"
        )


def _resource_list(title: str, amounts: ResourceList) -> Iterator[str]:
    if amounts:
        yield f"{title}:"
    for name in sorted(amounts):
        yield f"  {name}:\t{amounts[name]}"


def _system_info(info: SystemInfo) -> Iterator[str]:
    yield "System Info:"
    yield f"  Machine ID:\t{info.machine_id}"
    yield f"  System UUID:\t{info.system_uuid}"
    yield f"  Boot ID:\t{info.boot_id}"
    yield f"  Kernel Version:\t{info.kernel_version}"
    yield f"  OS Image:\t{info.os_image}"
    yield f"  Operating System:\t{info.operating_system}"
    yield f"  Architecture:\t{info.architecture}"
    yield f"  Container Runtime Version:\t{info.container_runtime_version}"
    yield f"  Kubelet Version:\t{info.kubelet_version}"


def _network(node: Node) -> Iterator[str]:
    if node.pod_cidr:
        yield f"PodCIDR:\t{node.pod_cidr}"
    if node.pod_cidrs:
        yield f"PodCIDRs:\t{','.join(node.pod_cidrs)}"
    if node.provider_id:
        yield f"ProviderID:\t{node.provider_id}"


def _pods(pods: Sequence[PodLine], now: datetime) -> Iterator[str]:
    yield f"Non-terminated Pods:\t({len(pods)} in total)"
    yield "  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge"
    yield "  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---"
    for pod in pods:
        shares = (pod.requests[CPU], pod.limits[CPU], pod.requests[MEMORY], pod.limits[MEMORY])
        columns = "\t".join(_share(share, NO_SHARE_IN_ROW) for share in shares)
        yield f"  {pod.namespace}\t{pod.name}\t\t{columns}\t{age(pod.created_at, now)}"


def _allocated(allocated: Sequence[Allocation]) -> Iterator[str]:
    yield "Allocated resources:"
    yield "  (Total limits may be over 100 percent, i.e., overcommitted.)"
    yield "  Resource\tRequests\tLimits"
    yield "  --------\t--------\t------"
    for each in allocated:
        if each.resource in {CPU, MEMORY, EPHEMERAL_STORAGE} or is_hugepages(each.resource):
            requests = _share(each.requests, NO_SHARE_IN_TOTAL)
            limits = _share(each.limits, NO_SHARE_IN_TOTAL)
        else:
            requests, limits = str(each.requests.amount), str(each.limits.amount)
        yield f"  {each.resource}\t{requests}\t{limits}"


def _share(share: Share, without_percent: int) -> str:
    percent = without_percent if share.percent is None else share.percent
    return f"{share.amount} ({percent}%)"
