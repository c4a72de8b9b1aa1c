"""Moments as Leases and Events write them: UTC, always with six digits after the point."""

from datetime import UTC, datetime


def format_micro_time(moment: datetime) -> str:
    """Text that an API server stores and returns unchanged.

    >>> format_micro_time(datetime(2026, 11, 15, 9, 30, tzinfo=UTC))
    '2026-11-15T09:30:00.000000Z'
    """
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
