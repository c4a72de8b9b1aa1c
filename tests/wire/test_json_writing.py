"""JSON and YAML as commands print them."""

import json
import math

import pytest

from bursar.wire.documents.json_writing import json_text
from bursar.wire.documents.yaml_writing import require_finite, yaml_stream, yaml_text
from bursar.wire.structs.fields import FieldError


def test_json_has_no_character_that_a_terminal_obeys():
    document = {"a": "\x9b31m\u202e\x7f", "é": "\ud800"}
    text = json_text(document)

    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == document


@pytest.mark.parametrize(
    "write", [json_text, yaml_text, require_finite, lambda document: yaml_stream([document])]
)
def test_what_no_document_can_hold_is_refused_with_its_field(write):
    with pytest.raises(FieldError, match=r"a\[1\]: the number is too large, or none"):
        write({"a": [1.5, math.inf]})
