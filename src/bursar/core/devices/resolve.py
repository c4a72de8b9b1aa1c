"""Resolve the claims of a pod's annotations to the devices that the pod holds.

Every claim passes the same checks: is its kind known, does the pod request such a device, does the
device have an id, is it on this node, which container is it for, and does the pod request that
many. A claim that fails is dropped and reported as a problem. The pod's other claims, and other
pods, are not affected.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, repeat
from typing import Final

from bursar.core.devices.allocation import (
    Allocation,
    Holdings,
    PodKey,
    Problem,
    ProblemKind,
    SourceReport,
    bare_id,
    quoted,
)
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.pod import DeviceContainer, DevicePod, live_pods
from bursar.core.devices.sharing import number_shares
from bursar.core.devices.source import PARTITION_PREFIXES, KindRule, Source

ID_CHARS_MAX: Final = 253
"""Maximum length of a device id. PCI addresses have 12 characters, NVML ids 40."""


NO_INVENTORY: Final = "the devices of this node are not known, so the claim cannot be checked"


class Trust(Enum):
    """Which pods may hold the devices that their annotations name."""

    ASKED = "asked"
    """Pods that request such a device in their spec, and no more devices than they request."""
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    trust: Trust = Trust.ASKED
    schedulers: frozenset[str] = frozenset()
    """Schedulers whose pods are trusted. Empty: all."""
    devices_max: int = 256
    """Maximum devices per pod; further devices are dropped."""
    needs_inventory: bool = True
    """Whether claims of a source with inventories are dropped while that of the node is unknown."""
    numbers_shares: bool = False
    """Whether ids of shared devices end with the number of the share: see `sharing`."""


def holdings_by_pod(
    pods: Iterable[DevicePod],
    sources: Mapping[str, Source],
    inventory: Inventory | None,
    rules: Rules,
) -> dict[PodKey, Holdings]:
    """The holdings of all pods of a node that have claims."""
    found: Iterable[Holdings] = [
        resolve(pod, sources, inventory, rules) for pod in live_pods(pods).values() if pod.claims
    ]
    if rules.numbers_shares:
        found = number_shares(found, sources)
    return {each.key: each for each in found}


def resolve(
    pod: DevicePod,
    sources: Mapping[str, Source],
    inventory: Inventory | None,
    rules: Rules,
) -> Holdings:
    """The devices that the pod holds. The result does not depend on other pods."""
    resolver = _Resolver(pod, inventory, rules)
    for claims in pod.claims:
        resolver.add(claims, sources.get(claims.source))
    return Holdings(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        allocations=resolver.allocations(),
        problems=resolver.problems(),
        sidecars=tuple(each.name for each in pod.sidecars),
        has_ended=pod.is_terminal,
    )


# ------------------------------------------------------------------ one pod


@dataclass(frozen=True, slots=True)
class _Identity:
    """A device that a claim refers to."""

    id: str
    record: Device | None = None
    """The device, or the device of which it is a part, in the inventory."""
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class _Rejection:
    kind: ProblemKind
    text: str


class _ContainerSlots:
    """The containers that request a kind of device, and how many devices each still gets."""

    def __init__(self, pod: DevicePod, rule: KindRule, devices_max: int) -> None:
        everyone = (*pod.sidecars, *pod.containers)
        askers = [each for each in everyone if any(each.asks.get(n, 0) > 0 for n in rule.askers)]
        self.is_asked_for = any(pod.asks_for(name) > 0 for name in rule.askers)
        self.asked = _asked(pod, rule)
        self.given: set[str] = set()
        """Ids of the devices of this kind that the pod was given so far."""
        self._first = next((each.name for each in (*askers, *pod.containers)), "")
        self._slots: Iterator[str] = chain.from_iterable(
            repeat(each.name, min(_wanted(each, rule), devices_max)) for each in askers
        )

    def next(self) -> str:
        return next(self._slots, self._first)


class _Resolver:
    def __init__(self, pod: DevicePod, inventory: Inventory | None, rules: Rules) -> None:
        self._pod = pod
        self._inventory = inventory
        self._rules = rules
        self._found: dict[tuple[str, str], dict[str, Allocation]] = {}
        """By resource and device, then by source."""
        everyone = (*pod.sidecars, *pod.containers, *pod.init_containers)
        self._names = {each.name for each in everyone}
        self._rejected: dict[tuple[ProblemKind, str], list[str]] = {}
        """Texts by kind and source."""

    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(_merged(tuple(self._found[key].values())) for key in sorted(self._found))

    def problems(self) -> tuple[Problem, ...]:
        """One problem for each kind and source, however many claims were rejected."""
        return tuple(
            Problem(
                kind=kind,
                source=source,
                text=texts[0] + (f", and {len(texts) - 1} more" if len(texts) > 1 else ""),
            )
            for (kind, source), texts in self._rejected.items()
        )

    def add(self, claims: Claims, source: Source | None) -> None:
        rejection = self._rejection_of_all(claims)
        if rejection is not None:
            self._reject(claims.source, rejection)
            return
        slots: dict[str, _ContainerSlots] = {}
        for claim in claims.claims:
            rule = source.kinds.get(claim.kind) if source is not None else None
            if source is None or rule is None:
                unknown = f"unknown kind {quoted(claim.kind)}"
                self._reject(claims.source, _Rejection(ProblemKind.UNKNOWN_KIND, unknown))
                continue
            if claim.kind not in slots:
                slots[claim.kind] = _ContainerSlots(self._pod, rule, self._rules.devices_max)
            self._add_claim(claim, source, slots[claim.kind])

    def _reject(self, source: str, rejection: _Rejection) -> None:
        self._rejected.setdefault((rejection.kind, source), []).append(rejection.text)

    def _rejection_of_all(self, claims: Claims) -> _Rejection | None:
        if claims.problem:
            return _Rejection(ProblemKind.UNREADABLE, claims.problem)
        schedulers = self._rules.schedulers
        if claims.claims and schedulers and self._pod.scheduler not in schedulers:
            text = f"the pod's scheduler is {quoted(self._pod.scheduler)}, which gives no devices"
            return _Rejection(ProblemKind.WRONG_SCHEDULER, text)
        return None

    def _add_claim(self, claim: Claim, source: Source, slots: _ContainerSlots) -> None:
        if self._rules.trust is Trust.ASKED and not slots.is_asked_for:
            text = f"the pod asks for no {quoted(claim.kind)}"
            self._reject(source.name, _Rejection(ProblemKind.NOT_ASKED_FOR, text))
            return
        container = self._named_container(claim)
        if container is None:
            text = f"the pod has no container {_container_text(claim)}"
            self._reject(source.name, _Rejection(ProblemKind.UNKNOWN_CONTAINER, text))
            return
        identities = []
        for each in _identities(claim, source, self._inventory, self._rules):
            if isinstance(each, _Rejection):
                self._reject(source.name, each)
            else:
                identities.append(each)
        asked = self._within_request(identities, claim, source, slots)
        if asked:
            slot = container or slots.next()
            for identity in asked:
                self._add_allocation(_allocation(claim, identity, source, slot))

    def _within_request(
        self, identities: Iterable[_Identity], claim: Claim, source: Source, slots: _ContainerSlots
    ) -> list[_Identity]:
        """The identities up to the number of devices that the pod requests."""
        most = slots.asked if self._rules.trust is Trust.ASKED else None
        found = []
        for each in identities:
            if most is None or each.id in slots.given or len(slots.given) < most:
                slots.given.add(each.id)
                found.append(each)
            else:
                text = (
                    f"{claim.kind}: {quoted(each.id)} is more than the {most} that the pod asks for"
                )
                self._reject(source.name, _Rejection(ProblemKind.MORE_THAN_ASKED, text))
        return found

    def _named_container(self, claim: Claim) -> str | None:
        """The claim's container: empty if the claim names none, None if the pod has no such."""
        if claim.container:
            return claim.container if claim.container in self._names else None
        if claim.container_index is None:
            return ""
        inside = 0 <= claim.container_index < len(self._pod.containers)
        return self._pod.containers[claim.container_index].name if inside else None

    def _add_allocation(self, allocation: Allocation) -> None:
        key, source = (allocation.resource, allocation.device), allocation.source
        by_source = self._found.get(key)
        if by_source is not None:
            # One allocation per device: clients that join the containers of a pod would count two.
            before = by_source.get(source)
            parts = (before.share if before is not None else 0) + allocation.share
            by_source[source] = replace(before or allocation, share=min(100, parts))
        elif len(self._found) >= self._rules.devices_max:
            text = f"more than {self._rules.devices_max} devices"
            self._reject(source, _Rejection(ProblemKind.TOO_MANY, text))
        else:
            self._found[key] = {source: allocation}


# ------------------------------------------------------------------ one claim


def _asked(pod: DevicePod, rule: KindRule) -> int | None:
    """The number of devices of a kind that a pod requests; None if its requests do not tell."""
    counted = max((pod.asks_for(name) for name in rule.counts), default=0)
    if rule.is_bounded:
        percent = max((pod.asks_for(name) for name in rule.percent), default=0)
        return max(1, counted, -(-percent // 100))
    return counted if counted > 0 else None


def _wanted(container: DeviceContainer, rule: KindRule) -> int:
    """The number of devices of a kind that a container requests; at least one."""
    counted = max((container.asks.get(name, 0) for name in rule.counts), default=0)
    if counted > 0:
        return counted
    percent = max((container.asks.get(name, 0) for name in rule.percent), default=0)
    return max(1, -(-percent // 100))


def _identities(
    claim: Claim, source: Source, inventory: Inventory | None, rules: Rules
) -> Iterator[_Identity | _Rejection]:
    if inventory is None and source.is_inventoried and rules.needs_inventory:
        # Anybody who may write the annotation could name a device of another pod.
        yield _Rejection(ProblemKind.NO_INVENTORY, f"{quoted(claim.kind)}: {NO_INVENTORY}")
        return
    known = inventory if inventory is not None else Inventory()
    is_checked = inventory is not None and source.is_inventoried
    for each in _referenced(claim, source, known):
        if isinstance(each, _Rejection):
            yield each
        elif not each.id or len(each.id) > ID_CHARS_MAX or not each.id.isprintable():
            text = f"{claim.kind}: {quoted(each.id)} is no id" if each.id else _no_id(claim)
            yield _Rejection(ProblemKind.NO_ID, text)
        elif is_checked and each.record is None:
            text = f"{claim.kind}: {quoted(each.id)} is not a device of this node"
            yield _Rejection(ProblemKind.NOT_ON_NODE, text)
        else:
            yield each


def _referenced(claim: Claim, source: Source, known: Inventory) -> Iterator[_Identity | _Rejection]:
    # A share number in an annotation is ignored: it would pass for the id of another device.
    kind, device = claim.kind, bare_id(claim.device)
    by_minor = None
    if source.is_inventoried and claim.minor is not None:
        by_minor = known.by_minor.get((kind, claim.minor))
    if claim.functions:
        for address in (bare_id(each) for each in claim.functions):
            yield _Identity(address, known.by_function.get((kind, address)), is_part=True)
    elif device.startswith(PARTITION_PREFIXES):
        itself = known.by_id.get((kind, device))
        yield _Identity(device, itself or by_minor, is_part=itself is None)
    elif device:
        yield _Identity(device, known.by_id.get((kind, device)))
    elif by_minor is not None:
        yield _Identity(by_minor.id, by_minor)
    else:
        yield _Rejection(ProblemKind.NO_ID, _no_id(claim))


def _no_id(claim: Claim) -> str:
    number = "without a number" if claim.minor is None else f"number {claim.minor}"
    return f"{quoted(claim.kind)}: no id is known for the device {number}"


def _container_text(claim: Claim) -> str:
    return quoted(claim.container) if claim.container else f"number {claim.container_index}"


def _allocation(claim: Claim, identity: _Identity, source: Source, container: str) -> Allocation:
    rule, record = source.kinds[claim.kind], identity.record
    vendor = (record.vendor if record is not None else "") or claim.vendor
    return Allocation(
        source=source.name,
        container=container,
        kind=claim.kind,
        resource=rule.name_of(device=identity.id, vendor=vendor),
        device=identity.id,
        numa=record.numa if record is not None else None,
        share=100 if identity.is_part else _share(claim, rule, record),
        parent=record.id if record is not None and identity.is_part else "",
    )


def _merged(by_source: tuple[Allocation, ...]) -> Allocation:
    """One allocation from those of several sources: all describe the same share of the device."""
    first = by_source[0]
    if len(by_source) == 1:
        return first
    return replace(
        first,
        share=max(each.share for each in by_source),
        reports=tuple(SourceReport(each.source, each.container, each.share) for each in by_source),
    )


def _share(claim: Claim, rule: KindRule, record: Device | None) -> int:
    percents = [claim.amounts[name] for name in rule.percent if name in claim.amounts]
    if not percents and record is not None:
        percents = [
            -(-amount * 100 // record.amounts[name])
            for name, amount in claim.amounts.items()
            if record.amounts.get(name, 0) > 0
        ]
    if percents:
        return min(100, max(0, *percents))
    # Amounts mean a part of the device, unless one of them counts devices.
    is_part = claim.amounts and not rule.counts & claim.amounts.keys()
    return 0 if is_part or claim.template or bare_id(claim.device) != claim.device else 100
