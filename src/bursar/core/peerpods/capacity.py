"""Capacity of extended resources: who wants how much of what on which node, and what to do.

Nobody but whoever advertises an extended resource knows how much there is of it, and the
API server lets everybody write it. So what we set is marked on the node as ours, with the
amount, and only what is ours is put right when it was wiped or zeroed. Capacity without
our mark belongs to somebody else, a device plugin for one, and is left alone, even at
zero: that is what a kubelet shows of a plugin that was there before.

An amount is lowered no further than to what is in use. The scheduler places nothing more
there either way, but a kubelet that starts anew turns away pods for which it finds no room.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bursar.core.model.int64 import INT64_MAX, INT64_MIN
from bursar.core.model.names import is_extended
from bursar.core.model.pod import no_labels
from bursar.core.model.resources import ResourceList, nothing
from bursar.core.model.selector import Selector

VM_RESOURCE: Final = "kata.peerpods.io/vm"
ADAPTOR_ANNOTATION: Final = "kata.peerpods.io/caa-owner"
"""Upstream's advertiser writes the uid of its pod here, and never takes it away."""
MARK_ANNOTATION: Final = "bursar.io/capacity-owner"
"""A JSON object: the amounts that we have set on this node."""
OVERRIDE_ANNOTATION: Final = "bursar.io/capacity"
"""A JSON object: amounts wanted on this node, whatever is declared; null for none."""

LIMIT_KEY: Final = "PEERPODS_LIMIT_PER_NODE"
LIMIT_DEFAULT: Final = 10
AMOUNT_MAX: Final = 10**9
RESOURCES_MAX: Final = 64
"""Most resources that one node may be given; an annotation is no place for more."""

_LEADING_INTEGER: Final = re.compile(r"\s*([+-]?)0*([0-9]{1,20})", re.ASCII)


# ------------------------------------------------------------------ what is declared


class Origin(Enum):
    """Who declared it. A later one is asked before an earlier one."""

    PRESET = 1
    """The limit of peer pods per node, as upstream sets it."""
    DECLARED = 2
    """A declaration of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """So much of a resource on each node with these labels."""

    name: str
    resource: str
    amount: int
    selector: Selector
    origin: Origin = Origin.DECLARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What one object declares, and what of it could not be read."""

    declarations: tuple[Declaration, ...] = ()
    problems: tuple[str, ...] = ()


def resource_problem(name: str) -> str:
    """Why nodes cannot be given a resource of this name by us; empty if they can.

    >>> resource_problem("example.com/foo"), resource_problem("cpu")
    ('', 'not the name of an extended resource, such as example.com/foo')
    """
    if is_extended(name):
        return ""
    return "not the name of an extended resource, such as example.com/foo"


def amount_problem(amount: int) -> str:
    if 0 <= amount <= AMOUNT_MAX:
        return ""
    return f"the amount must be between 0 and {AMOUNT_MAX}"


def limit_in(data: Mapping[str, str]) -> int | None:
    """The limit of peer pods per node as upstream reads it; None if none is to be advertised.

    A number at the beginning of the text counts, whatever follows it; without one the
    limit is 10.

    >>> limit_in({"PEERPODS_LIMIT_PER_NODE": "7 or so"}), limit_in({}), limit_in({LIMIT_KEY: "-1"})
    (7, 10, None)
    """
    found = _LEADING_INTEGER.match(data.get(LIMIT_KEY, ""))
    limit = LIMIT_DEFAULT if found is None else int("".join(found.groups()))
    if not INT64_MIN <= limit <= INT64_MAX:
        limit = LIMIT_DEFAULT
    return None if limit < 0 else min(limit, AMOUNT_MAX)


def preset(data: Mapping[str, str], selector: Selector, resource: str = VM_RESOURCE) -> Declared:
    """What upstream's settings declare for nodes that can run peer pods."""
    limit = limit_in(data)
    if limit is None:
        return Declared()
    declaration = Declaration(
        name=LIMIT_KEY,
        resource=resource,
        amount=limit,
        selector=selector,
        origin=Origin.PRESET,
    )
    return Declared(declarations=(declaration,))


# ------------------------------------------------------------------ what a node says


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityNode:
    """What a node offers, and what its annotations say about that."""

    name: str
    labels: Mapping[str, str] = field(default_factory=no_labels)
    capacity: ResourceList = field(default_factory=nothing)
    allocatable: ResourceList = field(default_factory=nothing)
    marked: Mapping[str, int] = field(default_factory=dict)
    """What we have set, by name."""
    override: Mapping[str, int | None] = field(default_factory=dict)
    """What is wanted here, by name; None for nothing."""
    problem: str = ""
    """Why the override cannot be read."""
    is_adaptors: bool = False
    """Upstream's advertiser says that it looks after this node."""
    has_annotations: bool = True
    has_capacity: bool = True
    has_allocatable: bool = True


def wanted_on(node: CapacityNode, declarations: Iterable[Declaration]) -> dict[str, int]:
    """How much of what the node should offer, as far as it is up to us.

    What the node's own annotation says comes first, then our declarations, then the
    preset. Of several declarations the smallest amount holds, so that their order does
    not matter. While the annotation cannot be read, the node keeps what it has.
    """
    if node.problem:
        return dict(node.marked)
    found: dict[str, Declaration] = {}
    for each in declarations:
        held = found.get(each.resource)
        if (held is None or _goes_first(each, held)) and each.selector.matches(node.labels):
            found[each.resource] = each
    wanted = {name: each.amount for name, each in found.items()}
    for name, amount in node.override.items():
        if amount is None:
            wanted.pop(name, None)
        else:
            wanted[name] = amount
    return wanted


