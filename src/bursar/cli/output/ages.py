"""Times and ages as kubectl writes them: RFC 1123 in the reader's zone, and `3d4h`.

Nothing here reads a clock: the caller says what time it is and where.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

ELAPSED_MAX: Final = timedelta(microseconds=(2**63 - 1) // 1000)
"""Where Go's clock arithmetic stops: about 292 years."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_HOURS_PER_DAY: Final = 24
_DAYS_PER_YEAR: Final = 365


def format_time(moment: datetime | None, zone: tzinfo) -> str:
    """Go's RFC1123Z, whatever the locale. A time never set is the first second of year 1, in UTC.

    >>> format_time(datetime(2017, 6, 6, 12, 0, 5, tzinfo=UTC), UTC)
    'Tue, 06 Jun 2017 12:00:05 +0000'
    """
    there = _NEVER if moment is None else _moved(moment, zone)
    offset = there.utcoffset() or timedelta()
    hours, minutes = divmod(abs(offset) // timedelta(minutes=1), 60)
    return (
        f"{_DAYS[there.weekday()]}, {there.day:02d} {_MONTHS[there.month - 1]} {there.year:04d}"
        f" {there.hour:02d}:{there.minute:02d}:{there.second:02d}"
        f" {'-' if offset < timedelta() else '+'}{hours:02d}{minutes:02d}"
    )


def _moved(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:
        # Go would go on to year 0 or 10000, which datetime does not have.
        return moment.astimezone(UTC)


def age(since: datetime | None, now: datetime) -> str:
    """How long ago `since` was; `<unknown>` if it was never set."""
    if since is None or since == _NEVER:
        return UNKNOWN
    return human_duration(now - since)


def human_duration(elapsed: timedelta) -> str:
    """A duration to two or three figures; a second in the future still counts as now.

    >>> human_duration(timedelta(minutes=5, seconds=7)), human_duration(timedelta(days=3, hours=4))
    ('5m7s', '3d4h')
    """
    elapsed = min(elapsed, ELAPSED_MAX)
    if elapsed <= -2 * _SECOND:
        return INVALID
    seconds = max(elapsed // _SECOND, 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _in_days(hours)


def _in_days(hours: int) -> str:
    days, years = hours // _HOURS_PER_DAY, hours // _HOURS_PER_DAY // _DAYS_PER_YEAR
    if days < 8:
        return _two_units(days, "d", hours % _HOURS_PER_DAY, "h")
    if years < 2:
        return f"{days}d"
    if years < 8:
        return _two_units(years, "y", days % _DAYS_PER_YEAR, "d")
    return f"{years}y"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
