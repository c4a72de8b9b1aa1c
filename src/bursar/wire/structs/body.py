"""From the JSON of an API server to typed structs, with errors that name the field."""

from typing import TypeVar

import msgspec

from bursar.wire.structs.fields import FieldError
from bursar.wire.structs.shape import shaped

Typed = TypeVar("Typed", bound=msgspec.Struct)


def decode_body(body: bytes, kind: type[Typed]) -> Typed:
    """Read what the struct asks for. Raises `FieldError`, or `ValueError` for what is no JSON."""
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError:
            # It says where, but not by the names of keys; what is rarely wrong is read twice.
            return shaped(msgspec.json.decode(body), kind)
    except RecursionError:
        raise FieldError("", "nested too deeply to be read") from None
