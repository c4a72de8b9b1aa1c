"""The status report of a webhook: reviews by result, and whether pods are gated."""

from collections.abc import Mapping
from datetime import datetime

from bursar.adapters.serving.status_page import Report
from bursar.adapters.telemetry.certificates.served import ServedCertificate, seconds_until
from bursar.adapters.telemetry.status.process import process_section


def webhook_status(
    reviews: Mapping[str, int],
    peer_pods: Mapping[str, int],
    certificate: ServedCertificate,
    *,
    is_gating: bool,
    now: datetime,
    uptime_s: float,
) -> Report:
    end = certificate.not_after
    return {
        "process": process_section(uptime_s),
        "gating": {"active": is_gating},
        "reviews": dict(reviews),
        "peer_pods": dict(peer_pods),
        "certificate": {
            "expires_seconds": None if end is None else seconds_until(end, now),
            "loads": certificate.loads,
            "invalid": certificate.invalid,
        },
    }
