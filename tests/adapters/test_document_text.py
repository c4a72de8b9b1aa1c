"""JSON and YAML as commands print them."""

import json
import math

import pytest

from bursar.adapters.document_text import (
    UnwritableError,
    json_text,
    require_writable,
    yaml_stream,
    yaml_text,
)


def test_json_has_no_character_that_a_terminal_obeys():
    document = {"a": "\x9b31m\u202e\x7f", "é": "\ud800"}
    text = json_text(document)

    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == document


@pytest.mark.parametrize(
    "write", [json_text, yaml_text, require_writable, lambda document: yaml_stream([document])]
)
def test_what_no_document_can_hold_is_refused_with_its_field(write):
    with pytest.raises(UnwritableError, match=r"a\[1\]: the number is too large, or none"):
        write({"a": [1.5, math.inf]})
