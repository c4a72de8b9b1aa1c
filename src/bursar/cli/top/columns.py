"""The columns about resources that the lists of nodes, namespaces and pods share.

A default table is meant for 80 columns: cpu, memory and the number of pods. Other resources, and
what is long or seldom needed, is in `-o wide`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bursar.app.reports.top.consumption import Line
from bursar.cli.output.amounts import short_amount
from bursar.cli.output.listing import NO_VALUE, Column, Row
from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, may_overcommit
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList

USUAL: Final = (PODS, CPU, MEMORY)
"""The resources of a default table."""
_HEADS: Final = {CPU: "CPU", MEMORY: "MEM", EPHEMERAL_STORAGE: "STORAGE"}
ALL: Final = "(all)"
"""The name of the total."""


class RowKind(Enum):
    """What a row of the list stands for, which decides its columns."""

    NODES = "nodes"
    PODS = "pods"
    GROUPS = "groups"
    """Namespaces, owners and other groups of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    text: str
    exact: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceColumns:
    """Which resources are shown, and what of them."""

    row_kind: RowKind
    resources: Sequence[str]
    is_chosen: bool
    """Whether the command line names the resources."""
    has_usage: bool
    is_narrow: bool = False
    """Whether the table has to fit into 80 columns. If usage is known, nodes then have percentages
    without amounts."""
    _shown: Sequence[tuple[Column, str, str]] = field(init=False)
    """Each column with its resource and the part of it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_shown", tuple(self._all_columns()))

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _, _ in self._shown)

    def row(self, line: Line, lead: Sequence[str], name: str, document: object) -> Row:
        """The row of a line behind the cells of `lead`."""
        cells = [(column, _cell(line, part, resource)) for column, resource, part in self._shown]
        return Row(
            cells=(*lead, *(cell.text for _, cell in cells)),
            document=document,
            name=name,
            exact={column.name: cell.exact for column, cell in cells if cell.exact is not None},
        )

    def _all_columns(self) -> Iterator[tuple[Column, str, str]]:
        # A table of one resource has room for all its columns.
        is_roomy = len([name for name in self.resources if name != PODS]) == 1
        for resource in self.resources:
            is_hidden = not self.is_chosen and resource not in USUAL
            for head, part, is_rare in self._parts(resource, is_roomy=is_roomy):
                yield Column(head, is_wide=is_hidden or is_rare), resource, part

    def _parts(self, resource: str, *, is_roomy: bool) -> Iterator[tuple[str, str, bool]]:
        """The head of each column, the part it shows, and whether only `-o wide` shows it."""
        is_of_nodes, has_usage = self.row_kind is RowKind.NODES, self.has_usage
        if resource == PODS:
            if self.row_kind is not RowKind.PODS:
                yield "PODS", "count", is_of_nodes and has_usage
            if is_of_nodes:
                yield "PODS FREE", "free", True
            return
        head = _HEADS.get(resource, resource.upper())
        if is_of_nodes:
            yield f"{head} ALLOC", "allocatable", not is_roomy
        is_of_pods = self.row_kind is RowKind.PODS
        is_percent = is_of_nodes and has_usage and self.is_narrow and not is_roomy
        requests = "requests percent" if is_percent else "requests"
        yield f"{head} REQ", "bare requests" if is_of_pods else requests, False
        if is_of_pods:
            yield f"{head} REQ%", "requests percent", True
        if may_overcommit(resource):
            is_rare = not is_roomy and (has_usage or is_of_nodes)
            yield f"{head} LIM", "limits" if is_of_nodes else "bare limits", is_rare
            if not is_of_nodes:
                yield f"{head} LIM%", "limits percent", True
        if has_usage and resource in {CPU, MEMORY}:
            usage = "usage percent" if is_percent else "usage"
            yield f"{head} USED", usage if is_of_nodes else "bare usage", False
        if is_of_nodes:
            yield f"{head} FREE", "free", False


def _cell(line: Line, part: str, resource: str) -> _Cell:
    amounts: ResourceList | None
    match part:
        case "count":
            return _count(line)
        case "requests percent":
            return _percent(line, resource, line.requests)
        case "limits percent":
            return _percent(line, resource, line.limits)
        case "usage percent":
            return _percent(line, resource, line.usage)
        case "allocatable":
            return _amount(line.offered, resource)
        case "free":
            return _free(line, resource)
        case "requests" | "bare requests":
            amounts = line.requests
        case "limits" | "bare limits":
            amounts = line.limits
        case _:
            amounts = line.usage
    return _amount(amounts, resource, None if part.startswith("bare") else line)


def _percent(line: Line, resource: str, amounts: ResourceList | None) -> _Cell:
    share = None if amounts is None else line.percent(resource, amounts)
    return _Cell(text=NO_VALUE if share is None else f"{share}%")


def _count(line: Line) -> _Cell:
    """How many pods there are, of how many that there may be."""
    count = line.requests.get(PODS, ZERO)
    most = None if line.free is None else (line.offered or {}).get(PODS)
    return _Cell(text=count.exact if most is None else f"{count.exact}/{most.exact}", exact=count)


def _free(line: Line, resource: str) -> _Cell:
    if line.free is None or not line.is_open or resource not in line.free:
        return _Cell(text=NO_VALUE)
    amount = line.free[resource]
    return _Cell(text=short_amount(resource, amount, rounds_down=True), exact=amount)


def _amount(amounts: ResourceList | None, resource: str, shared: Line | None = None) -> _Cell:
    """The amount, and its share of what the line is offered."""
    if amounts is None:
        return _Cell(text=NO_VALUE)
    amount = amounts.get(resource, ZERO)
    text = short_amount(resource, amount)
    share = None if shared is None or amount.is_zero else shared.percent(resource, amounts)
    return _Cell(text=text if share is None else f"{text} ({share}%)", exact=amount)


# ------------------------------------------------------------------ which resources


def resources_of(lines: Iterable[Line], chosen: Sequence[str]) -> tuple[str, ...]:
    """The resources to list: those chosen, or the usual ones and all others that occur."""
    if chosen:
        return tuple(chosen)
    found: set[str] = set()
    for line in lines:
        found.update(line.requests, line.limits, line.offered or ())
    others = sorted(found - {*USUAL, EPHEMERAL_STORAGE})
    return (*USUAL, *({EPHEMERAL_STORAGE} & found), *others)


# ------------------------------------------------------------------ documents


def line_document(line: Line, resources: Sequence[str], **identity: object) -> dict[str, object]:
    """The line as plain data, with exact amounts."""
    return {
        **identity,
        "pods": line.requests.get(PODS, ZERO).whole_units,
        "podsWithoutNode": line.unplaced,
        "resources": {name: _resource_document(line, name) for name in resources},
    }


def _resource_document(line: Line, resource: str) -> Mapping[str, object]:
    document: dict[str, object] = {}
    for word, amounts in (("requests", line.requests), ("limits", line.limits)):
        if word == "requests" or resource != PODS:
            document[word] = str(amounts.get(resource, ZERO))
            document[f"{word}Percent"] = line.percent(resource, amounts)
    if line.usage is not None and resource in line.usage:
        document["usage"] = str(line.usage[resource])
        document["usagePercent"] = line.percent(resource, line.usage)
    if line.offered is not None:
        document["allocatable"] = str(line.offered.get(resource, ZERO))
    if line.free is not None:
        document["free"] = str(line.free.get(resource, ZERO))
    return document
