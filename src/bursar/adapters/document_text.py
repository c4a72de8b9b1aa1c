"""Documents as the text that commands print: JSON and YAML, to be read as the same data again."""

import json
from collections.abc import Iterable

from bursar.wire.documents import yaml_writing
from bursar.wire.structs.fields import FieldError

__all__ = ["UnwritableError", "json_text", "require_writable", "yaml_stream", "yaml_text"]


class UnwritableError(ValueError):
    """Data that no document can hold. Its text names the field and the reason."""


def json_text(document: object) -> str:
    """JSON with two blanks a level. Raises `UnwritableError`."""
    try:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        require_writable(document)
        raise
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line) for line in lines)


def yaml_text(document: object) -> str:
    """One YAML document, which ends with a line break. Raises `UnwritableError`."""
    try:
        return yaml_writing.yaml_text(document)
    except FieldError as error:
        raise UnwritableError(str(error)) from None


def yaml_stream(documents: Iterable[object]) -> str:
    """YAML documents, a line of three dashes before each. Raises `UnwritableError`."""
    try:
        return yaml_writing.yaml_stream(documents)
    except FieldError as error:
        raise UnwritableError(str(error)) from None


def require_writable(document: object) -> None:
    """Raise `UnwritableError` for a number that is infinite, or none."""
    try:
        yaml_writing.require_finite(document)
    except FieldError as error:
        raise UnwritableError(str(error)) from None


def _escaped(line: str) -> str:
    """JSON lets through what a terminal obeys: C1 controls, and marks that turn the text round."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
