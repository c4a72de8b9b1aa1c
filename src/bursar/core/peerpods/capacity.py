"""Capacity of extended resources on nodes: what is declared, what a node has, what to write.

Any client with the right may write the capacity of an extended resource. Bursar therefore marks
the amounts that it has set with an annotation on the node, and restores only marked amounts when
they were removed or set to zero. Capacity without the mark belongs to another component, such as
a device plugin, and is left alone, even at zero: kubelet shows zero for a plugin that is gone.

An amount is lowered no further than to what pods use. The scheduler places no more pods there in
either case, but a kubelet that restarts rejects running pods that exceed the capacity.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bursar.core.model.names import is_extended
from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN
from bursar.core.model.resources import ResourceList, nothing
from bursar.core.model.selectors.selector import Selector
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.core.sharing import no_labels

ADAPTOR_ANNOTATION: Final = "kata.peerpods.io/caa-owner"
"""Upstream's advertiser writes the uid of its pod here, and never removes it."""
MARK_ANNOTATION: Final = "bursar.io/capacity-owner"
"""A JSON object: the amounts that Bursar has set on this node."""
OVERRIDE_ANNOTATION: Final = "bursar.io/capacity"
"""A JSON object: amounts for this node that replace the declared ones; null for none."""

LIMIT_KEY: Final = "PEERPODS_LIMIT_PER_NODE"
LIMIT_DEFAULT: Final = 10
AMOUNT_MAX: Final = 10**9
RESOURCES_MAX: Final = 64
"""Most resources that Bursar sets on one node; all of them are listed in an annotation."""

_LEADING_INTEGER: Final = re.compile(r"\s*([+-]?)0*([0-9]{1,20})", re.ASCII)


# ------------------------------------------------------------------ declarations


class Origin(Enum):
    """Where a declaration comes from. A higher value takes precedence."""

    PRESET = 1
    """Upstream's setting for peer pods per node."""
    DECLARED = 2
    """A declaration in Bursar's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """An amount of a resource for each node that the selector matches."""

    name: str
    resource: str
    amount: int
    selector: Selector
    origin: Origin = Origin.DECLARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declarations of one object, and the problems with those that could not be read."""

    declarations: tuple[Declaration, ...] = ()
    problems: tuple[str, ...] = ()


def resource_problem(name: str) -> str:
    """Why Bursar cannot set a resource of this name on nodes; empty if it can.

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
    """The limit of peer pods per node as upstream reads it; None to advertise nothing.

    Only a number at the beginning of the text is read. Without one the limit is 10.

    >>> limit_in({"PEERPODS_LIMIT_PER_NODE": "7 or so"}), limit_in({}), limit_in({LIMIT_KEY: "-1"})
    (7, 10, None)
    """
    found = _LEADING_INTEGER.match(data.get(LIMIT_KEY, ""))
    limit = LIMIT_DEFAULT if found is None else int("".join(found.groups()))
    if not INT64_MIN <= limit <= INT64_MAX:
        limit = LIMIT_DEFAULT
    return None if limit < 0 else min(limit, AMOUNT_MAX)


def preset(data: Mapping[str, str], selector: Selector, resource: str = VM_RESOURCE) -> Declared:
    """The declaration in upstream's settings, for nodes that can run peer pods."""
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


# ------------------------------------------------------------------ nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityNode:
    """A node's capacity, and Bursar's annotations on the node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=no_labels)
    capacity: ResourceList = field(default_factory=nothing)
    allocatable: ResourceList = field(default_factory=nothing)
    marked: Mapping[str, int] = field(default_factory=dict)
    """Amounts that Bursar has set, by resource name."""
    override: Mapping[str, int | None] = field(default_factory=dict)
    """Amounts of the override annotation, by resource name; None to have none."""
    problem: str = ""
    """Why the override annotation cannot be read; empty if it can."""
    is_adaptors: bool = False
    """Whether upstream's advertiser has marked this node as its own."""
    has_annotations: bool = True
    has_capacity: bool = True
    has_allocatable: bool = True


