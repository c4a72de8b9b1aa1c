"""Plain data as indented JSON; the counterpart of `yaml_writing`."""

import json
from typing import Final

from bursar.wire.documents.tree import Number
from bursar.wire.documents.yaml_writing import require_finite

STEP: Final = "  "


def json_text(document: object) -> str:
    """JSON indented by two spaces, with every `Number` spelt as it was written.

    Characters that a terminal obeys are escaped: C1 controls, and marks of text direction.
    Raises `FieldError` for a number that is infinite or not a number.

    >>> print(json_text({"a": [Number("1.10"), 2], "b": {}}))
    {
      "a": [
        1.10,
        2
      ],
      "b": {}
    }
    """
    require_finite(document)
    return _written(document, "\n")


def _written(value: object, line: str) -> str:
    """The JSON of a value that begins on a line with this indentation."""
    inner = line + STEP
    if isinstance(value, dict) and value:
        parts = [f"{inner}{_scalar(key)}: {_written(each, inner)}" for key, each in value.items()]
        return f"{{{','.join(parts)}{line}}}"
    if isinstance(value, list | tuple) and value:
        parts = [f"{inner}{_written(each, inner)}" for each in value]
        return f"[{','.join(parts)}{line}]"
    return value.text if isinstance(value, Number) else _scalar(value)


def _scalar(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
