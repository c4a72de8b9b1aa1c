"""Described nodes as a list, for `-o wide|csv|name` and for their order."""

from collections.abc import Callable, Sequence
from typing import Final

from bursar.app.reports.node import Allocation, NodeReport, Share
from bursar.cli.output.listing import NO_VALUE, Column, Listing, Row
from bursar.core.model.names import CPU, MEMORY

COLUMNS: Final = (
    Column("NAME"),
    Column("PODS"),
    Column("CPU"),
    Column("CPU LIMITS"),
    Column("CPU FREE"),
    Column("MEMORY"),
    Column("MEMORY LIMITS"),
    Column("MEMORY FREE"),
    Column("WAITING PODS THAT FIT"),
)
"""CPU and MEMORY are the requests of all pods of the node."""


def listing_of(
    reports: Sequence[NodeReport],
    *,
    text: Callable[[NodeReport], str],
    document: Callable[[NodeReport], object],
) -> Listing:
    return Listing(
        columns=COLUMNS,
        rows=tuple(_row(report, text(report), document(report)) for report in reports),
        nothing="no nodes",
    )


def _row(report: NodeReport, text: str, document: object) -> Row:
    of = {each.resource: each for each in report.allocated}
    fitting = sum(pod.fits for pod in report.waiting)
    return Row(
        cells=(
            report.node.name,
            str(len(report.pods)),
            *_amounts(report, of[CPU]),
            *_amounts(report, of[MEMORY]),
            f"{fitting} of {len(report.waiting)}" if report.waiting else NO_VALUE,
        ),
        document=document,
        name=f"node/{report.node.name}",
        text=text,
    )


def _amounts(report: NodeReport, allocation: Allocation) -> tuple[str, str, str]:
    left = report.free.get(allocation.resource)
    return (
        _share(allocation.requests),
        _share(allocation.limits),
        NO_VALUE if left is None else str(left),
    )


def _share(share: Share) -> str:
    return str(share.amount) if share.percent is None else f"{share.amount} ({share.percent}%)"
