"""Metrics of the certificate that a process serves: its end, and how often it changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from bursar.adapters.telemetry.exposition import Family, Sample, table


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCertificate:
    """What metrics read of the certificate that a process serves."""

    not_after: datetime | None
    loads: int
    invalid: int


def served_families(certificate: ServedCertificate, now: datetime) -> Iterator[Family]:
    """The certificate of this process."""
    end = certificate.not_after
    return table(
        "bursar_",
        serving_certificate_expires_seconds=()
        if end is None
        else (Sample(seconds_until(end, now)),),
        serving_certificate_loads_total=certificate.loads,
        serving_certificate_invalid_total=certificate.invalid,
    )


def seconds_until(end: datetime, now: datetime) -> int:
    return int((end - now).total_seconds())
