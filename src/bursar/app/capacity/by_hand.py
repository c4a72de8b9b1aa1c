"""Capacity set by hand: the keeper's own decision, asked for one node and written at once.

What a person wants is also written on the node, as its override. So whoever keeps the
capacity of that cluster agrees with it, and puts it right when it was wiped. Where such a
wish is forgotten and a declaration takes over, the amount is the keeper's to change: it goes
from one to the other, past nothing that pods would be turned away from.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bursar.app.capacity.node_patch import STATUS, node_patch
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import ClusterError, ConflictError, UnavailableError, Writer
from bursar.core.peerpods.capacity import (
    RESOURCES_MAX,
    CapacityNode,
    Declaration,
    Settlement,
    Terms,
    Verdict,
    settle,
    wanted_on,
)

TRIES: Final = 5
NOT_TRIED: Final = "not tried, as the cluster does not answer"

ReadNode = Callable[[], Awaitable[Sighting[CapacityNode]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person wants of one node."""

    amounts: Mapping[str, int | None]
    """By resource; None to offer none of it."""
    is_forgotten: bool = False
    """The node is to have no wish of its own; what is declared holds there again."""
    declarations: tuple[Declaration, ...] = ()
    """What may hold again where a wish is forgotten."""
    is_forced: bool = False
    """Also if it is somebody else's, or in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What became of a wish."""

    node: str
    settlements: tuple[Settlement, ...]
    objections: tuple[str, ...] = ()
    """Why nothing was written."""
    is_written: bool = False
    left_to: Mapping[str, int] = field(default_factory=dict)
    """Forgotten, and otherwise left to whoever keeps what is declared: how much that is."""
    failure: str = ""
    """What the cluster said instead of doing it."""

    @property
    def is_done(self) -> bool:
        return not self.objections and not self.failure


async def change_each(
    writer: Writer,
    reads: Mapping[str, ReadNode],
    used: Callable[[str, str], int],
    wish: Wish,
) -> list[Changed]:
    """Do it on each of these nodes, one after the other; what fails on one stops no other.

    Only a cluster that does not answer is not asked about the nodes that are left.
    """
    changes: list[Changed] = []
    is_away = False
    for name, read in reads.items():
        if is_away:
            changes.append(_failed(name, NOT_TRIED))
            continue
        try:
            changes.append(await change_by_hand(writer, read, used, wish))
        except (ClusterError, ValueError) as error:
            changes.append(_failed(name, str(error)))
            is_away = isinstance(error, UnavailableError)
    return changes


def _failed(name: str, failure: str) -> Changed:
    return Changed(node=name, settlements=(), failure=failure)


async def change_by_hand(
    writer: Writer, read: ReadNode, used: Callable[[str, str], int], wish: Wish
) -> Changed:
    """Do it, unless there is an objection. Raises `ClusterError`.

    A node that changes meanwhile is read again.
    """
    for _ in range(TRIES - 1):
        try:
            return await _change(writer, await read(), used, wish)
        except ConflictError:
            continue
    return await _change(writer, await read(), used, wish)


async def _change(
    writer: Writer,
    seen: Sighting[CapacityNode],
    used: Callable[[str, str], int],
    wish: Wish,
) -> Changed:
    node = seen.item
    left_to = _taking_over(node, wish)
    terms = Terms(
        taken=frozenset(wish.amounts) if wish.is_forced else frozenset(),
        is_cutting=wish.is_forced,
    )
    settlements = tuple(
        settle(node, resource, amount, used=used(node.name, resource), terms=terms)
        for resource, amount in sorted(wish.amounts.items())
        if resource not in left_to
    )
    override = _override(node, wish)
    objections = tuple(_objections(node, settlements, override, wish))
    patch = None
    if not objections:
        patch = node_patch(seen.identity, node, settlements, override=override)
    if patch is not None:
        await writer.patch(NODES, seen.identity.key, patch, subresource=STATUS)
    return Changed(
        node=node.name,
        settlements=settlements,
        objections=objections,
        is_written=patch is not None,
        left_to=left_to,
    )


def _taking_over(node: CapacityNode, wish: Wish) -> dict[str, int]:
    """What declarations say of the resources whose wish is forgotten."""
    if not wish.is_forgotten:
        return {}
    declared = wanted_on(replace(node, override={}, problem=""), wish.declarations)
    return {name: amount for name, amount in declared.items() if name in wish.amounts}


def _override(node: CapacityNode, wish: Wish) -> dict[str, int | None]:
    kept = {name: amount for name, amount in node.override.items() if name not in wish.amounts}
    return kept if wish.is_forgotten else {**kept, **wish.amounts}


def _objections(
    node: CapacityNode,
    settlements: tuple[Settlement, ...],
    override: Mapping[str, int | None],
    wish: Wish,
) -> list[str]:
    found = [] if wish.is_forced or not node.problem else [node.problem]
    if len(override) > RESOURCES_MAX:
        found.append(f"more than {RESOURCES_MAX} resources")
    if not wish.is_forced:
        for each in settlements:
            problem = _objection(each)
            if problem:
                found.append(f"{each.resource}: {problem}")
    return found


def _objection(each: Settlement) -> str:
    if each.verdict is Verdict.ADAPTOR:
        return "cloud-api-adaptor looks after it on this node"
    if each.verdict.is_somebody_elses:
        return f"{each.shown} was set by somebody else"
    if each.is_held or each.is_below_use:
        return f"{each.used} in use"
    return ""
