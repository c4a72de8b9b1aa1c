"""The report of `bursar devices`: which pod holds which device, and where sources disagree.

It is computed from a cluster, from a node's PodResources socket, or from files. No agent has to
run, and none is called unless its socket is given.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bursar.core.devices.additions import allocatable_entries
from bursar.core.devices.allocation import (
    Holdings,
    PodKey,
    ProblemKind,
    ReportedPod,
    bare_id,
)
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.pod import CLAIM_PREFIX, DevicePod, StatusDevice, live_pods
from bursar.core.devices.resolve import Rules, holdings_by_pod
from bursar.core.devices.rows import ClaimDevice, DeviceRow, NodeFacts, device_rows
from bursar.core.devices.source import Source

UNHEALTHY: Final = "Unhealthy"
"""The health that kubelet writes to a pod's status."""
UNREADABLE: Final = "the annotation cannot be read: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was read about devices, at one time."""

    pods: Sequence[DevicePod] = ()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    """By node."""
    dynamic: Sequence[ClaimDevice] = ()
    reported: Mapping[str, Sequence[ReportedPod]] = field(default_factory=dict)
    """By node: what its kubelet, or an agent in its place, reports."""
    claimed: Mapping[str, Sequence[ClaimDevice]] = field(default_factory=dict)
    """By node: the devices of ResourceClaims in the same response."""
    problems: tuple[str, ...] = ()
    """What was left out, and why; one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """A device of a pod; or, if the row has no device, a claim that was rejected."""

    row: DeviceRow
    known: Device | None = None
    """The device, or the device of which it is a function, in the inventory of its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleDevice:
    node: str
    resource: str
    device: str
    known: Device


def device_lines(
    evidence: Evidence,
    sources: Mapping[str, Source],
    *,
    namespace: str = "",
    node: str = "",
    rules: Rules | None = None,
) -> tuple[ReportLine, ...]:
    """One line for each device, sorted by node, pod and device; all, or of a namespace or node.

    Disagreements are found among all pods that were read, not only among the selected ones.
    """
    found = [
        line
        for facts in _facts_of_all(evidence, sources, rules or _rules(evidence))
        if node in {"", facts.node}
        for line in _lines(facts, sources)
        if namespace in {"", line.row.namespace}
    ]
    return tuple(sorted(found, key=_order))


def _rules(evidence: Evidence) -> Rules:
    """Rules for reports. Without any inventory, claims of annotations are shown unchecked.

    This is safe, because a report gives no device to a pod.
    """
    return Rules(needs_inventory=bool(evidence.inventories))


def idle_devices(
    evidence: Evidence, sources: Mapping[str, Source], *, node: str = ""
) -> tuple[IdleDevice, ...]:
    """Healthy devices of inventories of which no pod holds any part.

    A device with virtual functions is listed by its idle functions.
    """
    found = [
        idle
        for facts in _facts_of_all(evidence, sources, _rules(evidence))
        if node in {"", facts.node} and facts.inventory is not None
        for idle in _idle(facts, facts.inventory, sources)
    ]
    return tuple(sorted(found, key=lambda each: (each.node, each.resource, each.device)))


def node_of_report(reported: Iterable[ReportedPod], pods: Iterable[DevicePod]) -> str | None:
    """The node that runs these pods; None if the pods are on several nodes or on none."""
    keys = {pod.key for pod in reported}
    nodes = {pod.node for pod in pods if pod.node and pod.key in keys}
    return nodes.pop() if len(nodes) == 1 else None


# ------------------------------------------------------------------ node by node


def _facts_of_all(
    evidence: Evidence, sources: Mapping[str, Source], rules: Rules
) -> Iterator[NodeFacts]:
    by_node: dict[str, list[DevicePod]] = {}
    for pod in evidence.pods:
        by_node.setdefault(pod.node, []).append(pod)
    node_of = {pod.key: pod.node for pod in evidence.pods if not pod.is_terminal}
    dynamic: dict[str, list[ClaimDevice]] = {}
    for each in evidence.dynamic:
        dynamic.setdefault(node_of.get((each.namespace, each.pod), ""), []).append(each)
    for node, claimed in evidence.claimed.items():
        dynamic.setdefault(node, []).extend(claimed)
    # Device ids are unique only on one node, so pods without a node are not compared.
    for pod in by_node.pop("", ()):
        yield _facts("", [pod], evidence, sources, rules)
    if unplaced := dynamic.pop("", ()):
        yield _with_claims(NodeFacts(node=""), unplaced)
    for node in {*by_node, *dynamic, *evidence.inventories, *evidence.reported}:
        facts = _facts(node, by_node.get(node, ()), evidence, sources, rules)
        yield _with_claims(facts, dynamic.get(node, ()))


