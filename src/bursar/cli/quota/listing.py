"""Described quotas as a list, for `-o wide|csv|name` and for their order."""

from collections.abc import Sequence
from typing import Final

from bursar.app.quota.read_model import QuotaReport
from bursar.cli.output.listing import NO_VALUE, Column, Listing, Row
from bursar.cli.quota.document import quota_as_dict
from bursar.cli.quota.layout import described_quota
from bursar.core.quota.quota import QuotaKind

COLUMNS: Final = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("KIND"),
    Column("FULLEST"),
    Column("USED"),
    Column("REMARKS"),
)
"""FULLEST is the highest percentage among the resources; USED has all of them."""
SHORT_KINDS: Final = {
    QuotaKind.NATIVE: "resourcequota",
    QuotaKind.NAMESPACED: "applicationawareresourcequota.aaq.kubevirt.io",
    QuotaKind.CLUSTER: "applicationawareclusterresourcequota.aaq.kubevirt.io",
}


def quota_listing(reports: Sequence[QuotaReport], *, is_described: bool) -> Listing:
    return Listing(
        columns=COLUMNS,
        rows=tuple(_row(report, is_described=is_described) for report in reports),
        nothing="no quotas",
    )


def _row(report: QuotaReport, *, is_described: bool) -> Row:
    key = report.seen.quota.key
    shares = [line.percent for line in report.lines if line.percent is not None]
    return Row(
        cells=(
            key.namespace or NO_VALUE,
            key.name,
            key.kind.value,
            f"{max(shares)}%" if shares else NO_VALUE,
            ", ".join(
                f"{line.resource}={NO_VALUE if line.used is None else line.used}/{line.hard}"
                for line in report.lines
            )
            or NO_VALUE,
            ", ".join(_remarks(report)) or NO_VALUE,
        ),
        document=quota_as_dict(report),
        name=f"{SHORT_KINDS[key.kind]}/{key.name}",
        text=described_quota(report) if is_described else "",
    )


def _remarks(report: QuotaReport) -> list[str]:
    remarks = []
    if any(line.is_over for line in report.lines):
        remarks.append("over the limit")
    if any(line.is_different for line in report.lines):
        remarks.append("status differs")
    if report.uncounted:
        remarks.append("unknown names")
    if report.ungated:
        remarks.append("not gated")
    return remarks
