"""How the panes share a screen: heights of panes and widths of columns."""

from collections.abc import Mapping, Sequence
from typing import Final

from bursar.cli.up.tables import BAR_CELLS, Cell, Column, Pane, Row

GAP: Final = 2
"""Blanks between two columns."""
ELLIPSIS: Final = "…"
PERCENT_CELLS: Final = 5
"""Width of a percentage after a bar, with the blank before it."""
NAME_WIDTH_MIN: Final = 12
FLEXIBLE_WIDTH_MIN: Final = 16
WIDE_COLUMNS: Final = 160
"""From this width on, nodes and quotas are beside each other."""

_LEAST_ROWS: Final = {Pane.NODES: 1, Pane.QUOTAS: 1, Pane.WAITING: 3, Pane.EVENTS: 1}
_SHARES: Final = {Pane.NODES: 2, Pane.QUOTAS: 2, Pane.WAITING: 6, Pane.EVENTS: 3}
"""How the rows of the screen are divided if the panes together want more."""


def pane_heights(
    height: int, rows: Mapping[Pane, int], *, is_wide: bool, zoomed: Pane | None = None
) -> dict[Pane, int]:
    """The height of each pane, with its head, so that they fill the height.

    Each pane has its head and at least one row, and WAITING at least three, if the height allows
    it. No pane is higher than its rows, but the last one, which takes what is left. On a wide
    screen nodes and quotas are beside each other and equally high.
    """
    wanted = {pane: 1 + max(1, rows[pane]) for pane in Pane}
    stacked = [pane for pane in Pane if not (is_wide and pane is Pane.QUOTAS)]
    if is_wide:
        wanted[Pane.NODES] = max(wanted[Pane.NODES], wanted[Pane.QUOTAS])
    if zoomed is not None:
        heights = dict.fromkeys(stacked, 1)
        main = Pane.NODES if is_wide and zoomed is Pane.QUOTAS else zoomed
        heights[main] = max(1, height - len(stacked) + 1)
    else:
        heights = _shared(height, {pane: wanted[pane] for pane in stacked})
    if is_wide:
        heights[Pane.QUOTAS] = heights[Pane.NODES]
    return heights


def _shared(height: int, wanted: Mapping[Pane, int]) -> dict[Pane, int]:
    # WAITING is served first: it must be visible on the smallest screen.
    heights = dict.fromkeys(wanted, 0)
    left = height
    for pane in sorted(wanted, key=lambda pane: -_LEAST_ROWS[pane]):
        heights[pane] = min(left, wanted[pane], 1 + _LEAST_ROWS[pane])
        left -= heights[pane]
    while left > 0:
        hungry = [pane for pane in wanted if heights[pane] < wanted[pane]]
        if not hungry:
            heights[Pane.EVENTS] += left
            break
        pane = min(hungry, key=lambda pane: heights[pane] * 100 // _SHARES[pane])
        heights[pane] += 1
        left -= 1
    return heights


# ------------------------------------------------------------------ columns


def column_widths(
    columns: Sequence[Column], rows: Sequence[Row], width: int
) -> tuple[list[int], int]:
    """The width of each column, 0 for one that has no space; and the length of bars.

    Bars give way first, then the flexible column, then names, then the columns at the right.
    """
    natural = [
        max([len(column.title), *(len(row.cells[index].text) for row in rows)])
        for index, column in enumerate(columns)
    ]
    flexible = [index for index, column in enumerate(columns) if column.is_flexible]
    for bar in (BAR_CELLS, BAR_CELLS // 2):
        widths = [
            max(size, bar + PERCENT_CELLS) if column.has_bar else size
            for size, column in zip(natural, columns, strict=True)
        ]
        # The flexible column can be cut, and does not cost a bar.
        cut = [
            min(size, FLEXIBLE_WIDTH_MIN * 2) if column.is_flexible else size
            for size, column in zip(widths, columns, strict=True)
        ]
        if _total(cut) <= width:
            break
    else:
        widths, bar = natural, 0
    for index, least in (
        *((index, FLEXIBLE_WIDTH_MIN) for index in flexible),
        (0, NAME_WIDTH_MIN),
        *((i, NAME_WIDTH_MIN) for i, c in enumerate(columns) if i and not c.is_flexible),
        *((index, 1) for index in flexible),
    ):
        excess = _total(widths) - width
        if excess > 0 and widths[index] > least:
            widths[index] = max(least, widths[index] - excess)
    for index in reversed(range(1, len(widths))):
        if _total(widths) > width:
            widths[index] = 0
    widths[0] = min(widths[0], width)
    for index in flexible:
        if widths[index]:
            widths[index] += max(0, width - _total(widths))
    return widths, bar


def _total(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + GAP * (len(shown) - 1)


def fitted(text: str, width: int, *, is_number: bool = False) -> str:
    """The text in exactly this width; an ellipsis stands for what is cut."""
    if len(text) > width:
        text = text[: width - 1] + ELLIPSIS if width else ""
    return text.rjust(width) if is_number else text.ljust(width)


def cell_text(cell: Cell, column: Column, width: int, bar: int) -> str:
    """The cell in the width of its column, with a bar of this length if it has one."""
    if cell.bar is None or not bar:
        return fitted(cell.text, width, is_number=column.is_number)
    filled = min(bar, max(0, cell.bar * bar // 100))
    return fitted(f"{'█' * filled}{'░' * (bar - filled)}{cell.text.rjust(PERCENT_CELLS)}", width)


def wrapped(text: str, width: int, lines_max: int) -> list[str]:
    """The text in lines of a width, at words; an ellipsis stands for what is left out."""
    lines: list[str] = []
    rest = text
    while rest and width > 0:
        if len(lines) == lines_max - 1:
            return [*lines, fitted(rest, width).rstrip() if len(rest) > width else rest]
        if len(rest) <= width:
            return [*lines, rest]
        cut = rest.rfind(" ", 0, width + 1)
        cut = cut if cut > width // 2 else width
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines
