"""The terminal application: panes of nodes, quotas, waiting pods and events, and their keys."""

from collections.abc import Callable
from contextlib import suppress
from datetime import tzinfo
from time import monotonic
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from bursar.app.reports.overview import Overview
from bursar.cli.up.explanation import explanation
from bursar.cli.up.layout import ELLIPSIS, WIDE_COLUMNS, fitted, pane_heights, wrapped
from bursar.cli.up.rows_pane import RowsPane
from bursar.cli.up.tables import Pane, full_texts, pods_text, tables_of

POLL_SECONDS: Final = 0.25
"""How often the application asks for a newer state. Keys never wait for it."""
HEAD_LINES: Final = 2
DETAIL_LINES_MAX: Final = 5
SMALL_HEIGHT: Final = 40
_WIDE_PARTS: Final = {Pane.NODES: "11fr", Pane.QUOTAS: "9fr"}
REST_FACTOR: Final = 4
"""The application rests this many times as long as it took to show a state."""
FOOT: Final = "Enter explain   / filter   s sort   Tab pane   z zoom   ? help   q quit"
HELP: Final = """\
Keys

  Up, Down, j, k        move; PageUp, PageDown, Home, End as well
  Tab, Shift-Tab        next pane, previous pane; 1 2 3 4 choose one
  Enter, click          the whole explanation of a row
  /                     filter the rows of the pane; Enter keeps it, Escape removes it
  s                     sort by the next column; a click on a title does it as well
  r                     reverse the order
  z                     give the pane the whole screen, and back
  ?                     this page
  q, Ctrl-C             quit; the last screen stays in the terminal

Panes

  NODES    what pods request of each node, in percent of what it can allocate
  QUOTAS   what is used of each quota, the fullest first; then LimitRanges
  WAITING  pods that wait: POS is the place in the queue of the quotas
  EVENTS   what happened, the newest first

Colours: green below 75 %, yellow from 75 %, red from 90 %. NO_COLOR switches them off.
"""


