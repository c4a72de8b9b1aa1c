"""Conditions and times, as objects carry them in their status."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from bursar.adapters.memory.simulation.cluster import Raw


def time_text(moment: datetime) -> str:
    """Whole seconds, as the API stores them.

    >>> time_text(datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time_text(moment: datetime) -> str:
    """Events carry the microsecond.

    >>> micro_time_text(datetime(2026, 1, 2, tzinfo=UTC))
    '2026-01-02T00:00:00.000000Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def with_conditions(
    current: Iterable[Raw], news: Sequence[Raw], now: datetime, *, without: Sequence[str] = ()
) -> list[Raw]:
    """The list with these conditions in it; the time of transition moves only with the status."""
    held = {condition["type"]: condition for condition in current}
    for condition in news:
        before = held.get(condition["type"], {})
        moment = (
            before.get("lastTransitionTime")
            if before.get("status") == condition["status"]
            else time_text(now)
        )
        held[condition["type"]] = {**condition, "lastTransitionTime": moment or time_text(now)}
    return [condition for kind, condition in held.items() if kind not in without]


def find_condition(raw: Raw, kind: str) -> Raw | None:
    conditions: list[Raw] = (raw.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), None)
