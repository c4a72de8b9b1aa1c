"""The settings file of sources: reading it, and errors."""

import pytest

from bursar.adapters.files.device_sources import (
    SOURCES_BYTES_MAX,
    read_sources,
)
from bursar.app.bad_input import BadInputError
from bursar.core.devices.source import KOORDINATOR


def test_without_a_file_koordinator_is_the_only_source():
    assert read_sources("") == (KOORDINATOR,)


def test_the_table_of_a_file_is_read(tmp_path):
    file = tmp_path / "sources.yaml"
    file.write_text("{sources: [{name: a, annotation: a.io/b, kinds: {c: {resource: a.io/c}}}]}")

    assert [each.name for each in read_sources(str(file))] == ["koordinator", "a"]


@pytest.mark.parametrize(
    "content", [b"sources: 7", b"- a", b"\xff", b"#" * (SOURCES_BYTES_MAX + 1)]
)
def test_a_file_that_is_no_table_is_told_in_one_line(tmp_path, content):
    file = tmp_path / "sources.yaml"
    file.write_bytes(content)
    with pytest.raises(BadInputError) as caught:
        read_sources(str(file))

    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(BadInputError, match="directory"):
        read_sources(str(tmp_path))
