"""Options of the leader election, for processes of which one replica works."""

from collections.abc import Mapping
from typing import Final

import click

from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from bursar.cli import options

election_options: Final = options.together(
    options.duration(
        "--lease-duration",
        f"{DEFAULT_TIMING.lease_seconds}s",
        "How long other replicas wait for a renewal before they take the Lease.",
    ),
    options.duration(
        "--renew-deadline",
        f"{DEFAULT_TIMING.deadline_seconds:g}s",
        "How long a leader works without a successful renewal.",
    ),
    options.duration(
        "--retry-period",
        f"{DEFAULT_TIMING.retry_seconds:g}s",
        "Time between two tries to acquire or renew the Lease.",
    ),
)


def timing_from(chosen: Mapping[str, float]) -> Timing:
    """The timing of the options. Raises `click.UsageError`."""
    lease = chosen["lease_duration"]
    if lease != int(lease) or lease < 1:
        raise click.UsageError("--lease-duration: whole seconds are expected")
    try:
        return Timing(
            lease_seconds=int(lease),
            deadline_seconds=chosen["renew_deadline"],
            retry_seconds=chosen["retry_period"],
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