def wanted_on(node: CapacityNode, declarations: Iterable[Declaration]) -> dict[str, int]:
    """The amounts that the node should have, by resource name.

    The node's override annotation comes first, then Bursar's declarations, then upstream's
    setting. Of several declarations the smallest amount applies, so that their order does not
    matter. If the override annotation cannot be read, the node keeps the marked amounts.
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


# ------------------------------------------------------------------ actions


class CapacityAction(Enum):
    """What to do about one resource of a node, or why nothing is done."""

    RIGHT = "Right"
    SET = "Set"
    """Write the amount, and mark it."""
    WITHDRAW = "Withdraw"
    """Remove a marked amount that is no longer declared."""
    YIELD = "Yield"
    """Remove the mark: another component has written another amount."""
    KEPT = "Kept"
    """Nothing is done: the amount is not declared, but not all declarations could be read."""
    FOREIGN = "Foreign"
    """Nothing is done: the capacity belongs to another component."""
    ADAPTOR = "Adaptor"
    """Nothing is done: upstream's advertiser sets this resource."""
    CONTESTED = "Contested"
    """Nothing is done for a while: another component keeps changing the amount."""

    @property
    def is_write(self) -> bool:
        return self in {CapacityAction.SET, CapacityAction.WITHDRAW, CapacityAction.YIELD}

    @property
    def is_of_another_owner(self) -> bool:
        return self in {CapacityAction.FOREIGN, CapacityAction.ADAPTOR, CapacityAction.YIELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRules:
    """Rules for `settle`."""

    taken: frozenset[str] = frozenset()
    """Resources to set even if another component has set them."""
    contested: frozenset[str] = frozenset()
    """Resources that were restored too often recently."""
    may_withdraw: bool = True
    """Whether marked amounts that are not declared may be removed."""
    is_cutting: bool = False
    """Whether to lower an amount below what pods use."""


DEFAULT_RULES: Final = SettleRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """One resource of one node: the capacity it has, the wanted amount, and what to do."""

    resource: str
    action: CapacityAction
    wanted: int | None
    """The declared amount; None if the resource is not declared."""
    shown: int | None
    """The node's capacity; None if it has none."""
    amount: int | None = None
    """The amount to write, or the amount that is right already."""
    used: int = 0
    """How much of it pods on the node request."""
    is_healing: bool = False
    """Whether the write restores a marked amount that another component has changed."""

    @property
    def is_held(self) -> bool:
        """Whether the amount stays above the wanted one because pods use it."""
        return self.amount is not None and self.wanted is not None and self.amount > self.wanted

    @property
    def is_below_use(self) -> bool:
        """Whether the write removes capacity that pods use."""
        if self.action is CapacityAction.WITHDRAW:
            return self.used > 0
        return self.action is CapacityAction.SET and (self.amount or 0) < min(
            self.used, self.shown or 0
        )


def settle(
    node: CapacityNode,
    resource: str,
    wanted: int | None,
    *,
    used: int = 0,
    rules: SettleRules = DEFAULT_RULES,
) -> Settlement:
    """Decide about one resource of a node."""
    shown, marked = _whole(node.capacity, resource), node.marked.get(resource)
    amount = None if wanted is None else _reachable(wanted, used, marked, shown, rules)
    action = _action(node, resource, amount, rules)
    return Settlement(
        resource=resource,
        action=action,
        wanted=wanted,
        shown=shown,
        amount=amount,
        used=used,
        is_healing=action is CapacityAction.SET and _is_changed(node, resource),
    )


def _reachable(
    wanted: int, used: int, marked: int | None, shown: int | None, rules: SettleRules
) -> int:
    """The wanted amount, or the amount in use if that is more.

    Pods that were bound to the node by hand may use more than the capacity. They do not raise it.
    """
    if rules.is_cutting:
        return wanted
    return max(wanted, min(used, max(marked or 0, shown or 0)))


def _action(
    node: CapacityNode, resource: str, amount: int | None, rules: SettleRules
) -> CapacityAction:
    shown, marked = _whole(node.capacity, resource), node.marked.get(resource)
    if resource not in rules.taken:
        if marked is None:
            if resource == VM_RESOURCE and node.is_adaptors:
                return CapacityAction.ADAPTOR
            if shown is not None:
                return CapacityAction.FOREIGN
        elif shown not in {None, 0, marked} and _is_given_up(node, resource, amount, rules):
            return CapacityAction.YIELD
    if amount is None:
        return _withdrawal(shown, marked, rules)
    is_right = shown == amount == _whole(node.allocatable, resource)
    if is_right and marked == amount:
        return CapacityAction.RIGHT
    if resource in rules.contested:
        return CapacityAction.CONTESTED
    return CapacityAction.SET


def _withdrawal(shown: int | None, marked: int | None, rules: SettleRules) -> CapacityAction:
    if shown is None and marked is None:
        return CapacityAction.RIGHT
    return CapacityAction.WITHDRAW if rules.may_withdraw else CapacityAction.KEPT


def _is_given_up(node: CapacityNode, resource: str, amount: int | None, rules: SettleRules) -> bool:
    """Whether an amount that another component has written is left to it."""
    if amount is None or resource in rules.contested:
        return True
    return resource == VM_RESOURCE and node.is_adaptors


def _is_changed(node: CapacityNode, resource: str) -> bool:
    marked = node.marked.get(resource)
    offered = (_whole(node.capacity, resource), _whole(node.allocatable, resource))
    return marked is not None and offered != (marked, marked)


def _whole(amounts: ResourceList, resource: str) -> int | None:
    amount = amounts.get(resource)
    return None if amount is None else amount.whole_units
