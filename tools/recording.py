"""Record a terminal: run commands in a pseudo-terminal, and write what it shows as an animated SVG.

    python tools/recording.py docs/images/first-minute.svg

The picture in the README is made by this script, so that it shows what the commands print today.
It has no script in it, only CSS, so that web pages and GitHub play it. Every distinct line of the
screen is stored once, and a frame is a list of references to lines.
"""

import argparse
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import pyte

COLUMNS: Final = 100
ROWS: Final = 30
FRAME_SECONDS: Final = 0.2
TYPED_SECONDS: Final = 0.04
PAUSE_SECONDS: Final = 3.0
COMMAND_SECONDS_MAX: Final = 120.0
CELL_WIDTH: Final = 8.4
CELL_HEIGHT: Final = 18
MARGIN: Final = 12
PROMPT: Final = "$ "

COLOURS: Final = {
    "black": "#45475a",
    "red": "#f38ba8",
    "green": "#a6e3a1",
    "brown": "#f9e2af",
    "blue": "#89b4fa",
    "magenta": "#f5c2e7",
    "cyan": "#94e2d5",
    "white": "#bac2de",
}
INK: Final = "#cdd6f4"
PAPER: Final = "#1e1e2e"


class Style(NamedTuple):
    ink: str
    paper: str
    is_bold: bool


class Run(NamedTuple):
    """Neighbouring cells of one style."""

    column: int
    text: str
    style: Style


