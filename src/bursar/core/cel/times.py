"""Timestamps and durations: their texts, and what a calendar says of them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from bursar.core.cel.errors import EvalError
from bursar.core.cel.values import Duration, Timestamp

NANOS: Final = 10**9
_MIN_S: Final = -62135596800
"""0001-01-01T00:00:00Z."""
_MAX_S: Final = 253402300799
"""9999-12-31T23:59:59Z."""
_DURATION_MAX: Final = 2**63 - 1
"""Go's largest duration: 292 years in nanoseconds."""

ZoneOffset: TypeAlias = Callable[[str, int], int | None]
"""Seconds that a named time zone is ahead of UTC at a time in seconds since 1970.

None if there is no such zone.
"""


_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_of(text: str) -> Timestamp:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise EvalError(f"invalid timestamp {text[:40]!a}")
    year, month, day, hour, minute, second = (int(each) for each in match.groups()[:6])
    try:
        time = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise EvalError(f"invalid timestamp {text[:40]!a}") from None
    seconds = (time - _EPOCH) // timedelta(seconds=1)
    if match[8]:
        ahead = int(match[9]) * 3600 + int(match[10]) * 60
        seconds -= ahead if match[8] == "+" else -ahead
    return in_range(Timestamp(seconds * NANOS + int((match[7] or "").ljust(9, "0"))))


def in_range(time: Timestamp) -> Timestamp:
    if _MIN_S <= time.nanos // NANOS <= _MAX_S:
        return time
    raise EvalError("timestamp overflow")


def timestamp_text(time: Timestamp) -> str:
    whole, fraction = divmod(time.nanos, NANOS)
    date = _EPOCH + timedelta(seconds=whole)
    rest = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{date.strftime('%Y').zfill(4)}{date.strftime('-%m-%dT%H:%M:%S')}{rest}Z"


_UNITS: Final = {
    "h": 3600 * NANOS, "m": 60 * NANOS, "s": NANOS, "ms": 10**6, "us": 10**3, "ns": 1,
    "\N{MICRO SIGN}s": 10**3, "\N{GREEK SMALL LETTER MU}s": 10**3,
}  # fmt: skip
_PART: Final = re.compile(
    r"(?P<whole>[0-9]*)(?P<dot>\.(?P<part>[0-9]*))?(?P<unit>h|ms|us|ns|m|s|\u00b5s|\u03bcs)"
)
_DURATION_TEXT_MAX: Final = 100


def duration_of(text: str) -> Duration:
    """Read a duration as Go does: "1h30m", "-1.5s"."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0)
    nanos, at = 0, 0
    while 0 <= at < len(body) <= _DURATION_TEXT_MAX:
        match = _PART.match(body, at)
        if match is None or not (match["whole"] or match["part"]):
            at = -1
            break
        unit = _UNITS[match["unit"]]
        part = match["part"] or ""
        nanos += int(match["whole"] or 0) * unit + int(part or 0) * unit // 10 ** len(part)
        at = match.end()
    if at != len(body) or not body:
        raise EvalError(f"invalid duration {text[:40]!a}")
    return bounded(-nanos if text.startswith("-") else nanos)


def bounded(nanos: int) -> Duration:
    if abs(nanos) > _DURATION_MAX:
        raise EvalError("duration overflow")
    return Duration(nanos)


def duration_text(duration: Duration) -> str:
    """The duration in seconds, as Go's protobuf writes it: `5400s`."""
    whole, fraction = divmod(abs(duration.nanos), NANOS)
    sign = "-" if duration.nanos < 0 else ""
    rest = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{sign}{whole}{rest}s"


# ------------------------------------------------------------------ the calendar

_FIXED: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def offset_s(zone: str, at_s: int, named: ZoneOffset) -> int:
    """Seconds that a zone, given by its name or as "-08:00", is ahead of UTC."""
    fixed = _FIXED.fullmatch(zone)
    if fixed is not None:
        ahead = int(fixed[2]) * 3600 + int(fixed[3]) * 60
        return -ahead if fixed[1] == "-" else ahead
    found = named(zone, at_s)
    if found is None:
        raise EvalError(f"unknown time zone {zone[:40]!a}")
    return found


_SUNDAY_FIRST: Final = 7


def calendar_field(name: str, time: Timestamp, ahead_s: int) -> int:
    """What `getHours` and the like return."""
    seconds = time.nanos // NANOS + ahead_s
    if not _MIN_S <= seconds <= _MAX_S:
        raise EvalError("timestamp overflow")
    date = _EPOCH + timedelta(seconds=seconds)
    fields = {
        "getFullYear": date.year,
        "getMonth": date.month - 1,
        "getDate": date.day,
        "getDayOfMonth": date.day - 1,
        "getDayOfWeek": date.isoweekday() % _SUNDAY_FIRST,
        "getDayOfYear": date.timetuple().tm_yday - 1,
        "getHours": date.hour,
        "getMinutes": date.minute,
        "getSeconds": date.second,
        "getMilliseconds": time.nanos % NANOS // 10**6,
    }
    return fields[name]


DURATION_UNITS: Final = {
    "getHours": 3600 * NANOS,
    "getMinutes": 60 * NANOS,
    "getSeconds": NANOS,
    "getMilliseconds": 10**6,
}


def duration_field(name: str, duration: Duration) -> int:
    whole = abs(duration.nanos) // DURATION_UNITS[name]
    return -whole if duration.nanos < 0 else whole
