"""Plain data as indented JSON, with every `Number` spelt as it was written."""

import json
from typing import Final

from bursar.wire.documents.tree import Number

STEP: Final = "  "


def json_text(document: object) -> str:
    """JSON with two blanks a level. Raises `ValueError` for a float that is not finite.

    Characters that a terminal obeys are escaped: C1 controls, and marks of text direction.

    >>> print(json_text({"a": [Number("1.10"), 2], "b": {}}))
    {
      "a": [
        1.10,
        2
      ],
      "b": {}
    }
    """
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
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
