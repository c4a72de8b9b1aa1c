"""The MicroTime of Leases and Events: UTC, with six digits after the decimal point."""

from datetime import UTC, datetime


def format_micro_time(time: datetime) -> str:
    """A time in the form that an API server stores unchanged.

    >>> format_micro_time(datetime(2026, 11, 15, 9, 30, tzinfo=UTC))
    '2026-11-15T09:30:00.000000Z'
    """
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
