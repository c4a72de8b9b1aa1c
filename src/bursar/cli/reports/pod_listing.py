"""Described pods as a list, for `-o wide|csv|name` and for their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bursar.app.reports.pod import PodReport
from bursar.app.reports.replicas import ReplicasReport
from bursar.cli.output.listing import NO_VALUE, Column, Listing, Row
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.provenance import Decision

COLUMNS: Final = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("KIND"),
    Column("QOS"),
    Column("CPU"),
    Column("CPU LIMIT"),
    Column("MEMORY"),
    Column("MEMORY LIMIT"),
    Column("OTHERS"),
    Column("PODS"),
    Column("NODE"),
    Column("VALID"),
)
"""CPU and MEMORY are requests of one pod; PODS is how many there are, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A pod with what is printed of it."""

    report: PodReport
    replicas: ReplicasReport | None
    kind: str
    document: object
    text: str


def listing_of(described: Sequence[Described]) -> Listing:
    return Listing(columns=COLUMNS, rows=tuple(map(_row, described)), nothing="no pods")


def _row(described: Described) -> Row:
    report = described.report
    pod = report.pod
    return Row(
        cells=(
            pod.namespace,
            pod.name,
            described.kind,
            report.qos.qos.value,
            _amount(report.requests, CPU),
            _amount(report.limits, CPU),
            _amount(report.requests, MEMORY),
            _amount(report.limits, MEMORY),
            _others(report.requests),
            _count(described.replicas),
            pod.node_name or NO_VALUE,
            "yes" if report.is_valid else "no",
        ),
        document=described.document,
        name=f"{described.kind.lower()}/{pod.name}",
        text=described.text,
    )


def _amount(decisions: Mapping[str, Decision], name: str) -> str:
    return str(decisions[name].amount) if name in decisions else NO_VALUE


def _others(requests: Mapping[str, Decision]) -> str:
    others = sorted(requests.keys() - {CPU, MEMORY})
    return ",".join(f"{name}={requests[name].amount}" for name in others) or NO_VALUE


def _count(replicas: ReplicasReport | None) -> str:
    if replicas is None:
        return "1"
    return str(max(total.count for total in replicas.totals)) if replicas.totals else NO_VALUE
