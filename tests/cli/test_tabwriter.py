"""Columns: what Go's tabwriter does with the settings of `kubectl describe`."""

import pytest

from bursar.cli.output.tabwriter import aligned


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("\n", "\n"),
        ("no tabs\n", "no tabs\n"),
        ("a\tb\nlong\tunfinished", "a     b\nlong  unfinished"),
        ("a\tb\n", "a  b\n"),
        ("a\tb\nlong\tc\n", "a     b\nlong  c\n"),
        ("a\t\tb\n", "a    b\n"),
        ("a\t\nlong\tb\n", "a     \nlong  b\n"),
        ("漢\tb\nab\tc\n", "漢   b\nab  c\n"),
    ],
)
def test_a_column_is_as_wide_as_its_longest_cell_and_two_spaces(text, expected):
    assert aligned(text) == expected


def test_a_line_without_a_cell_ends_the_column():
    assert aligned("a\tb\nTitle:\nlong\tc\n") == "a  b\nTitle:\nlong  c\n"


def test_a_shorter_line_ends_only_the_columns_it_lacks():
    assert aligned("a\tb\tc\nlong\tx\nb\tlong\td\n") == ("a     b  c\nlong  x\nb     long  d\n")


def test_text_behind_the_last_tab_widens_nothing():
    assert aligned("a\tvery long\nb\tc\td\n") == "a  very long\nb  c  d\n"


def test_a_form_feed_ends_the_line_and_all_columns():
    assert aligned("a\tb\flong\tc\n") == "a  b\nlong  c\n"


def test_a_vertical_tab_ends_a_cell():
    assert aligned("a\vb\nlong\tc\n") == "a     b\nlong  c\n"


def test_a_tab_at_the_very_end_begins_no_cell():
    assert aligned("long\tb\na\t") == "long  b\na"


def test_characters_that_could_drive_a_terminal_are_spelled_out():
    assert aligned("\x1b[2J\ta\rb\nx\ty\n") == "^[[2J  a\\rb\nx      y\n"