class TextScreen(ModalScreen[None]):
    """A long text over the panes. Escape, Enter and q close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", show=False),
        Binding("question_mark", "dismiss", show=False),
        Binding("down,j", "scroll('down')", show=False),
        Binding("up,k", "scroll('up')", show=False),
        Binding("pagedown,space", "scroll('page_down')", show=False),
        Binding("pageup", "scroll('page_up')", show=False),
        Binding("home,g", "scroll('home')", show=False),
        Binding("end,G", "scroll('end')", show=False),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title_text, self._text = title, text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="paper"):
            yield Static(Text(self._text), id="text")
        yield Static(Text(f"{self._title_text}   Up, Down scroll   Escape closes"), id="closing")

    def replace_text(self, text: str) -> None:
        self.query_one("#text", Static).update(Text(text))

    def action_scroll(self, where: str) -> None:
        getattr(self.query_one("#paper"), f"scroll_{where}")(animate=False)


class UpApp(App[None]):
    """`bursar up` on a terminal.

    `newest` returns the last known state, None if there is none yet; `is_ending` says whether to
    leave. Times are in `zone`, by default the local one.
    """

    TITLE = "bursar up"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #head { height: 2; }
    #top { height: auto; }
    #stack { height: auto; layout: vertical; }
    RowsPane { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden; }
    RowsPane { background: ansi_default; color: ansi_default; }
    #detail { height: auto; }
    #foot { height: 1; }
    #filter { height: 1; border: none; padding: 0; display: none; background: ansi_default; }
    #paper { background: ansi_default; padding: 0 1; height: 1fr; scrollbar-size-vertical: 1; }
    TextScreen { background: ansi_default; }
    #closing { height: 1; dock: bottom; text-style: bold; }
    #text { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("question_mark", "help", show=False),
        Binding("slash", "filter", show=False),
        Binding("escape", "clear", show=False),
        Binding("z", "zoom", show=False),
        *(
            Binding(str(number), f"pane('{pane.value}')", show=False)
            for number, pane in enumerate(Pane, 1)
        ),
    ]

    def __init__(
        self,
        title: str,
        newest: Callable[[], Overview | None],
        is_ending: Callable[[], bool] = lambda: False,
        zone: tzinfo | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.title = title
        self._newest = newest
        self._is_ending = is_ending
        self._zone = zone
        self._shown: Overview | None = None
        self._panes = {pane: RowsPane(pane) for pane in Pane}
        self._focused = Pane.WAITING
        self._zoomed: Pane | None = None
        self._rests_until = 0.0
        self.last_frame = ""
        """The text of the screen when the application ended."""

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal(id="top"):
            yield self._panes[Pane.NODES]
            yield self._panes[Pane.QUOTAS]
        yield self._panes[Pane.WAITING]
        yield self._panes[Pane.EVENTS]
        yield Static(id="detail")
        yield Static(Text(FOOT, no_wrap=True, overflow="ellipsis", style="dim"), id="foot")
        yield Input(id="filter", placeholder="filter", compact=True)

    def on_mount(self) -> None:
        self._panes[Pane.WAITING].focus()
        self.set_interval(POLL_SECONDS, self._poll)
        self.show_newest()

    async def _poll(self) -> None:
        if self._is_ending():
            await self.end()
        else:
            self.show_newest()

    # -------------------------------------------------------------- the state

    def show_newest(self) -> None:
        """Show the newest state, if it is another one."""
        seen, began = self._newest(), monotonic()
        if seen is None or seen is self._shown or began < self._rests_until:
            return
        self._shown = seen
        for pane, table in tables_of(seen, self._zone).items():
            self._panes[pane].show_table(table)
        self._arrange()
        self._rests_until = monotonic() + (monotonic() - began) * REST_FACTOR

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Give every pane its height, and write the lines around the panes."""
        width, height = self.size
        is_wide = width >= WIDE_COLUMNS
        detail = self._detail(width, 2 if height < SMALL_HEIGHT else DETAIL_LINES_MAX)
        rows = {pane: self._panes[pane].row_count for pane in Pane}
        free = max(4, height - HEAD_LINES - len(detail) - 1)
        heights = pane_heights(free, rows, is_wide=is_wide, zoomed=self._zoomed)
        top = self.query_one("#top", Horizontal)
        top.styles.layout = "horizontal" if is_wide else "vertical"
        for pane, size in heights.items():
            self._panes[pane].styles.height = size
            self._panes[pane].styles.width = _WIDE_PARTS.get(pane, "1fr") if is_wide else "1fr"
        self.query_one("#head", Static).update(self._head(width))
        self.query_one("#detail", Static).update(Text("\n".join(detail)))

    def _head(self, width: int) -> Text:
        if self._shown is None:
            return Text(f"{self.title}\nconnecting {ELLIPSIS}")
        first = f"{self.title}   Pods: {pods_text(self._shown)}"
        texts = full_texts(self._shown.full)
        shown = len(texts)
        full = f"Full: {'; '.join(texts) or 'nothing'}"
        while len(full) > width and shown > 1:
            shown -= 1
            full = f"Full: {'; '.join(texts[:shown])}; and {len(texts) - shown:,} more"
        head = Text(fitted(first, width).rstrip(), style="bold")
        head.append("\n")
        head.append(fitted(full, width).rstrip(), style="not bold red" if texts else "not bold")
        return head

    def _detail(self, width: int, lines_max: int) -> list[str]:
        row = self._panes[self._focused].current
        return wrapped(row.detail, width, lines_max) if row is not None else []

    # -------------------------------------------------------------- keys

    def on_rows_pane_moved(self) -> None:
        for pane, widget in self._panes.items():
            if widget.has_focus:
                self._focused = pane
        if self._zoomed is not None:
            self._zoomed = self._focused
        self._arrange()

    async def on_rows_pane_opened(self, message: RowsPane.Opened) -> None:
        seen = self._shown
        if seen is None:
            return
        screen = TextScreen(message.pane.value, message.row.detail)
        await self.push_screen(screen)

        def explain() -> None:
            # Nodes are asked one by one, which takes a moment if there are thousands of pods.
            text = explanation(seen, message.pane, message.row.key)
            with suppress(RuntimeError):  # the application has ended meanwhile
                self.call_from_thread(screen.replace_text, text)

        self.run_worker(explain, thread=True, exclusive=True)

    async def action_help(self) -> None:
        await self.push_screen(TextScreen("HELP", HELP))

    def action_pane(self, name: str) -> None:
        self._panes[Pane(name)].focus()

    def action_zoom(self) -> None:
        self._zoomed = self._focused if self._zoomed is None else None
        self._arrange()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = self._panes[self._focused].filter_text
        field.display = True
        self.query_one("#foot").display = False
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._panes[self._focused].show_matching(event.value.strip())
        self._arrange()

    def on_input_submitted(self) -> None:
        self._close_filter()

    def action_clear(self) -> None:
        """Close the filter and show all rows again."""
        self._panes[self._focused].show_matching("")
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one("#foot").display = True
        self._panes[self._focused].focus()
        self._arrange()

    # -------------------------------------------------------------- the end

    async def action_quit(self) -> None:
        await self.end()

    async def end(self) -> None:
        """Keep the text of the panes, and leave."""
        while isinstance(self.screen, TextScreen):
            await self.pop_screen()
        self.last_frame = self.screen_text()
        self.exit()

    def screen_text(self) -> str:
        """The screen as plain text."""
        # Textual has no public way to read its screen but as an SVG picture.
        strips = self.screen._compositor.render_strips()  # noqa: SLF001
        lines = [strip.text.rstrip() for strip in strips]
        return "\n".join(lines).rstrip()
