"""Columns as kubectl aligns them: Go's text/tabwriter, with the settings `describe` uses.

A cell ends at a tab. Cells at the same place in consecutive lines are a column, as
wide as its longest cell and two spaces more. What follows a line's last tab belongs
to no column, and a line that has no cell at some place ends the column there. So one
long label widens its neighbours above and below, and only those.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

PADDING: Final = 2

# What kubectl writes instead of characters that could take over a terminal.
_TERMINAL_CODES: Final = str.maketrans({"\x1b": "^[", "\r": "\\r"})


def aligned(text: str) -> str:
    r"""Replace the tabs of `text` by spaces; escape and carriage return are spelled out.

    A vertical tab is a tab, and a form feed a line break that also ends all columns,
    for an annotation or a message may contain either.

    >>> aligned("Name:\tweb\nNamespace:\tdefault\n")
    'Name:       web\nNamespace:  default\n'
    """
    safe = text.translate(_TERMINAL_CODES).replace("\v", "\t")
    sections = [[line.split("\t") for line in section.split("\n")] for section in safe.split("\f")]
    unfinished = sections[-1][-1]
    if not unfinished[-1]:
        # Go begins no cell behind a tab that is the very last character.
        unfinished.pop()
    return "\n".join(_aligned_section(lines) for lines in sections)


def _aligned_section(lines: list[list[str]]) -> str:
    pending = [(0, lines)]
    while pending:
        column, neighbours = pending.pop()
        for block in _blocks(neighbours, column):
            width = max(len(cells[column]) for cells in block) + PADDING
            for cells in block:
                cells[column] = cells[column].ljust(width)
            pending.append((column + 1, block))
    return "\n".join("".join(cells) for cells in lines)


def _blocks(lines: list[list[str]], column: int) -> Iterator[list[list[str]]]:
    """The runs of consecutive lines that have a tab-terminated cell in `column`."""

    def has_column(cells: list[str]) -> bool:
        return len(cells) - 1 > column

    return (list(run) for present, run in groupby(lines, has_column) if present)