def _goes_first(one: Declaration, other: Declaration) -> bool:
    return (-one.origin.value, one.amount) < (-other.origin.value, other.amount)


# ------------------------------------------------------------------ what to do about it


class Verdict(Enum):
    """What is to be done about one resource of a node, and why nothing is."""

    RIGHT = "Right"
    SET = "Set"
    """Write the amount, and mark it as ours."""
    WITHDRAW = "Withdraw"
    """It is ours and nobody wants it any more."""
    YIELD = "Yield"
    """Somebody else has written another amount; it is no longer ours."""
    KEPT = "Kept"
    """Nobody seems to want it, but not all that is declared could be read."""
    FOREIGN = "Foreign"
    """Left alone: somebody else's."""
    ADAPTOR = "Adaptor"
    """Left alone: upstream's advertiser looks after it."""
    CONTESTED = "Contested"
    """Wrong again and again: left alone for a while."""

    @property
    def is_write(self) -> bool:
        return self in {Verdict.SET, Verdict.WITHDRAW, Verdict.YIELD}

    @property
    def is_somebody_elses(self) -> bool:
        return self in {Verdict.FOREIGN, Verdict.ADAPTOR, Verdict.YIELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """By which rules to settle."""

    taken: frozenset[str] = frozenset()
    """Resources to take from whoever has them."""
    contested: frozenset[str] = frozenset()
    """Resources that had to be put right too often of late."""
    may_withdraw: bool = True
    is_cutting: bool = False
    """Lower at once, also below what is in use."""


PLAIN_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """One resource of one node: what is, what should be, and what to do."""

    resource: str
    verdict: Verdict
    wanted: int | None
    """None if nobody wants it to be there."""
    shown: int | None
    """The capacity of the node; None if it has none."""
    amount: int | None = None
    """What to write, or what is right."""
    used: int = 0
    """How much of it pods on the node request."""
    is_healing: bool = False
    """It was right before, and somebody has changed it."""

    @property
    def is_held(self) -> bool:
        """More is left than is wanted, because it is in use."""
        return self.amount is not None and self.wanted is not None and self.amount > self.wanted

    @property
    def is_below_use(self) -> bool:
        """Something is to be taken away that is in use."""
        if self.verdict is Verdict.WITHDRAW:
            return self.used > 0
        return self.verdict is Verdict.SET and (self.amount or 0) < min(self.used, self.shown or 0)


def settle(
    node: CapacityNode,
    resource: str,
    wanted: int | None,
    *,
    used: int = 0,
    terms: Terms = PLAIN_TERMS,
) -> Settlement:
    """Decide about one resource of a node. What is right already is not written again."""
    shown, marked = _whole(node.capacity, resource), node.marked.get(resource)
    amount = None if wanted is None else _reachable(wanted, used, marked, shown, terms)
    verdict = _verdict(node, resource, amount, terms)
    return Settlement(
        resource=resource,
        verdict=verdict,
        wanted=wanted,
        shown=shown,
        amount=amount,
        used=used,
        is_healing=verdict is Verdict.SET and _is_changed(node, resource),
    )


def _reachable(wanted: int, used: int, marked: int | None, shown: int | None, terms: Terms) -> int:
    """What is wanted, or as near to it as can be reached without passing what is in use.

    Use beyond what was ever offered, by pods put on the node by hand, raises nothing.
    """
    if terms.is_cutting:
        return wanted
    return max(wanted, min(used, max(marked or 0, shown or 0)))


def _verdict(node: CapacityNode, resource: str, amount: int | None, terms: Terms) -> Verdict:
    shown, marked = _whole(node.capacity, resource), node.marked.get(resource)
    if resource not in terms.taken:
        if marked is None:
            if resource == VM_RESOURCE and node.is_adaptors:
                return Verdict.ADAPTOR
            if shown is not None:
                return Verdict.FOREIGN
        elif shown not in {None, 0, marked} and _is_given_up(node, resource, amount, terms):
            return Verdict.YIELD
    if amount is None:
        return _withdrawal(shown, marked, terms)
    is_right = shown == amount == _whole(node.allocatable, resource)
    if is_right and marked == amount:
        return Verdict.RIGHT
    if resource in terms.contested:
        return Verdict.CONTESTED
    return Verdict.SET


def _withdrawal(shown: int | None, marked: int | None, terms: Terms) -> Verdict:
    if shown is None and marked is None:
        return Verdict.RIGHT
    return Verdict.WITHDRAW if terms.may_withdraw else Verdict.KEPT


def _is_given_up(node: CapacityNode, resource: str, amount: int | None, terms: Terms) -> bool:
    """Whether an amount that is not ours any more is left to whoever wrote it."""
    if amount is None or resource in terms.contested:
        return True
    return resource == VM_RESOURCE and node.is_adaptors


def _is_changed(node: CapacityNode, resource: str) -> bool:
    marked = node.marked.get(resource)
    offered = (_whole(node.capacity, resource), _whole(node.allocatable, resource))
    return marked is not None and offered != (marked, marked)


def _whole(amounts: ResourceList, resource: str) -> int | None:
    amount = amounts.get(resource)
    return None if amount is None else amount.whole_units
