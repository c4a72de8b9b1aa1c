"""The panes of `bursar up` as tables of text: columns, rows, how each row is sorted and coloured.

Nothing here knows a terminal. A table has all rows; a pane draws only those that are visible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum
from typing import Final, TypeAlias

from bursar.app.quota.views.read_model import QuotaLine
from bursar.app.reports.overview import (
    EventLine,
    Full,
    Load,
    NodeLine,
    Overview,
    PodState,
    WaitingLine,
    quota_percent,
)
from bursar.cli.output.formats import printable
from bursar.core.model.admission.limit_range import LimitRange, LimitRangeItem
from bursar.core.model.names import EPHEMERAL_STORAGE, PODS
from bursar.core.model.quantity import ZERO
from bursar.core.quota.quota import QuotaKey

HIGH_PERCENT: Final = 75
FULL_PERCENT: Final = 90
BAR_CELLS: Final = 10
ABSENT: Final = "-"


class Pane(Enum):
    """The panes, from top to bottom."""

    NODES = "NODES"
    QUOTAS = "QUOTAS"
    WAITING = "WAITING"
    EVENTS = "EVENTS"


class Tone(Enum):
    """What a cell says by its colour. Nothing is said by colour alone."""

    PLAIN = ""
    QUIET = "quiet"
    GOOD = "good"
    HIGH = "high"
    FULL = "full"


SortKey: TypeAlias = tuple[int, int, str]
"""Numbers sort before texts; a missing value sorts last."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = Tone.PLAIN
    rank: SortKey | None = None
    """How the cell sorts; None: as its text."""
    bar: int | None = None
    """A percentage, drawn as a bar before the text if there is space."""

    @property
    def sort_key(self) -> SortKey:
        return self.rank or (1, 0, self.text)


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    is_number: bool = False
    """Aligned to the right."""
    has_bar: bool = False
    is_flexible: bool = False
    """Takes the width that is left, and gives way first."""


RowKey: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    key: RowKey
    """Identifies the row among those of its table, from one refresh to the next."""
    cells: tuple[Cell, ...]
    detail: str
    """The whole text of the row, in one line."""

    def matches(self, wanted: str) -> bool:
        """Whether a part of the row contains the text, which is in lower case."""
        return wanted in self.detail.lower() or any(wanted in c.text.lower() for c in self.cells)


@dataclass(frozen=True, slots=True)
class Table:
    pane: Pane
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    empty: str = ""
    """What the pane says if there are no rows."""


def tables_of(overview: Overview, zone: tzinfo | None = None) -> dict[Pane, Table]:
    """All panes, with times in a time zone; None is the local one."""
    return {
        Pane.NODES: _nodes(overview.nodes),
        Pane.QUOTAS: _quotas(overview),
        Pane.WAITING: _waiting(overview.waiting),
        Pane.EVENTS: _events(overview.events, zone),
    }


def selected(table: Table, wanted: str, sort: int | None, *, is_reversed: bool) -> list[Row]:
    """The rows that contain a text, sorted by a column; None keeps the order of the table."""
    text = wanted.lower()
    rows = [row for row in table.rows if row.matches(text)] if text else list(table.rows)
    if sort is not None:
        rows.sort(key=lambda row: row.cells[sort].sort_key, reverse=is_reversed)
    elif is_reversed:
        rows.reverse()
    return rows


# ------------------------------------------------------------------ the head


def pods_text(overview: Overview) -> str:
    """How many pods are in which state: `3 gated, 12 running`."""
    told = [
        f"{overview.counts[state]:,} {state.value}"
        for state in PodState
        if overview.counts.get(state)
    ]
    return ", ".join(told) or "no pods"


def full_texts(full: Sequence[Full]) -> list[str]:
    """What is full, quotas before nodes, one text for each node or quota."""
    by_owner: dict[str, list[str]] = {}
    for each in sorted(full, key=lambda one: one.quota is None):
        owner = each.node if each.quota is None else quota_name(each.quota)
        by_owner.setdefault(printable(owner), []).append(printable(each.resource))
    return [f"{owner} {', '.join(resources)}" for owner, resources in by_owner.items()]


def quota_name(key: QuotaKey) -> str:
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


# ------------------------------------------------------------------ cells


def _text(text: str, tone: Tone = Tone.PLAIN) -> Cell:
    return Cell(printable(text), tone)


def _number(number: int, tone: Tone = Tone.PLAIN, text: str | None = None) -> Cell:
    return Cell(f"{number:,}" if text is None else text, tone, (0, number, ""))


def _share(percentage: int) -> Cell:
    return Cell(f"{percentage}%", pressure(percentage), (0, percentage, ""), bar=percentage)


_NOTHING: Final = Cell(ABSENT, Tone.QUIET, (2, 0, ""))


def pressure(percentage: int) -> Tone:
    if percentage >= FULL_PERCENT:
        return Tone.FULL
    return Tone.HIGH if percentage >= HIGH_PERCENT else Tone.GOOD


# ------------------------------------------------------------------ nodes


def _nodes(nodes: Sequence[NodeLine]) -> Table:
    found = dict.fromkeys(load.resource for node in nodes for load in node.loads)
    resources = sorted(found, key=lambda name: name == PODS)
    columns = (
        Column("NODES"),
        Column("READY"),
        *(Column(title, has_bar=True) for title in _short_titles(resources)),
    )
    rows = [
        Row(
            (node.name,),
            (_text(node.name), _readiness(node), *_loads(node, resources)),
            "; ".join(_load_text(load) for load in node.loads),
        )
        for node in nodes
    ]
    return Table(Pane.NODES, columns, rows, "no nodes")


_SHORT: Final = {EPHEMERAL_STORAGE: "storage"}


