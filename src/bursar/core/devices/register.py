"""Who has which device of a node, who says so, and where those who speak disagree."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.core.devices.allocation import Holdings, PodKey, ReportedPod, Voice, bare_id
from bursar.core.devices.choosing import live_pods
from bursar.core.devices.conflicts import KUBELET, STATUS, contested, device_key, other_holders
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.resolving import shown
from bursar.core.devices.source import Source

DYNAMIC: Final = "dra"
DEVICES_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicDevice:
    """A device that a ResourceClaim gave to a pod."""

    namespace: str
    pod: str
    container: str = ""
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is said about the devices of one node, by each who says something."""

    node: str
    pods: tuple[DevicePod, ...] = ()
    """For what their status states, and whether they have ended."""
    holdings: tuple[Holdings, ...] = ()
    """From annotations."""
    reported: tuple[ReportedPod, ...] = ()
    """From kubelet's socket, or an agent's."""
    dynamic: tuple[DynamicDevice, ...] = ()
    inventory: Inventory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    node: str
    namespace: str
    pod: str
    container: str
    resource: str
    device: str
    numa: int | None
    share: int
    """Percent of the device; 0: a part of unknown size."""
    sources: tuple[str, ...]
    disagreements: tuple[str, ...]


def register(facts: NodeFacts, sources: Mapping[str, Source]) -> tuple[Row, ...]:
    """One row for each device of each pod, in order of names."""
    words: dict[tuple[PodKey, str, str], list[_Word]] = {}
    for word in _words(facts):
        words.setdefault((word.pod, word.resource, word.device), []).append(word)
    doubts = _Doubts(facts, sources, [word for said in words.values() for word in said])
    return tuple(_row(facts.node, words[key], doubts) for key in sorted(words))


# ------------------------------------------------------------------ what is said


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    source: str
    pod: PodKey
    container: str
    resource: str
    device: str
    numa: int | None = None
    share: int | None = None
    parent: str = ""


def _words(facts: NodeFacts) -> Iterator[_Word]:
    """Kubelet speaks first: it has given the device, the others have only written of it."""
    for reported in facts.reported:
        yield from _reported_words(reported)
    for pod in facts.pods:
        for stated in pod.stated:
            yield _Word(
                source=STATUS,
                pod=(pod.namespace, pod.name),
                container=stated.container,
                resource=stated.resource,
                device=bare_id(stated.device),
            )
    for dynamic in facts.dynamic:
        yield _Word(
            source=DYNAMIC,
            pod=(dynamic.namespace, dynamic.pod),
            container=dynamic.container,
            resource=dynamic.driver,
            device=f"{dynamic.pool}/{dynamic.device}",
        )
    for holdings in facts.holdings:
        for each in holdings.allocations:
            for voice in each.voices or (Voice(each.source, each.container, each.share),):
                yield _Word(
                    source=voice.source,
                    pod=holdings.key,
                    container=voice.container,
                    resource=each.resource,
                    device=each.device,
                    numa=each.numa,
                    share=voice.share,
                    parent=each.parent,
                )


def _reported_words(pod: ReportedPod) -> Iterator[_Word]:
    for container in pod.containers:
        for entry in container.entries:
            for device in entry.devices:
                yield _Word(
                    source=KUBELET,
                    pod=pod.key,
                    container=container.name,
                    resource=entry.resource,
                    device=bare_id(device),
                    numa=entry.numa,
                    share=None if bare_id(device) == device else 0,
                )


def _row(node: str, said: list[_Word], doubts: "_Doubts") -> Row:
    first = said[0]
    # Kubelet knows only whole devices, so a source that speaks of shares knows better.
    shares = [word.share for word in said if word.share is not None]
    return Row(
        node=node,
        namespace=first.pod[0],
        pod=first.pod[1],
        container=first.container,
        resource=first.resource,
        device=first.device,
        numa=next((word.numa for word in said if word.numa is not None), None),
        share=max(shares, default=100),
        sources=_distinct(word.source for word in said),
        disagreements=_distinct(doubts.about(said)),
    )


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


# ------------------------------------------------------------------ where they disagree


class _Doubts:
    def __init__(
        self, facts: NodeFacts, sources: Mapping[str, Source], words: Iterable[_Word]
    ) -> None:
        self._ended = {key for key, pod in live_pods(facts.pods).items() if pod.is_terminal}
        self._ended.update(each.key for each in facts.holdings if each.is_over)
        live = [each for each in facts.reported if each.key not in self._ended]
        self._contested = contested(facts.holdings, live, facts.pods)
        self._listed: dict[str, dict[str, Device]] = _listed(facts.inventory, sources)
        self._said: dict[tuple[PodKey, str], dict[str, list[str]]] = {}
        for word in words:
            by_source = self._said.setdefault((word.pod, word.resource), {})
            by_source.setdefault(word.source, []).append(word.device)

    def about(self, said: list[_Word]) -> Iterator[str]:
        first = said[0]
        speakers = {word.source for word in said}
        for source, devices in self._said[first.pod, first.resource].items():
            if source not in speakers:
                yield f"{source} says {_some(devices)}"
        for word in said[1:]:
            if word.source != first.source and word.container != first.container:
                yield f"{word.source} says container {shown(word.container)}"
        yield from _different_shares(said)
        parent = next((word.parent for word in said if word.parent), "")
        for device in (first.device, parent):
            holders = self._contested.get(device_key(first.resource, device), {})
            if first.pod in holders:
                whole = f"{shown(parent)}, of which it is a part, is " if device == parent else ""
                yield f"{whole}also held by {other_holders(first.pod, holders)}"
        yield from self._inventory_doubts(first, parent)
        if first.pod in self._ended:
            yield "the pod has ended"

    def _inventory_doubts(self, word: _Word, parent: str) -> Iterator[str]:
        listed = self._listed.get(word.resource)
        if listed is None:
            return
        device = listed.get(word.device) or listed.get(parent)
        if device is None:
            yield "not in the inventory"
        elif not device.is_healthy:
            yield "not healthy"


def _different_shares(said: list[_Word]) -> Iterator[str]:
    """A share that is not known contradicts none."""
    told = [word for word in said if word.share]
    for word in told[1:]:
        if word.share != told[0].share:
            yield f"{told[0].source} says {told[0].share} %, {word.source} {word.share} %"


def _listed(
    inventory: Inventory | None, sources: Mapping[str, Source]
) -> dict[str, dict[str, Device]]:
    """Devices by id, under each name of which the inventory has any."""
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
    named = sorted({shown(each) for each in devices})
    rest = len(named) - DEVICES_NAMED_MAX
    return ", ".join(named[:DEVICES_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
