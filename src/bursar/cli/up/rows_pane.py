"""A pane: the visible rows of a table, with a head that stays, a cursor and a scroll bar.

Only the lines that are on the screen are drawn, so thousands of rows cost no more than a few.
"""

from dataclasses import replace
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bursar.cli.up.layout import GAP, cell_text, column_widths, fitted
from bursar.cli.up.tables import Column, Pane, Row, RowKey, Table, Tone, selected

TONES: Final = {
    Tone.PLAIN: Style(),
    Tone.QUIET: Style(dim=True),
    Tone.GOOD: Style(color="green"),
    Tone.HIGH: Style(color="yellow"),
    Tone.FULL: Style(color="red", bold=True),
}
HEAD: Final = Style(bold=True)
FOCUSED_HEAD: Final = Style(bold=True, reverse=True)
CURSOR: Final = Style(reverse=True)
DIM: Final = Style(dim=True)
RISING: Final = "▲"
FALLING: Final = "▼"


class RowsPane(ScrollView, can_focus=True):
    """One table on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home,g", "end(0)", show=False),
        Binding("end,G", "end(-1)", show=False),
        Binding("enter", "open", show=False),
        Binding("s", "sort", show=False),
        Binding("r", "reverse", show=False),
    ]

    class Opened(Message):
        """A row was clicked, or Enter pressed on it."""

        def __init__(self, pane: Pane, row: Row) -> None:
            self.pane, self.row = pane, row
            super().__init__()

    class Moved(Message):
        """Another row is under the cursor."""

    def __init__(self, pane: Pane) -> None:
        super().__init__(id=pane.value.lower())
        self.pane: Final = pane
        self.filter_text = ""
        """Text that shown rows contain; empty for all rows."""
        self._table = Table(pane, (), ())
        self._rows: list[Row] = []
        self._columns: list[Column] = []
        self._widths: list[int] = []
        self._bar = 0
        self._cursor = 0
        self._sort: int | None = None
        self._is_reversed = False

    # -------------------------------------------------------------- what is shown

    @property
    def row_count(self) -> int:
        """Rows that the filter lets through."""
        return len(self._rows)

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def show_table(self, table: Table) -> None:
        """Show other rows. The cursor stays on its row if the row is still there."""
        if len(table.columns) != len(self._table.columns):
            self._sort = None
        self._table = table
        self._select()

    def show_matching(self, wanted: str) -> None:
        """Show only rows that contain a text."""
        self.filter_text = wanted
        self._select()

    def _select(self) -> None:
        held: RowKey | None = self.current.key if self.current else None
        self._rows = selected(
            self._table, self.filter_text, self._sort, is_reversed=self._is_reversed
        )
        # At the top the cursor stays there, where the newest or fullest row comes in.
        if held is not None and self._cursor > 0:
            found = (index for index, row in enumerate(self._rows) if row.key == held)
            self._cursor = next(found, self._cursor)
        self._cursor = max(0, min(self._cursor, len(self._rows) - 1))
        self._measure()
        self.refresh()

    def _measure(self) -> None:
        width = self.scrollable_content_region.width or self.size.width
        self.virtual_size = Size(width, len(self._rows) + 1)
        # One column less: the scroll bar comes and goes without moving the text.
        self._columns = [
            replace(column, title=self._title(index, column.title))
            for index, column in enumerate(self._table.columns)
        ]
        self._widths, self._bar = column_widths(
            self._columns, self._rows, max(1, self.size.width - 1)
        )
        self._keep_visible()

    def on_resize(self) -> None:
        self._measure()

    def on_focus(self) -> None:
        self.refresh()
        self.post_message(self.Moved())

    def on_blur(self) -> None:
        self.refresh()

    # -------------------------------------------------------------- drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self._head(width)
        index = self.scroll_offset.y + y - 1
        if not self._rows and y == 1:
            nothing = (
                f"no row contains {self.filter_text}" if self.filter_text else self._table.empty
            )
            return Strip([Segment(nothing, DIM)]).adjust_cell_length(width)
        if index >= len(self._rows):
            return Strip.blank(width)
        return self._line(self._rows[index], is_current=index == self._cursor and self.has_focus)

    def _head(self, width: int) -> Strip:
        style = FOCUSED_HEAD if self.has_focus else HEAD
        parts = [
            fitted(column.title, size, is_number=column.is_number)
            for column, size in zip(self._columns, self._widths, strict=True)
            if size
        ]
        text = (" " * GAP).join(parts) or self.pane.value
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def _title(self, index: int, title: str) -> str:
        """The title of a column, with the number of rows, the filter and the order."""
        if index == 0:
            title = f"{title} {len(self._rows):,}"
            if self.filter_text:
                title += f" of {len(self._table.rows):,} /{self.filter_text}"
        if index == self._sort:
            return f"{title}{FALLING if self._is_reversed else RISING}"
        return title

    def _line(self, row: Row, *, is_current: bool) -> Strip:
        segments: list[Segment] = []
        columns = zip(row.cells, self._columns, self._widths, strict=True)
        for cell, column, size in columns:
            if not size:
                continue
            if segments:
                segments.append(Segment(" " * GAP))
            segments.append(Segment(cell_text(cell, column, size, self._bar), TONES[cell.tone]))
        strip = Strip(segments).adjust_cell_length(self.size.width)
        return strip.apply_style(CURSOR) if is_current else strip

    # -------------------------------------------------------------- moving

    def _keep_visible(self) -> None:
        height = max(1, self.size.height - 1)
        top = round(self.scroll_offset.y)
        if self._cursor < top:
            top = self._cursor
        elif self._cursor >= top + height:
            top = self._cursor - height + 1
        self.scroll_to(y=top, animate=False, force=True)

    def action_move(self, count: int) -> None:
        self._go_to(self._cursor + count)

    def action_page(self, pages: int) -> None:
        self._go_to(self._cursor + pages * max(1, self.size.height - 2))

    def action_end(self, index: int) -> None:
        self._go_to(len(self._rows) - 1 if index else 0)

    def _go_to(self, index: int) -> None:
        self._cursor = max(0, min(index, len(self._rows) - 1))
        self._keep_visible()
        self.refresh()
        self.post_message(self.Moved())

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.pane, self.current))

    # -------------------------------------------------------------- sorting

    def action_sort(self) -> None:
        """Sort by the next column; after the last one, in the order of the table."""
        count = len(self._table.columns)
        following = 0 if self._sort is None else self._sort + 1
        self._sort_by(following if following < count else None)

    def _sort_by(self, column: int | None) -> None:
        self._sort = column
        # Amounts are wanted with the largest first, names from A to Z.
        self._is_reversed = column is not None and (
            self._table.columns[column].has_bar or self._table.columns[column].is_number
        )
        self._cursor = 0
        self._select()

    def action_reverse(self) -> None:
        self._is_reversed = not self._is_reversed
        self._cursor = 0
        self._select()

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            column = self._column_at(event.x)
            if column is not None:
                if column == self._sort:
                    self.action_reverse()
                else:
                    self._sort_by(column)
            return
        index = round(self.scroll_offset.y) + event.y - 1
        if index < len(self._rows):
            self._go_to(index)
            self.action_open()

    def _column_at(self, x: int) -> int | None:
        start = 0
        for index, size in enumerate(self._widths):
            if size and start <= x < start + size + GAP:
                return index
            start += size + GAP if size else 0
        return None
