"""From what an annotation says to what a pod is believed to hold.

Every claim passes the same questions: is it a kind we know, did the pod ask for such a thing,
does it have an id, is that on this node, which container is it for, and did the pod ask for that
many. One that fails is left out with a problem; the pod's other claims, and other pods, are not
affected.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, repeat

from bursar.core.devices.allocation import (
    Allocation,
    Holdings,
    Problem,
    ProblemKind,
    Voice,
    bare_id,
)
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.pod import DeviceContainer, DevicePod
from bursar.core.devices.source import PARTITION_PREFIXES, KindRule, Source

ID_CHARS_MAX = 253
"""Of a device's id. PCI addresses have 12, NVML's ids 40; more than a name may have is no id."""
SHOWN_CHARS_MAX = 60


class Trust(Enum):
    """Which pods are believed to have what their annotations say."""

    ASKED = "asked"
    """Those that ask for such a device in their spec, and for no more than they ask for."""
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    trust: Trust = Trust.ASKED
    schedulers: frozenset[str] = frozenset()
    """Only pods of these are believed; empty: of any."""
    devices_max: int = 256
    """Per pod. What is beyond is left out."""
    numbers_shares: bool = False
    """Whether ids of shared devices end with the number of the share: see `sharing`."""


def resolve(
    pod: DevicePod,
    sources: Mapping[str, Source],
    inventory: Inventory | None,
    rules: Rules,
) -> Holdings:
    """What the pod holds. The same words give the same answer, whatever other pods there are."""
    desk = _Desk(pod, inventory, rules)
    for claims in pod.claims:
        desk.take(claims, sources.get(claims.source))
    return Holdings(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        allocations=desk.allocations(),
        problems=desk.complaints.problems(),
        sidecars=tuple(each.name for each in pod.sidecars),
        is_over=pod.is_terminal,
    )


def shown(text: str) -> str:
    r"""What somebody else wrote, safe to print and not too long.

    >>> print(shown("GPU-é"))
    'GPU-\xe9'
    """
    return ascii(text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "...")


# ------------------------------------------------------------------ one pod


@dataclass(frozen=True, slots=True)
class _Identity:
    """A device that a claim means."""

    id: str
    record: Device | None = None
    """It, or what it is a part of, in the inventory."""
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class _Objection:
    kind: ProblemKind
    text: str


class _Complaints:
    """Problems of one pod: one for each kind and source, however many claims have it."""

    def __init__(self) -> None:
        self._first: dict[tuple[ProblemKind, str], str] = {}
        self._count: dict[tuple[ProblemKind, str], int] = {}

    def add(self, source: str, objection: _Objection) -> None:
        key = objection.kind, source
        self._first.setdefault(key, objection.text)
        self._count[key] = self._count.get(key, 0) + 1

    def problems(self) -> tuple[Problem, ...]:
        return tuple(
            Problem(kind=kind, source=source, text=text + self._rest(self._count[kind, source]))
            for (kind, source), text in self._first.items()
        )

    def _rest(self, count: int) -> str:
        return f", and {count - 1} more" if count > 1 else ""


class _Seats:
    """Which containers ask for a kind of device, and how many each is still to get."""

    def __init__(self, pod: DevicePod, rule: KindRule, devices_max: int) -> None:
        everyone = (*pod.sidecars, *pod.containers)
        askers = [each for each in everyone if any(each.asks.get(n, 0) > 0 for n in rule.askers)]
        self.is_asked_for = any(pod.asks_for(name) > 0 for name in rule.askers)
        self.asked = _asked(pod, rule)
        self.given: set[str] = set()
        """Ids of those it was given."""
        self._first = next((each.name for each in (*askers, *pod.containers)), "")
        self._places: Iterator[str] = chain.from_iterable(
            repeat(each.name, min(_wanted(each, rule), devices_max)) for each in askers
        )

    def next(self) -> str:
        return next(self._places, self._first)


class _Desk:
    def __init__(self, pod: DevicePod, inventory: Inventory | None, rules: Rules) -> None:
        self._pod = pod
        self._inventory = inventory
        self._rules = rules
        self._found: dict[tuple[str, str], dict[str, Allocation]] = {}
        """By resource and device: what each source says."""
        everyone = (*pod.sidecars, *pod.containers, *pod.passing)
        self._names = {each.name for each in everyone}
        self.complaints = _Complaints()

    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(_heard(tuple(self._found[key].values())) for key in sorted(self._found))

    def take(self, claims: Claims, source: Source | None) -> None:
        objection = self._objection_to_all(claims)
        if objection is not None:
            self.complaints.add(claims.source, objection)
            return
        seats: dict[str, _Seats] = {}
        for claim in claims.claims:
            rule = source.kinds.get(claim.kind) if source is not None else None
            if source is None or rule is None:
                unknown = f"nothing is known of the kind {shown(claim.kind)}"
                self.complaints.add(claims.source, _Objection(ProblemKind.UNKNOWN_KIND, unknown))
                continue
            if claim.kind not in seats:
                seats[claim.kind] = _Seats(self._pod, rule, self._rules.devices_max)
            self._take_one(claim, source, seats[claim.kind])

    def _objection_to_all(self, claims: Claims) -> _Objection | None:
        if claims.problem:
            return _Objection(ProblemKind.UNREADABLE, claims.problem)
        schedulers = self._rules.schedulers
        if claims.claims and schedulers and self._pod.scheduler not in schedulers:
            text = f"the pod's scheduler is {shown(self._pod.scheduler)}, which gives no devices"
            return _Objection(ProblemKind.WRONG_SCHEDULER, text)
        return None

    def _take_one(self, claim: Claim, source: Source, seats: _Seats) -> None:
        if self._rules.trust is Trust.ASKED and not seats.is_asked_for:
            text = f"the pod asks for no {shown(claim.kind)}"
            self.complaints.add(source.name, _Objection(ProblemKind.NOT_ASKED_FOR, text))
            return
        container = self._named_container(claim)
        if container is None:
            text = f"the pod has no container {_container_words(claim)}"
            self.complaints.add(source.name, _Objection(ProblemKind.UNKNOWN_CONTAINER, text))
            return
        identities = []
        for each in _identities(claim, source, self._inventory):
            if isinstance(each, _Objection):
                self.complaints.add(source.name, each)
            else:
                identities.append(each)
        asked = self._within(identities, claim, source, seats)
        if asked:
            seat = container or seats.next()
            for identity in asked:
                self._enter(_allocation(claim, identity, source, seat))

    def _within(
        self, identities: Iterable[_Identity], claim: Claim, source: Source, seats: _Seats
    ) -> list[_Identity]:
        """Those of them that are not more than the pod asks for."""
        most = seats.asked if self._rules.trust is Trust.ASKED else None
        found = []
        for each in identities:
            if most is None or each.id in seats.given or len(seats.given) < most:
                seats.given.add(each.id)
                found.append(each)
            else:
                text = f"{claim.kind}: {shown(each.id)} is beyond the {most} that the pod asks for"
                self.complaints.add(source.name, _Objection(ProblemKind.MORE_THAN_ASKED, text))
        return found

    def _named_container(self, claim: Claim) -> str | None:
        """The container that the claim is for; empty if it does not say, None if not there."""
        if claim.container:
            return claim.container if claim.container in self._names else None
        if claim.container_index is None:
            return ""
        inside = 0 <= claim.container_index < len(self._pod.containers)
        return self._pod.containers[claim.container_index].name if inside else None

    def _enter(self, allocation: Allocation) -> None:
        key, source = (allocation.resource, allocation.device), allocation.source
        said = self._found.get(key)
        if said is not None:
            # Clients that join the containers of a pod would take it for two devices.
            before = said.get(source)
            parts = (before.share if before is not None else 0) + allocation.share
            said[source] = replace(before or allocation, share=min(100, parts))
        elif len(self._found) >= self._rules.devices_max:
            text = f"more than {self._rules.devices_max} devices"
            self.complaints.add(source, _Objection(ProblemKind.TOO_MANY, text))
        else:
            self._found[key] = {source: allocation}


# ------------------------------------------------------------------ one claim


def _asked(pod: DevicePod, rule: KindRule) -> int | None:
    """How many devices of a kind a pod asks for; None if that cannot be told."""
    counted = max((pod.asks_for(name) for name in rule.counts), default=0)
    if rule.is_bounded:
        percent = max((pod.asks_for(name) for name in rule.percent), default=0)
        return max(1, counted, -(-percent // 100))
    return counted if counted > 0 else None


def _wanted(container: DeviceContainer, rule: KindRule) -> int:
    """How many devices of a kind a container is to get."""
    counted = max((container.asks.get(name, 0) for name in rule.counts), default=0)
    if counted > 0:
        return counted
    percent = max((container.asks.get(name, 0) for name in rule.percent), default=0)
    return max(1, -(-percent // 100))


def _identities(
    claim: Claim, source: Source, inventory: Inventory | None
) -> Iterator[_Identity | _Objection]:
    known = inventory if inventory is not None else Inventory()
    is_checked = inventory is not None and source.is_inventoried
    for each in _meant(claim, source, known):
        if isinstance(each, _Objection):
            yield each
        elif not each.id or len(each.id) > ID_CHARS_MAX or not each.id.isprintable():
            text = f"{claim.kind}: {shown(each.id)} is no id" if each.id else _no_id(claim)
            yield _Objection(ProblemKind.NO_ID, text)
        elif is_checked and each.record is None:
            text = f"{claim.kind}: {shown(each.id)} is not a device of this node"
            yield _Objection(ProblemKind.NOT_ON_NODE, text)
        else:
            yield each


def _meant(claim: Claim, source: Source, known: Inventory) -> Iterator[_Identity | _Objection]:
    # The number of a share is not for an annotation to say: it would pass for another device.
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
        yield _Objection(ProblemKind.NO_ID, _no_id(claim))


def _no_id(claim: Claim) -> str:
    number = "without a number" if claim.minor is None else f"number {claim.minor}"
    return f"{shown(claim.kind)}: no id is known for the device {number}"


def _container_words(claim: Claim) -> str:
    return shown(claim.container) if claim.container else f"number {claim.container_index}"


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


def _heard(said: tuple[Allocation, ...]) -> Allocation:
    """What several sources say of one device: they mean the same part, not one each."""
    first = said[0]
    if len(said) == 1:
        return first
    return replace(
        first,
        share=max(each.share for each in said),
        voices=tuple(Voice(each.source, each.container, each.share) for each in said),
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
    # Of what has amounts, only one that counts devices tells that it is a whole one.
    is_part = claim.amounts and not rule.counts & claim.amounts.keys()
    return 0 if is_part or claim.template or bare_id(claim.device) != claim.device else 100
