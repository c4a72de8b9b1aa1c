"""Conditions and timestamps of object status."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.wire.structs.fields import timestamp


def with_conditions(
    current: Iterable[Raw], news: Sequence[Raw], now: datetime, *, without: Sequence[str] = ()
) -> list[Raw]:
    """The list with these conditions set. `lastTransitionTime` changes only with the status."""
    held = {condition["type"]: condition for condition in current}
    for condition in news:
        before = held.get(condition["type"], {})
        changed_at = (
            before.get("lastTransitionTime")
            if before.get("status") == condition["status"]
            else timestamp(now)
        )
        held[condition["type"]] = {**condition, "lastTransitionTime": changed_at or timestamp(now)}
    return [condition for kind, condition in held.items() if kind not in without]


def find_condition(raw: Raw, kind: str) -> Raw | None:
    conditions: list[Raw] = (raw.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), None)


def is_true(raw: Raw, kind: str) -> bool:
    return (find_condition(raw, kind) or {}).get("status") == "True"
