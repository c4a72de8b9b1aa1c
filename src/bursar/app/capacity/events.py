"""Events on nodes about their capacity, from a closed list of reasons."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.core.peerpods.capacity import CapacityAction, CapacityNode, Settlement

ACTION: Final = "KeepCapacity"


class CapacityReason(Enum):
    """The reason of an event on a node."""

    HEALED = "CapacityHealed"
    """An amount that we set was wiped or changed, and has been restored."""
    HELD = "CapacityHeld"
    """The amount is lowered only as far as pods allow; the rest follows when they end."""
    BELOW_USE = "CapacityBelowUse"
    """The amount was withdrawn while pods use it."""
    FOREIGN = "CapacityForeign"
    """Another amount is wanted, but another component has set the one that is there."""
    CONTESTED = "CapacityContested"
    """The amount was changed again and again, and is left alone for a while."""
    UNREADABLE = "CapacityUnreadable"
    """The override annotation of the node cannot be read."""

    @property
    def type(self) -> EventType:
        return EventType.NORMAL if self is CapacityReason.HEALED else EventType.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityEvent:
    node: str
    uid: str
    reason: CapacityReason
    note: str


def events_of(
    node: CapacityNode, uid: str, settlements: tuple[Settlement, ...]
) -> Iterator[CapacityEvent]:
    """The events that follow from a reconcile of a node."""
    if node.problem:
        yield CapacityEvent(
            node=node.name, uid=uid, reason=CapacityReason.UNREADABLE, note=node.problem
        )
    for each in settlements:
        reason = _reason(each)
        if reason is not None:
            note = f"{each.resource}: {_note(each, reason)}"
            yield CapacityEvent(node=node.name, uid=uid, reason=reason, note=note)


def _reason(each: Settlement) -> CapacityReason | None:
    if each.action is CapacityAction.CONTESTED:
        return CapacityReason.CONTESTED
    if each.action.is_of_another_owner:
        is_same = each.wanted in {None, each.shown}
        return None if is_same else CapacityReason.FOREIGN
    if each.action is CapacityAction.WITHDRAW:
        return CapacityReason.BELOW_USE if each.is_below_use else None
    if each.is_held:
        return CapacityReason.HELD
    return CapacityReason.HEALED if each.is_healing else None


def _note(each: Settlement, reason: CapacityReason) -> str:
    shown = "none" if each.shown is None else str(each.shown)
    match reason:
        case CapacityReason.HELD:
            return f"lowered to {each.amount}, not to {each.wanted}: {each.used} in use"
        case CapacityReason.BELOW_USE:
            return f"withdrawn while {each.used} are in use"
        case CapacityReason.CONTESTED:
            return f"wanted {each.wanted}, found {shown} again and again; left alone for a while"
        case CapacityReason.FOREIGN:
            return f"wanted {each.wanted}, but {shown} was set by another client; left alone"
        case _:
            return f"found {shown}, set to {each.amount} again"


def record_event(recorder: EventRecorder[CapacityReason], event: CapacityEvent) -> None:
    recorder.record(
        ObjectReference(api_version="v1", kind="Node", name=event.node, uid=event.uid),
        event.reason,
        event.note,
        action=ACTION,
        type=event.reason.type,
    )
