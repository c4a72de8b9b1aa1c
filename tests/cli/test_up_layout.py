"""How panes and columns of `bursar up` share a screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.cli.up.layout import (
    GAP,
    cell_text,
    column_widths,
    fitted,
    pane_heights,
    wrapped,
)
from bursar.cli.up.tables import Cell, Column, Pane, Row

COUNTS = st.fixed_dictionaries({pane: st.integers(0, 5000) for pane in Pane})


@given(st.integers(8, 100), COUNTS)
def test_panes_fill_the_height_and_waiting_pods_have_their_rows(height, rows):
    heights = pane_heights(height, rows, is_wide=False)

    assert sum(heights.values()) == height
    assert heights[Pane.WAITING] >= 1 + min(3, max(1, rows[Pane.WAITING]))


@given(st.integers(12, 100), COUNTS)
def test_no_row_is_wasted_while_a_pane_wants_one(height, rows):
    heights = pane_heights(height, rows, is_wide=False)

    if any(heights[pane] < 1 + rows[pane] for pane in Pane):
        assert all(heights[pane] <= 1 + max(1, rows[pane]) for pane in Pane)


@given(st.integers(12, 100), COUNTS)
def test_nodes_and_quotas_are_beside_each_other_on_a_wide_screen(height, rows):
    heights = pane_heights(height, rows, is_wide=True)

    assert heights[Pane.NODES] == heights[Pane.QUOTAS]
    assert sum(heights.values()) - heights[Pane.QUOTAS] == height


@pytest.mark.parametrize("is_wide", [True, False])
@pytest.mark.parametrize("zoomed", Pane)
def test_the_other_panes_keep_their_heads_beside_a_zoomed_one(zoomed, is_wide):
    heights = pane_heights(20, dict.fromkeys(Pane, 100), is_wide=is_wide, zoomed=zoomed)

    assert heights[zoomed] == (18 if is_wide else 17)
    assert min(heights.values()) == 1


TEXTS = st.text("abc/", max_size=60)


@given(st.integers(1, 200), st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5))
def test_columns_never_exceed_the_width(width, texts):
    columns = [Column("NAME"), Column("USE", has_bar=True), Column("WHY", is_flexible=True)]
    rows = [Row((str(n),), tuple(map(Cell, each)), "") for n, each in enumerate(texts)]

    widths, _ = column_widths(columns, rows, width)

    shown = [each for each in widths if each]
    assert sum(shown) + GAP * (len(shown) - 1) <= width
    assert widths[0] > 0


def test_bars_give_way_before_names_are_cut():
    columns = [Column("NODES"), Column("CPU", has_bar=True), Column("MEMORY", has_bar=True)]
    rows = [Row(("a",), (Cell("a-long-name-of-a-node"), Cell("5%"), Cell("99%")), "")]

    assert column_widths(columns, rows, 60) == ([21, 15, 15], 10)
    assert column_widths(columns, rows, 50) == ([21, 10, 10], 5)
    assert column_widths(columns, rows, 40) == ([21, 3, 6], 0)


def test_what_is_cut_has_an_ellipsis():
    assert fitted("abcdef", 4) == "abc…"
    assert fitted("ab", 4) == "ab  "
    assert fitted("12", 4, is_number=True) == "  12"
    assert fitted("ab", 0) == ""


@pytest.mark.parametrize(
    ("share", "text"), [(0, "░░░░   0%"), (49, "█░░░  49%"), (100, "████ 100%"), (316, "████ 316%")]
)
def test_a_bar_shows_the_share(share, text):
    cell = Cell(f"{share}%", bar=share)

    assert cell_text(cell, Column("CPU", has_bar=True), 9, 4) == text
    assert cell_text(cell, Column("CPU", has_bar=True), 4, 0) == f"{share}%".ljust(4)


@given(st.text("ab ", max_size=300), st.integers(1, 60), st.integers(1, 5))
def test_wrapped_lines_fit(text, width, most):
    lines = wrapped(text, width, most)

    assert len(lines) <= most
    assert all(len(line) <= width for line in lines)


def test_text_is_wrapped_at_words_and_cut_with_an_ellipsis():
    assert wrapped("one two three", 7, 3) == ["one two", "three"]
    assert wrapped("one two three four", 7, 2) == ["one two", "three …"]
    assert wrapped("abcdefghij", 4, 3) == ["abcd", "efgh", "ij"]
