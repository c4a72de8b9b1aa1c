"""Which counter charges a pod what, and why, for views and messages.

Reasons may hold words of tenants, such as the name of a VM. They are cut here, so that no view has
to; each view still escapes what its medium obeys.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from bursar.core.counting.counters import NATIVE, CountedPart, PendingPart
from bursar.core.model.pod_row import PodRow
from bursar.core.model.resources import ResourceList

REASON_LENGTH_MAX: Final = 200
PARTS_MAX: Final = 5
"""How many counters a text names; the others are only counted."""

Explain: TypeAlias = Callable[[PodRow], Sequence[CountedPart | PendingPart]]
"""`Counters.explain`."""


class ChargePart(NamedTuple):
    """The part of a pod's charge that one counter adds."""

    counter: str
    reason: str
    """Why, or what the counter waits for; at most `REASON_LENGTH_MAX` characters."""
    amounts: ResourceList | None
    """None while the counter cannot tell."""


def charge_parts(explain: Explain, row: PodRow) -> tuple[ChargePart, ...]:
    """What each counter adds to the charge of a pod that has not ended."""
    return tuple(map(_part, explain(row)))


def _part(part: CountedPart | PendingPart) -> ChargePart:
    if isinstance(part, PendingPart):
        return ChargePart(_cut(part.counter), _cut(part.detail), None)
    return ChargePart(_cut(part.counter), _cut(part.reason), part.amounts)


def _cut(text: str) -> str:
    return text if len(text) <= REASON_LENGTH_MAX else text[: REASON_LENGTH_MAX - 3] + "..."


def is_native(parts: Sequence[ChargePart]) -> bool:
    """Whether the pod costs what Kubernetes counts, and nothing else."""
    return all(part.counter == NATIVE for part in parts)


def cost_text(parts: Sequence[ChargePart]) -> str:
    """Counters and their reasons in one line; empty for a pod that is counted natively."""
    if is_native(parts):
        return ""
    listed = [f"{part.counter}: {part.reason}" for part in parts[:PARTS_MAX]]
    rest = len(parts) - len(listed)
    return "; ".join([*listed, *([f"and {rest} more"] if rest else [])])
