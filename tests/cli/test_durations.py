"""Durations as options."""

import pytest

from bursar.cli.output.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("0s", 0)]
)
def test_durations_are_read_in_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1.5s", "1d", "1s ", "9999999999s"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration(text)
