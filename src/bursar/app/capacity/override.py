"""Overrides: capacity that a user sets on nodes with `bursar capacity set` and `unset`.

The decision is the capacity controller's own, and is written at once. The override is also
written on the node as an annotation, so that a running controller agrees with it and restores
the amount if it is wiped. If an override is removed and a declaration applies to the node, the
amount is left to the controller, which changes it without a gap.
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
    CapacityAction,
    CapacityNode,
    Declaration,
    Settlement,
    SettleRules,
    settle,
    wanted_on,
)

ATTEMPTS_MAX: Final = 5
NOT_TRIED: Final = "not tried, as the cluster does not answer"

ReadNode = Callable[[], Awaitable[Sighting[CapacityNode]]]
Used = Callable[[str, str], int]
"""How much the pods on a node request of a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideRequest:
    """What a user wants of a node."""

    amounts: Mapping[str, int | None]
    """By resource; None to offer none of it."""
    is_removal: bool = False
    """Remove the override of these resources, so that declarations apply again."""
    declarations: tuple[Declaration, ...] = ()
    """The declarations that may apply again after a removal."""
    is_forced: bool = False
    """Write even if the amount is in use or was set by another component."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideResult:
    """What was done on one node."""

    node: str
    settlements: tuple[Settlement, ...]
    objections: tuple[str, ...] = ()
    """Why nothing was written."""
    is_written: bool = False
    declared: Mapping[str, int] = field(default_factory=dict)
    """By resource whose override was removed: the declared amount that applies again."""
    failure: str = ""
    """The cluster's error, if the write failed."""

    @property
    def is_done(self) -> bool:
        return not self.objections and not self.failure


async def override_nodes(
    writer: Writer, reads: Mapping[str, ReadNode], used: Used, request: OverrideRequest
) -> list[OverrideResult]:
    """Apply a request to each of these nodes, one after the other.

    A failure on one node does not stop the others, unless the cluster does not answer.
    """
    results: list[OverrideResult] = []
    is_unavailable = False
    for name, read in reads.items():
        if is_unavailable:
            results.append(_failed(name, NOT_TRIED))
            continue
        try:
            results.append(await override_node(writer, read, used, request))
        except (ClusterError, ValueError) as error:
            results.append(_failed(name, str(error)))
            is_unavailable = isinstance(error, UnavailableError)
    return results


def _failed(name: str, failure: str) -> OverrideResult:
    return OverrideResult(node=name, settlements=(), failure=failure)


async def override_node(
    writer: Writer, read: ReadNode, used: Used, request: OverrideRequest
) -> OverrideResult:
    """Apply a request to one node, unless there is an objection. Raises `ClusterError`.

    If the node changes meanwhile, it is read again and the write is retried.
    """
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await _override(writer, await read(), used, request)
        except ConflictError:
            continue
    return await _override(writer, await read(), used, request)


async def _override(
    writer: Writer, seen: Sighting[CapacityNode], used: Used, request: OverrideRequest
) -> OverrideResult:
    node = seen.item
    declared = _declared_again(node, request)
    rules = SettleRules(
        taken=frozenset(request.amounts) if request.is_forced else frozenset(),
        is_cutting=request.is_forced,
    )
    settlements = tuple(
        settle(node, resource, amount, used=used(node.name, resource), rules=rules)
        for resource, amount in sorted(request.amounts.items())
        if resource not in declared
    )
    override = _override_after(node, request)
    objections = tuple(_objections(node, settlements, override, request))
    patch = None
    if not objections:
        patch = node_patch(seen.identity, node, settlements, override=override)
    if patch is not None:
        await writer.patch(NODES, seen.identity.key, patch, subresource=STATUS)
    return OverrideResult(
        node=node.name,
        settlements=settlements,
        objections=objections,
        is_written=patch is not None,
        declared=declared,
    )


def _declared_again(node: CapacityNode, request: OverrideRequest) -> dict[str, int]:
    """The declared amounts of the resources whose override is removed."""
    if not request.is_removal:
        return {}
    declared = wanted_on(replace(node, override={}, problem=""), request.declarations)
    return {name: amount for name, amount in declared.items() if name in request.amounts}


def _override_after(node: CapacityNode, request: OverrideRequest) -> dict[str, int | None]:
    kept = {name: amount for name, amount in node.override.items() if name not in request.amounts}
    return kept if request.is_removal else {**kept, **request.amounts}


def _objections(
    node: CapacityNode,
    settlements: tuple[Settlement, ...],
    override: Mapping[str, int | None],
    request: OverrideRequest,
) -> list[str]:
    found = [] if request.is_forced or not node.problem else [node.problem]
    if len(override) > RESOURCES_MAX:
        found.append(f"more than {RESOURCES_MAX} resources")
    if not request.is_forced:
        for each in settlements:
            problem = _objection(each)
            if problem:
                found.append(f"{each.resource}: {problem}")
    return found


def _objection(each: Settlement) -> str:
    if each.action is CapacityAction.ADAPTOR:
        return "cloud-api-adaptor sets it on this node"
    if each.action.is_of_another_owner:
        return f"{each.shown} was set by another client"
    if each.is_held or each.is_below_use:
        return f"{each.used} in use"
    return ""