def _facts(
    node: str,
    pods: Iterable[DevicePod],
    evidence: Evidence,
    sources: Mapping[str, Source],
    rules: Rules,
) -> NodeFacts:
    reported = tuple(evidence.reported.get(node, ()))
    kept = {pod.key for pod in reported}
    # A pod that has ended holds nothing, unless kubelet still reports it.
    present = [pod for key, pod in live_pods(pods).items() if not pod.is_terminal or key in kept]
    inventory = evidence.inventories.get(node)
    return NodeFacts(
        node=node,
        pods=tuple(present),
        holdings=tuple(holdings_by_pod(present, sources, inventory, rules).values()),
        reported=reported,
        inventory=inventory,
    )


def _with_claims(facts: NodeFacts, claimed: Sequence[ClaimDevice]) -> NodeFacts:
    """The facts with devices of ResourceClaims, each once; a pod's status adds the container."""
    if not claimed:
        return facts
    claimants = {(each.namespace, each.pod) for each in claimed}
    containers = {
        (*pod.key, each.device): each.container
        for pod in facts.pods
        for each in pod.status_devices
        if _is_of_claim(each)
    }
    # Kubelet and the ResourceClaim name the same device, but only kubelet knows the container.
    once: dict[tuple[str, str, str], ClaimDevice] = {}
    for each in sorted(claimed, key=lambda each: not each.container):
        key = each.namespace, each.pod, _status_id(each)
        container = each.container or containers.get(key, "")
        once.setdefault(key, replace(each, container=container))
    return replace(
        facts,
        pods=tuple(_without_claims(pod) if pod.key in claimants else pod for pod in facts.pods),
        dynamic=tuple(once.values()),
    )


def _without_claims(pod: DevicePod) -> DevicePod:
    rest = tuple(each for each in pod.status_devices if not _is_of_claim(each))
    return replace(pod, status_devices=rest)


def _is_of_claim(device: StatusDevice) -> bool:
    return device.resource.startswith(CLAIM_PREFIX)


def _status_id(device: ClaimDevice) -> str:
    """The device's id in a pod's status, unless its driver has a CDI id for it."""
    return f"{device.driver}/{device.pool}/{device.device}"


def _lines(facts: NodeFacts, sources: Mapping[str, Source]) -> Iterator[ReportLine]:
    known = _known(facts.inventory)
    unhealthy = {
        (*pod.key, each.resource, bare_id(each.device))
        for pod in facts.pods
        for each in pod.status_devices
        if each.health == UNHEALTHY
    }
    for row in device_rows(facts, sources):
        disagreements = row.disagreements
        if (row.namespace, row.pod, row.resource, row.device) in unhealthy:
            disagreements = (*disagreements, "status says that it is not healthy")
        row = replace(row, disagreements=disagreements)  # noqa: PLW2901
        yield ReportLine(row=row, known=known.get(row.device))
    for holdings in facts.holdings:
        for row in _rejected(facts.node, holdings):
            yield ReportLine(row=row)


def _rejected(node: str, holdings: Holdings) -> Iterator[DeviceRow]:
    """One row without a device for each problem of a source's claims."""
    for problem in holdings.problems:
        is_unreadable = problem.kind is ProblemKind.UNREADABLE
        yield DeviceRow(
            node=node,
            namespace=holdings.namespace,
            pod=holdings.name,
            container="",
            resource="",
            device="",
            numa=None,
            share=0,
            sources=(problem.source,),
            disagreements=(UNREADABLE + problem.text if is_unreadable else problem.text,),
        )


def _known(inventory: Inventory | None) -> Mapping[str, Device]:
    known: dict[str, Device] = {}
    for device in inventory.devices if inventory is not None else ():
        for each in (device.id, *(function.address for function in device.functions)):
            if each:
                known.setdefault(each, device)
    return known


def _order(line: ReportLine) -> tuple[str, PodKey, bool, str, str]:
    row = line.row
    return row.node, (row.namespace, row.pod), not row.device, row.resource, row.device


# ------------------------------------------------------------------ idle devices


def _idle(
    facts: NodeFacts, inventory: Inventory, sources: Mapping[str, Source]
) -> Iterator[IdleDevice]:
    known = _known(inventory)
    held = {row.device for row in device_rows(facts, sources)}
    for entry in allocatable_entries(inventory, sources, facts.holdings, ()):
        for device in entry.devices:
            owner = known.get(device)
            if owner is not None and device not in held and owner.id not in held:
                yield IdleDevice(
                    node=facts.node, resource=entry.resource, device=device, known=owner
                )
