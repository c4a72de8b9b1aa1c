"""Metrics of the certificates that the leader keeps."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from bursar.adapters.telemetry.certificates.served import seconds_until
from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.app.certificates.keeper import KeeperCounters


def keeper_families(
    counters: KeeperCounters, not_after: Mapping[str, datetime], now: datetime
) -> Iterator[Family]:
    """The certificates that the leader keeps."""
    made = (("ca", counters.authorities), ("serving", counters.pairs))
    return table(
        "bursar_kept_",
        certificate_expires_seconds=(
            Sample(seconds_until(end, now), {"certificate": name})
            for name, end in sorted(not_after.items())
        ),
        certificates_made_total=(
            Sample(count, {"certificate": name, "reason": reason.value})
            for name, counts in made
            for reason, count in counts.items()
        ),
        ca_bundles_written_total=counters.bundles,
    )
