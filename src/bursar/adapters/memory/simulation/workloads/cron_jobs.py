"""CronJobs: a Job at each time of a schedule.

`@every 20s` is meant for `bursar up`: a real cluster starts at most one Job a minute.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.conditions import is_true
from bursar.adapters.memory.simulation.workloads.effects import (
    Create,
    Delete,
    Effect,
    status_change,
)
from bursar.adapters.memory.simulation.workloads.templates import (
    field,
    is_being_deleted,
    owner_reference,
)
from bursar.app.cluster.kinds import CRON_JOBS, JOBS
from bursar.wire.structs.fields import FieldError, decode_time, timestamp
from bursar.wire.validation.cron_schedule import schedule_error

_SUCCESSES_KEPT: Final = 3
_FAILURES_KEPT: Final = 1
_YEARS_AHEAD: Final = 5
_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS: Final = {"h": 3600, "m": 60, "s": 1}
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_DAYS: Final = "sun mon tue wed thu fri sat"
_NAMES: Final = {
    **{name: number for number, name in enumerate(_MONTHS.split(), 1)},
    **{name: number for number, name in enumerate(_DAYS.split())},
}
_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def decide_cron_job(owner: Raw, jobs: Sequence[Raw], now: datetime) -> list[Effect]:
    """The Job that is due, Jobs beyond the history, and the status."""
    active = [job for job in jobs if not _is_finished(job) and not is_being_deleted(job)]
    effects: list[Effect] = [*_beyond_history(owner, jobs)]
    status: Raw = {"active": [_job_reference(job) for job in active]}
    due = due_time(owner, now)
    if due is not None and due <= now:
        policy = field(owner, "spec", "concurrencyPolicy", "Allow")
        if policy == "Replace":
            effects += [Delete(resource=JOBS, target=job) for job in active]
        if policy != "Forbid" or not active:
            effects.append(_job(owner, due))
            status["lastScheduleTime"] = timestamp(due)
    return effects + status_change(CRON_JOBS, owner, status)


def due_time(owner: Raw, now: datetime) -> datetime | None:
    """The next time of the schedule, or the last one that was missed; None if there is none."""
    schedule = str(field(owner, "spec", "schedule", ""))
    if field(owner, "spec", "suspend", False) or schedule_error(schedule) is not None:
        return None
    last = field(owner, "status", "lastScheduleTime", None)
    since = last or owner["metadata"].get("creationTimestamp")
    zone = _zone(owner)
    try:
        after = decode_time(since, "status.lastScheduleTime") or now
    except FieldError:
        return None
    if zone is None:
        return None
    due = next_time(schedule, after, zone)
    # Times that passed while nothing ran are made up for by one Job.
    for _ in range(100):
        following = None if due is None else next_time(schedule, due, zone)
        if following is None or following > now:
            return due
        due = following
    return next_time(schedule, now, zone)


def wake_time(owner: Raw, now: datetime) -> datetime | None:
    """The next time at which to look at the CronJob; None if there is none.

    A run that is due and may not start is looked at when a Job ends, or at the next time.
    """
    due, zone = due_time(owner, now), _zone(owner)
    if due is None or zone is None or due > now:
        return due
    return next_time(str(field(owner, "spec", "schedule", "")), now, zone)


def _zone(owner: Raw) -> tzinfo | None:
    try:
        return ZoneInfo(str(field(owner, "spec", "timeZone", "UTC")))
    except (ZoneInfoNotFoundError, ValueError):
        return None


def next_time(schedule: str, after: datetime, zone: tzinfo) -> datetime | None:
    """The first time of a valid schedule after a time; None if there is none for years."""
    if schedule.startswith("@every "):
        seconds = sum(
            int(float(number) * _UNITS[unit])
            for number, unit in re.findall(r"([0-9.]+)(h|m(?!s)|s)", schedule)
        )
        return after.replace(microsecond=0) + timedelta(seconds=max(1, seconds))
    minutes, hours, days, months, weekdays, is_either = _fields(_NICKNAMES.get(schedule, schedule))
    local = after.astimezone(zone).replace(second=0, microsecond=0) + timedelta(minutes=1)
    end = local + timedelta(days=366 * _YEARS_AHEAD)
    while local < end:
        on_day, on_weekday = local.day in days, local.isoweekday() % 7 in weekdays
        is_day = on_day or on_weekday if is_either else on_day and on_weekday
        if local.month not in months or not is_day:
            local = local.replace(hour=0, minute=0) + timedelta(days=1)
        elif local.hour not in hours:
            local = local.replace(minute=0) + timedelta(hours=1)
        elif local.minute not in minutes:
            local += timedelta(minutes=1)
        else:
            return local.astimezone(UTC)
    return None


_Fields = tuple[
    frozenset[int], frozenset[int], frozenset[int], frozenset[int], frozenset[int], bool
]


@lru_cache(maxsize=256)
def _fields(schedule: str) -> _Fields:
    """The values of each field, and whether day and weekday are alternatives."""
    texts = schedule.split()[-len(_LIMITS) :]
    minutes, hours, days, months, weekdays = (
        frozenset(_values(text, least, most))
        for text, (least, most) in zip(texts, _LIMITS, strict=True)
    )
    is_either = not texts[2].startswith(("*", "?")) and not texts[4].startswith(("*", "?"))
    return minutes, hours, days, months, weekdays, is_either


def _values(text: str, least: int, most: int) -> list[int]:
    values: list[int] = []
    for part in filter(None, text.split(",")):
        bounds, _, step = part.partition("/")
        first, _, last = bounds.partition("-")
        if first in {"*", "?"}:
            start, end = least, most
        else:
            start = _number(first)
            end = _number(last) if last else most if step else start
        values += range(start, end + 1, int(step or 1))
    return values


def _number(text: str) -> int:
    named = _NAMES.get(text.lower())
    return int(text) if named is None else named


# ------------------------------------------------------------------ Jobs


def _job(owner: Raw, due: datetime) -> Create:
    template = field(owner, "spec", "jobTemplate", {})
    meta = template.get("metadata") or {}
    # Upstream numbers minutes; a schedule of seconds needs more names than that.
    seconds = int(due.timestamp())
    number = seconds if seconds % 60 else seconds // 60
    namespace = owner["metadata"].get("namespace", "")
    body = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": f"{owner['metadata']['name']}-{number}",
            "namespace": namespace,
            "labels": dict(meta.get("labels") or {}),
            "annotations": {
                **(meta.get("annotations") or {}),
                "batch.kubernetes.io/cronjob-scheduled-timestamp": timestamp(due),
            },
            "ownerReferences": [owner_reference(CRON_JOBS, owner)],
        },
        "spec": template.get("spec") or {},
    }
    return Create(resource=JOBS, namespace=namespace, body=body)


def _job_reference(job: Raw) -> Raw:
    meta = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta["uid"],
    }


def _is_finished(job: Raw) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _beyond_history(owner: Raw, jobs: Sequence[Raw]) -> list[Effect]:
    effects: list[Effect] = []
    for condition, name, default in (
        ("Complete", "successfulJobsHistoryLimit", _SUCCESSES_KEPT),
        ("Failed", "failedJobsHistoryLimit", _FAILURES_KEPT),
    ):
        kept: int = field(owner, "spec", name, default)
        finished = [job for job in jobs if is_true(job, condition) and not is_being_deleted(job)]
        finished.sort(key=lambda job: str(job["metadata"].get("creationTimestamp")))
        surplus = finished[: max(0, len(finished) - kept)]
        effects += [Delete(resource=JOBS, target=job) for job in surplus]
    return effects
