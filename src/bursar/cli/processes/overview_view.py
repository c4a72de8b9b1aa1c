"""The cluster at a glance, drawn: for a live terminal, as plain lines, and as a document."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from bursar.app.counting.uncounted import what_would_count
from bursar.app.quota.read_model import QuotaLine
from bursar.app.reports.overview import Load, NodeLine, Overview, PodState, WaitingLine
from bursar.cli.output.formats import printable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

BAR_CELLS: Final = 10
WAITING_SHOWN_MAX: Final = 10
NODES_SHOWN_MAX: Final = 20
QUOTAS_SHOWN_MAX: Final = 10

Document: TypeAlias = dict[str, object]


def as_dict(overview: Overview) -> Document:
    """The state as plain data; quantities are their text."""
    return {
        "nodes": [_node(node) for node in overview.nodes],
        "pods": {state.value: overview.counts.get(state, 0) for state in PodState},
        "waiting": [
            {
                "namespace": line.namespace,
                "name": line.name,
                "state": line.state.value,
                "reason": line.reason,
                "priority": line.priority,
            }
            for line in overview.waiting
        ],
        "quotas": [_quota(line) for line in overview.quotas],
        "full": [{"node": node, "resource": resource} for node, resource in overview.full],
    }


def _node(node: NodeLine) -> Document:
    return {
        "name": node.name,
        "ready": node.is_ready,
        "cordoned": node.is_cordoned,
        "pods": node.pod_count,
        "resources": {
            load.resource: {
                "requested": str(load.requested),
                "allocatable": str(load.allocatable),
                "percent": load.percent,
            }
            for load in node.loads
        },
    }


def _quota(line: QuotaLine) -> Document:
    return {
        "kind": line.key.kind.value,
        "namespace": line.key.namespace,
        "name": line.key.name,
        "hard": {name: str(amount) for name, amount in line.hard.items()},
        "used": {name: str(amount) for name, amount in line.used.items()},
        "notCounted": [
            {"resource": name, "message": what_would_count(name)} for name in line.uncounted
        ],
    }


def summary(overview: Overview) -> str:
    """One line: how many pods are in which state."""
    told = [
        f"{overview.counts[state]} {state.value}"
        for state in PodState
        if overview.counts.get(state)
    ]
    return ", ".join(told) or "no pods"


def drawn(overview: Overview, title: str) -> "Group":
    """The whole view for a terminal."""
    from rich.console import Group  # noqa: PLC0415 - rich is slow to import
    from rich.text import Text  # noqa: PLC0415

    full = ", ".join(f"{printable(node)} {resource}" for node, resource in overview.full)
    parts: list[Text | Table] = [
        Text(title, style="bold"),
        Text(f"Pods: {summary(overview)}"),
        _node_table(overview.nodes),
        Text(f"Full: {full or 'nothing'}", style="red" if full else ""),
    ]
    if overview.quotas:
        parts.append(_quota_table(overview.quotas))
    if overview.waiting:
        parts.append(_waiting_table(overview.waiting))
    return Group(*parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """Only the last column gives way where the terminal is narrow."""
    from rich.table import Table  # noqa: PLC0415 - rich is slow to import
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for position, column in enumerate(columns):
        widest = max((len(row[position]) for row in rows if position < len(row)), default=0)
        is_last = position == len(columns) - 1
        least = None if is_last else max(widest, len(column))
        table.add_column(column, overflow="ellipsis", no_wrap=True, min_width=least)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _node_table(nodes: Sequence[NodeLine]) -> "Table":
    resources = list(dict.fromkeys(load.resource for node in nodes for load in node.loads))
    rows = []
    for node in nodes[:NODES_SHOWN_MAX]:
        loads = {load.resource: load for load in node.loads}
        ready = ("yes" if node.is_ready else "no") + (", cordoned" if node.is_cordoned else "")
        cells = [_bar(loads[name]) if name in loads else "-" for name in resources]
        rows.append([node.name, ready, *cells])
    return _table(
        ["NODE", "READY", *(resource.upper() for resource in resources)],
        rows + _rest(len(nodes), NODES_SHOWN_MAX),
    )


def _quota_table(quotas: Sequence[QuotaLine]) -> "Table":
    rows = [
        [f"{line.key.namespace}/{line.key.name}".lstrip("/"), _used(line)]
        for line in quotas[:QUOTAS_SHOWN_MAX]
    ]
    return _table(["QUOTA", "USED/HARD"], rows + _rest(len(quotas), QUOTAS_SHOWN_MAX))


def _used(line: QuotaLine) -> str:
    return line.summary + "".join(f"; not counted: {name}" for name in line.uncounted)


def _waiting_table(waiting: Sequence[WaitingLine]) -> "Table":
    rows = [[f"{line.namespace}/{line.name}", line.reason] for line in waiting[:WAITING_SHOWN_MAX]]
    return _table(["WAITING", "REASON"], rows + _rest(len(waiting), WAITING_SHOWN_MAX))


def _rest(count: int, shown: int) -> list[list[str]]:
    return [[f"... and {count - shown} more"]] if count > shown else []


def _bar(load: Load) -> str:
    filled = min(BAR_CELLS, max(0, load.percent * BAR_CELLS // 100))
    return f"{'█' * filled}{'░' * (BAR_CELLS - filled)} {load.percent:3d}%"
