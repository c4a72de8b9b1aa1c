"""Described quotas as a list, for `-o wide|csv|name` and for their order.

In CSV, each resource of a quota has a row.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from bursar.app.quota.views.read_model import QuotaReport, ResourceLine
from bursar.cli.output.formats import amount_or_dash
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
RESOURCE_COLUMNS: Final = (
    *(Column("NAMESPACE"), Column("NAME"), Column("KIND"), Column("FULLEST"), Column("RESOURCE")),
    *(Column("USED"), Column("HARD"), Column("PERCENT"), Column("REPORTED"), Column("REMARKS")),
)
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


def resource_listing(reports: Sequence[QuotaReport]) -> Listing:
    """A row for each resource of each quota, as programs that read CSV need it."""
    return Listing(
        columns=RESOURCE_COLUMNS,
        rows=tuple(row for report in reports for row in _resource_rows(report)),
    )


def _resource_rows(report: QuotaReport) -> Iterator[Row]:
    key = report.seen.quota.key
    whole = ["not gated"] if report.ungated else []
    first = (key.namespace or NO_VALUE, key.name, key.kind.value, _fullest(report))
    name = f"{SHORT_KINDS[key.kind]}/{key.name}"
    for line in report.lines:
        cells = (
            *(*first, line.resource, amount_or_dash(line.used), str(line.hard)),
            NO_VALUE if line.percent is None else f"{line.percent}%",
            amount_or_dash(line.reported),
            ", ".join([*_line_remarks(line), *whole]) or NO_VALUE,
        )
        yield Row(cells=cells, document=None, name=name)
    if not report.lines:
        # A quota that limits nothing is a quota still.
        rest = [NO_VALUE] * (len(RESOURCE_COLUMNS) - len(first) - 1)
        yield Row(cells=(*first, *rest, ", ".join(whole) or NO_VALUE), document=None, name=name)


def _line_remarks(line: ResourceLine) -> list[str]:
    remarks = {
        "over the limit": line.is_over,
        "status differs": line.is_different,
        "unknown name": line.is_uncounted,
    }
    return [remark for remark, is_true in remarks.items() if is_true]


def _row(report: QuotaReport, *, is_described: bool) -> Row:
    key = report.seen.quota.key
    return Row(
        cells=(
            key.namespace or NO_VALUE,
            key.name,
            key.kind.value,
            _fullest(report),
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


def _fullest(report: QuotaReport) -> str:
    shares = [line.percent for line in report.lines if line.percent is not None]
    return f"{max(shares)}%" if shares else NO_VALUE


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
