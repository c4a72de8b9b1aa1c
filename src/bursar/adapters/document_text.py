"""Documents as the text that commands print: JSON and YAML, to be read as the same data again."""

from collections.abc import Iterable

from bursar.wire import json_writing
from bursar.wire.documents import yaml_writing
from bursar.wire.structs.fields import FieldError

__all__ = ["UnwritableError", "json_text", "require_writable", "yaml_stream", "yaml_text"]


class UnwritableError(ValueError):
    """Data that no document can hold. Its text names the field and the reason."""


def json_text(document: object) -> str:
    """JSON with two blanks a level. Raises `UnwritableError`."""
    try:
        return json_writing.json_text(document)
    except ValueError:
        require_writable(document)
        raise


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
