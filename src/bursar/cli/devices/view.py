"""Devices as tables and documents."""

from typing import Final

from bursar.app.devices.reports.report import IdleDevice, ReportLine
from bursar.cli.output.listing import Column, Row
from bursar.core.devices.inventory import Device

COLUMNS: Final = (
    *(Column("NODE"), Column("NAMESPACE"), Column("POD"), Column("CONTAINER", is_wide=True)),
    *(Column("RESOURCE"), Column("DEVICE"), Column("NUMA", is_wide=True)),
    *(Column("SHARE", is_wide=True), Column("SOURCE", is_wide=True)),
    Column("HEALTH", is_wide=True),
    *(Column("VENDOR", is_wide=True), Column("MODEL", is_wide=True), Column("NOTE")),
)
IDLE_COLUMNS: Final = (
    *(Column("NODE"), Column("RESOURCE"), Column("DEVICE"), Column("NUMA")),
    *(Column("PART OF", is_wide=True), Column("VENDOR", is_wide=True)),
    Column("MODEL", is_wide=True),
)
NOTHING: Final = "-"
A_PART: Final = "part"
"""A share of unknown size."""


def line_row(line: ReportLine) -> Row:
    """A device of a pod, under `COLUMNS`."""
    row = line.row
    cells = (
        *(row.node, row.namespace, row.pod, row.container, row.resource, row.device),
        *(_number(row.numa), _share(line), ", ".join(row.sources)),
        *_facts(line.known),
        "; ".join(row.disagreements),
    )
    return Row(
        cells=tuple(cell or NOTHING for cell in cells),
        document=line_as_dict(line),
        name=f"pod/{row.pod}",
    )


def idle_row(idle: IdleDevice) -> Row:
    """A device that no pod holds, under `IDLE_COLUMNS`."""
    known = idle.known
    cells = (
        *(idle.node, idle.resource, idle.device, _number(known.numa)),
        *(_whole(idle), known.vendor, known.model),
    )
    return Row(
        cells=tuple(cell or NOTHING for cell in cells),
        document=idle_as_dict(idle),
        name=f"node/{idle.node}",
    )


def _number(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _share(line: ReportLine) -> str:
    if not line.row.device:
        return NOTHING
    return f"{line.row.share}%" if line.row.share else A_PART


def _facts(known: Device | None) -> tuple[str, ...]:
    if known is None:
        return "", "", ""
    return "healthy" if known.is_healthy else "unhealthy", known.vendor, known.model


def _whole(idle: IdleDevice) -> str:
    return "" if idle.known.id == idle.device else idle.known.id


# ------------------------------------------------------------------ documents


def line_as_dict(line: ReportLine) -> dict[str, object]:
    """One line of the document. `device` is null for a rejected claim, `share` if unknown."""
    row = line.row
    return {
        "node": row.node,
        "namespace": row.namespace,
        "pod": row.pod,
        "container": row.container or None,
        "resource": row.resource or None,
        "device": row.device or None,
        "numa": row.numa,
        "share": row.share or None,
        "sources": list(row.sources),
        "inventory": None if line.known is None else _known_as_dict(line.known),
        "disagreements": list(row.disagreements),
    }


def idle_as_dict(idle: IdleDevice) -> dict[str, object]:
    return {
        "node": idle.node,
        "resource": idle.resource,
        "device": idle.device,
        "numa": idle.known.numa,
        "inventory": _known_as_dict(idle.known),
    }


def _known_as_dict(known: Device) -> dict[str, object]:
    return {
        "kind": known.kind,
        "minor": known.minor,
        "id": known.id,
        "healthy": known.is_healthy,
        "vendor": known.vendor or None,
        "model": known.model or None,
    }