Line = tuple[Run, ...]
Screen = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A command that is typed, and the keys that are pressed while it runs."""

    command: str
    keys: tuple[tuple[float, str], ...] = ()
    """Seconds after the start of the command, and what is typed then."""


STORY: Final = (
    Step("bursar top nodes -f examples/node-pool.yaml"),
    Step("bursar explain pod my-pod -f examples/node-pool.yaml -f examples/licensed.yaml"),
    Step("bursar up", keys=((45.0, "q"),)),
)


@dataclass(slots=True)
class Recorder:
    """A terminal without a window, and the screens that it has shown."""

    columns: int = COLUMNS
    rows: int = ROWS
    frames: list[tuple[float, Screen]] = field(default_factory=list)
    """When each screen was first shown, in seconds of the recording."""
    seconds: float = 0.0
    _screen: pyte.Screen = field(init=False)
    _stream: pyte.ByteStream = field(init=False)

    def __post_init__(self) -> None:
        self._screen = pyte.Screen(self.columns, self.rows)
        self._stream = pyte.ByteStream(self._screen)

    def play(self, step: Step) -> None:
        self._type(step.command)
        self._run(step)
        self._pause(PAUSE_SECONDS)

    def _type(self, command: str) -> None:
        if self._screen.cursor.x:
            self._feed(b"\r\n")
        self._feed(PROMPT.encode())
        for character in command:
            self._feed(character.encode())
            self._pause(TYPED_SECONDS)
        self._feed(b"\r\n")
        self._pause(FRAME_SECONDS)

    def _run(self, step: Step) -> None:
        terminal, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))
        child = os.fork()
        if child == 0:
            os.login_tty(theirs)
            environment = {**os.environ, "TERM": "xterm-256color"}
            os.execve("/bin/sh", ["sh", "-c", step.command], environment)  # noqa: S606 - a shell
        os.close(theirs)
        try:
            self._follow(terminal, list(step.keys))
        finally:
            # Closing the terminal hangs up a command that still runs.
            os.close(terminal)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in {0, 1}:
            sys.exit(f"{step.command}: exit code {code}")

    def _follow(self, terminal: int, keys: list[tuple[float, str]]) -> None:
        begun = time.monotonic()
        before = self.seconds
        while (now := time.monotonic() - begun) < COMMAND_SECONDS_MAX:
            while keys and keys[0][0] <= now:
                os.write(terminal, keys.pop(0)[1].encode())
            if select.select([terminal], [], [], FRAME_SECONDS)[0]:
                try:
                    chunk = os.read(terminal, 65536)
                except OSError:  # The other end is closed: the command has ended.
                    break
                if not chunk:
                    break
                self._stream.feed(chunk)
            self.seconds = before + time.monotonic() - begun
            self._keep()

    def _feed(self, data: bytes) -> None:
        self._stream.feed(data)
        self._keep()

    def _pause(self, seconds: float) -> None:
        self._keep()
        self.seconds += seconds

    def _keep(self) -> None:
        """Remember the screen, at most once in `FRAME_SECONDS` or as it is typed."""
        shown = tuple(_line(self._screen, row) for row in range(self.rows))
        if self.frames and self.frames[-1][1] == shown:
            return
        if self.frames and self.seconds - self.frames[-1][0] < TYPED_SECONDS:
            self.frames[-1] = (self.frames[-1][0], shown)
        else:
            self.frames.append((self.seconds, shown))


def _line(screen: pyte.Screen, row: int) -> Line:
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    styled = [(column, cell.data, _style(cell)) for column, cell in enumerate(cells)]
    runs = []
    for style, group in groupby(styled, key=lambda cell: cell[2]):
        run = list(group)
        text = "".join(data for _, data, _ in run)
        if text.strip() or style.paper != PAPER:
            runs.append(Run(run[0][0], text, style))
    return tuple(runs)


def _style(cell: pyte.screens.Char) -> Style:
    ink, paper = _colour(cell.fg, INK), _colour(cell.bg, PAPER)
    if cell.reverse:
        ink, paper = paper, ink
    return Style(ink, paper, cell.bold)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name.removeprefix("bright"), f"#{name}")


# ------------------------------------------------------------------ the picture


def svg(recorder: Recorder, title: str) -> str:
    """The recording as an animated picture, which begins again at its end."""
    width = recorder.columns * CELL_WIDTH + 2 * MARGIN
    height = recorder.rows * CELL_HEIGHT + 2 * MARGIN
    lines = {line: f"l{n}" for n, line in enumerate(_distinct(recorder.frames))}
    size = f"0 0 {width:.0f} {height}"
    namespace = 'xmlns="http://www.w3.org/2000/svg" xml:space="preserve"'
    parts = [
        f'<svg {namespace} viewBox="{size}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<style>{_css(recorder)}</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
        "<defs>",
        *(f'<g id="{name}">{"".join(_drawn(line))}</g>' for line, name in lines.items()),
        "</defs>",
    ]
    for number, (_, screen) in enumerate(recorder.frames):
        uses = "".join(
            f'<use href="#{lines[line]}" y="{MARGIN + row * CELL_HEIGHT}"/>'
            for row, line in enumerate(screen)
            if line
        )
        parts.append(f'<g class="f" id="f{number}">{uses}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _distinct(frames: Sequence[tuple[float, Screen]]) -> Iterator[Line]:
    return iter(dict.fromkeys(line for _, screen in frames for line in screen if line))


def _css(recorder: Recorder) -> str:
    total = recorder.seconds + PAUSE_SECONDS
    rules = [
        "text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}",
        f".f{{visibility:hidden;animation:{total:.2f}s step-end infinite}}",
    ]
    ends = [begun for begun, _ in recorder.frames[1:]] + [total]
    for number, ((begun, _), end) in enumerate(zip(recorder.frames, ends, strict=True)):
        shown, hidden = (f"{moment / total * 100:.3f}%" for moment in (begun, end))
        first = "" if number == 0 else "0%{visibility:hidden}"
        rules.append(
            f"@keyframes k{number}{{{first}{shown}{{visibility:visible}}"
            f"{hidden}{{visibility:hidden}}}}#f{number}{{animation-name:k{number}}}"
        )
    # A reader who asked for no motion sees the end of the recording.
    last = f"#f{len(recorder.frames) - 1}{{visibility:visible}}"
    rules.append(f"@media(prefers-reduced-motion){{.f{{animation:none}}{last}}}")
    return "".join(rules)


def _drawn(line: Line) -> Iterator[str]:
    for run in line:
        x = MARGIN + run.column * CELL_WIDTH
        width = len(run.text) * CELL_WIDTH
        if run.style.paper != PAPER:
            yield (
                f'<rect x="{x:.1f}" width="{width:.1f}" height="{CELL_HEIGHT}" '
                f'fill="{run.style.paper}"/>'
            )
        if run.text.strip():
            bold = ' font-weight="bold"' if run.style.is_bold else ""
            text = run.text.rstrip()
            yield (
                f'<text x="{x:.1f}" y="14" fill="{run.style.ink}"{bold} '
                f'textLength="{len(text) * CELL_WIDTH:.1f}">{escape(text)}</text>'
            )


def recorded(story: Sequence[Step], *, columns: int = COLUMNS, rows: int = ROWS) -> Recorder:
    recorder = Recorder(columns=columns, rows=rows)
    for step in story:
        recorder.play(step)
    return recorder


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the commands of the README as an SVG.")
    parser.add_argument("picture", type=Path, help="The SVG file to write.")
    chosen = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    recorder = recorded(STORY)
    chosen.picture.parent.mkdir(parents=True, exist_ok=True)
    chosen.picture.write_text(svg(recorder, "; ".join(step.command for step in STORY)))
    print(f"{chosen.picture}: {len(recorder.frames)} frames, {recorder.seconds:.0f} s")


if __name__ == "__main__":
    main()
