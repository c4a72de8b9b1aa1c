"""Metrics of certificates."""

from datetime import UTC, datetime, timedelta

from bursar.adapters.telemetry.certificates.kept import keeper_families
from bursar.adapters.telemetry.certificates.served import ServedCertificate, served_families
from bursar.adapters.telemetry.exposition import exposition
from bursar.app.certificates.keeper import KeeperCounters
from bursar.core.certificates.decision import Reason

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def lines(families) -> list[str]:
    text = exposition(families).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_served_certificate():
    served = ServedCertificate(not_after=NOW + timedelta(hours=1), loads=3, invalid=2)

    assert lines(served_families(served, NOW)) == [
        "bursar_serving_certificate_expires_seconds 3600",
        "bursar_serving_certificate_loads_total 3",
        "bursar_serving_certificate_invalid_total 2",
    ]


def test_without_a_certificate_no_expiry_is_shown():
    served = ServedCertificate(not_after=None, loads=0, invalid=0)

    assert lines(served_families(served, NOW))[0] == "bursar_serving_certificate_loads_total 0"


def test_what_the_leader_keeps():
    counters = KeeperCounters()
    counters.authorities[Reason.MISSING] += 1
    counters.pairs[Reason.NEW_CA] += 2
    counters.bundles = 4
    ends = {"serving": NOW - timedelta(seconds=5), "ca": NOW + timedelta(days=1)}

    assert lines(keeper_families(counters, ends, NOW)) == [
        'bursar_kept_certificate_expires_seconds{certificate="ca"} 86400',
        'bursar_kept_certificate_expires_seconds{certificate="serving"} -5',
        'bursar_kept_certificates_made_total{certificate="ca",reason="Missing"} 1',
        'bursar_kept_certificates_made_total{certificate="serving",reason="NewCa"} 2',
        "bursar_kept_ca_bundles_written_total 4",
    ]