def _short_titles(resources: Sequence[str]) -> list[str]:
    """The names without their domains, unless two would be the same."""
    ends = [_SHORT.get(name) or name.rpartition("/")[2] for name in resources]
    return [
        printable(end if ends.count(end) == 1 else name).upper()
        for name, end in zip(resources, ends, strict=True)
    ]


def _readiness(node: NodeLine) -> Cell:
    if not node.is_ready:
        return Cell("no", Tone.FULL)
    return Cell("cordoned", Tone.HIGH) if node.is_cordoned else Cell("yes")


def _loads(node: NodeLine, resources: Sequence[str]) -> Iterator[Cell]:
    loads = {load.resource: load for load in node.loads}
    for name in resources:
        yield _share(loads[name].percent) if name in loads else _NOTHING


def _load_text(load: Load) -> str:
    return f"{printable(load.resource)} {load.requested} of {load.allocatable} ({load.percent}%)"


# ------------------------------------------------------------------ quotas and LimitRanges


def _quotas(overview: Overview) -> Table:
    columns = (
        Column("QUOTAS"),
        Column("RESOURCE", is_flexible=True),
        Column("USED", is_number=True),
        Column("HARD", is_number=True),
        Column("USE", has_bar=True),
    )
    rows = [row for line in overview.quotas for row in _quota_rows(line)]
    # The fullest first: they are what people look for.
    rows.sort(key=lambda row: (-(row.cells[4].bar or 0), row.key))
    limits = [row for each in overview.limit_ranges for row in _limit_rows(each)]
    return Table(Pane.QUOTAS, columns, [*rows, *limits], "no quotas")


def _quota_rows(line: QuotaLine) -> Iterator[Row]:
    name = quota_name(line.key)
    for resource, hard in sorted(line.hard.items()):
        used = line.used.get(resource, ZERO)
        share = quota_percent(line, resource)
        is_counted = resource not in line.uncounted
        note = "" if is_counted else ", which no counter charges"
        yield Row(
            ("quota", line.key.kind.value, name, resource),
            (
                _text(name),
                _text(resource, Tone.PLAIN if is_counted else Tone.QUIET),
                Cell(str(used), rank=(0, used.nanos, "")),
                Cell(str(hard), rank=(0, hard.nanos, "")),
                _share(share),
            ),
            f"{line.key.kind.value} {printable(name)}: {used} of {hard} "
            f"{printable(resource)} used ({share}%){note}",
        )


def _limit_rows(limits: LimitRange) -> Iterator[Row]:
    name = f"{limits.namespace}/{limits.name}"
    for item in limits.items:
        for resource in sorted({*item.min, *item.max, *item.default, *item.default_request}):
            text = ", ".join(_limit_parts(item, resource))
            yield Row(
                ("limits", name, item.type, resource),
                (
                    _text(name),
                    _text(f"{resource} of a {item.type}: {text}", Tone.QUIET),
                    _NOTHING,
                    _NOTHING,
                    _NOTHING,
                ),
                printable(f"LimitRange {name}: {item.type} {resource}: {text}"),
            )


def _limit_parts(item: LimitRangeItem, resource: str) -> Iterator[str]:
    for title, amounts in (
        ("min", item.min),
        ("max", item.max),
        ("default request", item.default_request),
        ("default limit", item.default),
        ("max limit/request", item.max_ratio),
    ):
        if resource in amounts:
            yield f"{title} {amounts[resource]}"


# ------------------------------------------------------------------ waiting pods


def _waiting(waiting: Sequence[WaitingLine]) -> Table:
    has_priority = any(line.priority for line in waiting)
    columns = (
        Column("WAITING"),
        Column("POS", is_number=True),
        *([Column("PRIORITY", is_number=True)] if has_priority else []),
        Column("REASON", is_flexible=True),
    )
    rows = [_waiting_row(line, has_priority=has_priority) for line in waiting]
    return Table(Pane.WAITING, columns, rows, "no pod waits")


def _waiting_row(line: WaitingLine, *, has_priority: bool) -> Row:
    place = _NOTHING if line.position is None else _number(line.position)
    reason = printable(line.reason)
    return Row(
        (line.namespace, line.name),
        (
            _text(f"{line.namespace}/{line.name}"),
            place,
            *([_number(line.priority)] if has_priority else []),
            Cell(reason),
        ),
        f"{printable(line.name)}: {place_text(line)}{reason}",
    )


def place_text(line: WaitingLine) -> str:
    if line.position is None:
        return ""
    ahead = f", {line.ahead_count:,} ahead" if line.ahead_count else ""
    return f"position {line.position:,} in the queue{ahead}: "


# ------------------------------------------------------------------ events


def _events(events: Sequence[EventLine], zone: tzinfo | None) -> Table:
    columns = (
        Column("EVENTS"),
        Column("REASON"),
        Column("OBJECT"),
        Column("NOTE", is_flexible=True),
    )
    rows = [_event_row(line, zone) for line in events]
    return Table(Pane.EVENTS, columns, rows, "nothing has happened yet")


def _event_row(line: EventLine, zone: tzinfo | None) -> Row:
    name = f"{line.namespace}/{line.name}" if line.namespace else line.name
    times = f" ({line.count:,} times)" if line.count > 1 else ""
    note = printable(line.note) + times
    clock = f"{line.time.astimezone(zone):%H:%M:%S}"
    return Row(
        (line.namespace, line.kind, line.name, line.reason, line.time.isoformat()),
        (
            Cell(clock, Tone.QUIET, (1, 0, line.time.isoformat())),
            _text(line.reason, Tone.HIGH if line.is_warning else Tone.GOOD),
            _text(name),
            Cell(note),
        ),
        f"{clock} {printable(line.reason)}: {printable(line.kind)} {printable(name)}: {note}",
    )
