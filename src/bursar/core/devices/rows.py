"""One row for each device of each pod of a node: its sources, and where the sources disagree."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.core.devices.allocation import (
    Holdings,
    PodKey,
    ReportedPod,
    SourceReport,
    bare_id,
    quoted,
)
from bursar.core.devices.conflicts import KUBELET, STATUS, contested, device_key, other_holders
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.pod import DevicePod, live_pods
from bursar.core.devices.source import Source
from bursar.core.model.problem import some_of

DYNAMIC: Final = "dra"
DEVICES_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDevice:
    """A device that a ResourceClaim gave to a pod."""

    namespace: str
    pod: str
    container: str = ""
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of kubelet's List response."""

    pods: tuple[ReportedPod, ...]
    claimed: tuple[ClaimDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Everything that is known about the devices of one node, by where it was read."""

    node: str
    pods: tuple[DevicePod, ...] = ()
    """For the devices in their status, and whether they have ended."""
    holdings: tuple[Holdings, ...] = ()
    """From annotations."""
    reported: tuple[ReportedPod, ...] = ()
    """From kubelet's PodResources socket, or from an agent's."""
    dynamic: tuple[ClaimDevice, ...] = ()
    inventory: Inventory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    node: str
    namespace: str
    pod: str
    container: str
    resource: str
    device: str
    numa: int | None
    share: int
    """Percent of the device. 0: a part of unknown size."""
    sources: tuple[str, ...]
    disagreements: tuple[str, ...]


def device_rows(facts: NodeFacts, sources: Mapping[str, Source]) -> tuple[DeviceRow, ...]:
    """One row for each device of each pod, sorted by pod, resource and device."""
    grouped: dict[tuple[PodKey, str, str], list[_Statement]] = {}
    for each in _statements(facts):
        grouped.setdefault((each.pod, each.resource, each.device), []).append(each)
    disagreements = _Disagreements(facts, sources, grouped.values())
    return tuple(_row(facts.node, grouped[key], disagreements) for key in sorted(grouped))


# ------------------------------------------------------------------ what each source says


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """One source says that a container of a pod holds a device."""

    source: str
    pod: PodKey
    container: str
    resource: str
    device: str
    numa: int | None = None
    share: int | None = None
    parent: str = ""


def _statements(facts: NodeFacts) -> Iterator[_Statement]:
    """Kubelet's come first: kubelet allocated the device, the other sources only record it."""
    for reported in facts.reported:
        yield from _kubelet_statements(reported)
    for pod in facts.pods:
        for each in pod.status_devices:
            yield _Statement(
                source=STATUS,
                pod=pod.key,
                container=each.container,
                resource=each.resource,
                device=bare_id(each.device),
            )
    for dynamic in facts.dynamic:
        yield _Statement(
            source=DYNAMIC,
            pod=(dynamic.namespace, dynamic.pod),
            container=dynamic.container,
            resource=dynamic.driver,
            device=f"{dynamic.pool}/{dynamic.device}",
        )
    for holdings in facts.holdings:
        for held in holdings.allocations:
            own = SourceReport(held.source, held.container, held.share)
            for report in held.reports or (own,):
                yield _Statement(
                    source=report.source,
                    pod=holdings.key,
                    container=report.container,
                    resource=held.resource,
                    device=held.device,
                    numa=held.numa,
                    share=report.share,
                    parent=held.parent,
                )


def _kubelet_statements(pod: ReportedPod) -> Iterator[_Statement]:
    for container in pod.containers:
        for entry in container.entries:
            for device in entry.devices:
                yield _Statement(
                    source=KUBELET,
                    pod=pod.key,
                    container=container.name,
                    resource=entry.resource,
                    device=bare_id(device),
                    numa=entry.numa,
                    share=None if bare_id(device) == device else 0,
                )


def _row(node: str, statements: list[_Statement], disagreements: "_Disagreements") -> DeviceRow:
    first = statements[0]
    # Kubelet knows only whole devices, so a source that writes shares is more precise.
    shares = [each.share for each in statements if each.share is not None]
    return DeviceRow(
        node=node,
        namespace=first.pod[0],
        pod=first.pod[1],
        container=first.container,
        resource=first.resource,
        device=first.device,
        numa=next((each.numa for each in statements if each.numa is not None), None),
        share=max(shares, default=100),
        sources=_distinct(each.source for each in statements),
        disagreements=_distinct(disagreements.between(statements)),
    )


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


# ------------------------------------------------------------------ where sources disagree


class _Disagreements:
    def __init__(
        self,
        facts: NodeFacts,
        sources: Mapping[str, Source],
        grouped: Iterable[list[_Statement]],
    ) -> None:
        self._ended = {key for key, pod in live_pods(facts.pods).items() if pod.is_terminal}
        self._ended.update(each.key for each in facts.holdings if each.has_ended)
        live = [each for each in facts.reported if each.key not in self._ended]
        self._contested = contested(facts.holdings, live, facts.pods)
        self._listed: dict[str, dict[str, Device]] = _listed(facts.inventory, sources)
        self._devices: dict[tuple[PodKey, str], dict[str, list[str]]] = {}
        """By pod and resource, then by source: the devices that the source names."""
        for each in (each for statements in grouped for each in statements):
            by_source = self._devices.setdefault((each.pod, each.resource), {})
            by_source.setdefault(each.source, []).append(each.device)

    def between(self, statements: list[_Statement]) -> Iterator[str]:
        """The disagreements between all statements about one device of one pod."""
        first = statements[0]
        agreeing = {each.source for each in statements}
        for source, devices in self._devices[first.pod, first.resource].items():
            if source not in agreeing:
                yield f"{source} says {_some(devices)}"
        for each in statements[1:]:
            if each.source != first.source and each.container != first.container:
                yield f"{each.source} says container {quoted(each.container)}"
        yield from _different_shares(statements)
        parent = next((each.parent for each in statements if each.parent), "")
        for device in (first.device, parent):
            holders = self._contested.get(device_key(first.resource, device), {})
            if first.pod in holders:
                whole = f"{quoted(parent)}, of which it is a part, is " if device == parent else ""
                yield f"{whole}also held by {other_holders(first.pod, holders)}"
        yield from self._inventory_problems(first, parent)
        if first.pod in self._ended:
            yield "the pod has ended"

    def _inventory_problems(self, statement: _Statement, parent: str) -> Iterator[str]:
        listed = self._listed.get(statement.resource)
        if listed is None:
            return
        device = listed.get(statement.device) or listed.get(parent)
        if device is None:
            yield "not in the inventory"
        elif not device.is_healthy:
            yield "not healthy"


def _different_shares(statements: list[_Statement]) -> Iterator[str]:
    """Shares that differ. A share of unknown size contradicts no other."""
    known = [each for each in statements if each.share]
    for each in known[1:]:
        if each.share != known[0].share:
            yield f"{known[0].source} says {known[0].share} %, {each.source} {each.share} %"


def _listed(
    inventory: Inventory | None, sources: Mapping[str, Source]
) -> dict[str, dict[str, Device]]:
    """The inventory's devices by resource name, then by id of the device or its function."""
    found: dict[str, dict[str, Device]] = {}
    for device in inventory.devices if inventory is not None else ():
        for source in sources.values():
            rule = source.kinds.get(device.kind) if source.is_inventoried else None
            if rule is None:
                continue
            for each in (device.id, *(function.address for function in device.functions)):
                name = rule.name_of(device=each, vendor=device.vendor)
                found.setdefault(name, {}).setdefault(each, device)
    return found


def _some(devices: list[str]) -> str:
    return some_of(sorted({quoted(each) for each in devices}), DEVICES_NAMED_MAX)
