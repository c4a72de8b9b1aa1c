"""What people ask about devices: who has which, who says so, and where those disagree.

Worked out anew from what was read of a cluster, of a node's socket, or of files. No agent has to
run for it, and none is asked unless its socket was named.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bursar.core.devices.allocation import Holdings, PodKey, ProblemKind, ReportedPod
from bursar.core.devices.choosing import live_pods
from bursar.core.devices.filling import allocatable_entries, bare_id
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.node import holdings_by_pod
from bursar.core.devices.pod import CLAIM_PREFIX, DevicePod, KnownDevice
from bursar.core.devices.register import DynamicDevice, NodeFacts, Row, register
from bursar.core.devices.resolving import Rules
from bursar.core.devices.source import Source

UNHEALTHY: Final = "Unhealthy"
"""Kubelet's word in a pod's status."""
UNREADABLE: Final = "the annotation cannot be read: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is said about devices, as of one moment."""

    pods: Sequence[DevicePod] = ()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    """By node."""
    dynamic: Sequence[DynamicDevice] = ()
    reported: Mapping[str, Sequence[ReportedPod]] = field(default_factory=dict)
    """By node: what its kubelet answers, or an agent in its place."""
    claimed: Mapping[str, Sequence[DynamicDevice]] = field(default_factory=dict)
    """By node: what the same answer says that claims gave."""
    problems: tuple[str, ...] = ()
    """What had to be left out, and why; a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A device of a pod; or, with no device in it, what was wrong with words about one."""

    row: Row
    known: Device | None = None
    """It, or what it is a function of, in the inventory of its node."""


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
) -> tuple[Line, ...]:
    """In order of node, pod and device; of one namespace or node, if one is named.

    Who disagrees with whom is found out among all that was read, whoever is named.
    """
    found = [
        line
        for facts in _facts_of_all(evidence, sources, rules or Rules())
        if node in {"", facts.node}
        for line in _lines(facts, sources)
        if namespace in {"", line.row.namespace}
    ]
    return tuple(sorted(found, key=_place))


def idle_devices(
    evidence: Evidence, sources: Mapping[str, Source], *, node: str = ""
) -> tuple[IdleDevice, ...]:
    """Healthy devices of inventories of which nobody has any part.

    One that has virtual functions is listed by those that are idle.
    """
    found = [
        idle
        for facts in _facts_of_all(evidence, sources, Rules())
        if node in {"", facts.node} and facts.inventory is not None
        for idle in _idle(facts, facts.inventory, sources)
    ]
    return tuple(sorted(found, key=lambda each: (each.node, each.resource, each.device)))


def node_of_report(reported: Iterable[ReportedPod], pods: Iterable[DevicePod]) -> str | None:
    """The node whose kubelet has these pods, if it is certain which that is."""
    keys = {pod.key for pod in reported}
    nodes = {pod.node for pod in pods if pod.node and (pod.namespace, pod.name) in keys}
    return nodes.pop() if len(nodes) == 1 else None


# ------------------------------------------------------------------ node by node


def _facts_of_all(
    evidence: Evidence, sources: Mapping[str, Source], rules: Rules
) -> Iterator[NodeFacts]:
    by_node: dict[str, list[DevicePod]] = {}
    for pod in evidence.pods:
        by_node.setdefault(pod.node, []).append(pod)
    places = {
        (pod.namespace, pod.name): node
        for node, pods in by_node.items()
        for pod in pods
        if not pod.is_terminal
    }
    dynamic: dict[str, list[DynamicDevice]] = {}
    for each in evidence.dynamic:
        dynamic.setdefault(places.get((each.namespace, each.pod), ""), []).append(each)
    for node, claimed in evidence.claimed.items():
        dynamic.setdefault(node, []).extend(claimed)
    # Ids are unique on a node at most, so pods that are not on one yet have nothing in common.
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
    # What an ended pod was given is nobody's, and no news, unless kubelet has not let go of it.
    present = [pod for key, pod in live_pods(pods).items() if not pod.is_terminal or key in kept]
    inventory = evidence.inventories.get(node)
    return NodeFacts(
        node=node,
        pods=tuple(present),
        holdings=tuple(holdings_by_pod(present, sources, inventory, rules).values()),
        reported=reported,
        inventory=inventory,
    )


def _with_claims(facts: NodeFacts, claimed: Sequence[DynamicDevice]) -> NodeFacts:
    """What claims gave, once each; what status has of it tells the container, and no more."""
    if not claimed:
        return facts
    claimants = {(each.namespace, each.pod) for each in claimed}
    containers = {
        (pod.namespace, pod.name, stated.device): stated.container
        for pod in facts.pods
        for stated in pod.stated
        if _is_of_claim(stated)
    }
    # Kubelet and the claim itself say the same, but only kubelet knows the container.
    once: dict[tuple[str, str, str], DynamicDevice] = {}
    for each in sorted(claimed, key=lambda each: not each.container):
        key = each.namespace, each.pod, _spelled(each)
        container = each.container or containers.get(key, "")
        once.setdefault(key, replace(each, container=container))
    return replace(
        facts,
        pods=tuple(
            replace(pod, stated=tuple(each for each in pod.stated if not _is_of_claim(each)))
            if (pod.namespace, pod.name) in claimants
            else pod
            for pod in facts.pods
        ),
        dynamic=tuple(once.values()),
    )


def _is_of_claim(stated: KnownDevice) -> bool:
    return stated.resource.startswith(CLAIM_PREFIX)


def _spelled(device: DynamicDevice) -> str:
    """Its id in a pod's status, unless the driver gave it one for the runtime."""
    return f"{device.driver}/{device.pool}/{device.device}"


def _lines(facts: NodeFacts, sources: Mapping[str, Source]) -> Iterator[Line]:
    known = _known(facts.inventory)
    ill = {
        (pod.namespace, pod.name, stated.resource, bare_id(stated.device))
        for pod in facts.pods
        for stated in pod.stated
        if stated.health == UNHEALTHY
    }
    for row in register(facts, sources):
        doubts = row.disagreements
        if (row.namespace, row.pod, row.resource, row.device) in ill:
            doubts = (*doubts, "status says that it is not healthy")
        yield Line(row=replace(row, disagreements=doubts), known=known.get(row.device))
    for holdings in facts.holdings:
        for row in _refused(facts.node, holdings):
            yield Line(row=row)


def _refused(node: str, holdings: Holdings) -> Iterator[Row]:
    """What a source says and nobody can believe: a row without a device for each."""
    for problem in holdings.problems:
        is_unreadable = problem.kind is ProblemKind.UNREADABLE
        yield Row(
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


def _place(line: Line) -> tuple[str, PodKey, bool, str, str]:
    row = line.row
    return row.node, (row.namespace, row.pod), not row.device, row.resource, row.device


# ------------------------------------------------------------------ what nobody has


def _idle(
    facts: NodeFacts, inventory: Inventory, sources: Mapping[str, Source]
) -> Iterator[IdleDevice]:
    known = _known(inventory)
    held = {row.device for row in register(facts, sources)}
    for entry in allocatable_entries(inventory, sources, facts.holdings, ()):
        for device in entry.devices:
            owner = known.get(device)
            if owner is not None and device not in held and owner.id not in held:
                yield IdleDevice(
                    node=facts.node, resource=entry.resource, device=device, known=owner
                )
