"""Decoding of an API server's JSON to typed structs, with errors that name the field."""

from typing import Final, TypeVar

import msgspec

from bursar.wire.structs.fields import FieldError
from bursar.wire.structs.shape import shaped

Typed = TypeVar("Typed", bound=msgspec.Struct)

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoders of msgspec raise for bytes that they cannot decode. For JSON that is nested about
as deeply as the recursion limit this is `RecursionError`, also in fields that are not read."""


def decode_body(body: bytes, kind: type[Typed]) -> Typed:
    """Decode the fields of a struct. Raises `FieldError`, or `ValueError` for invalid JSON."""
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError:
            # This error has no names of keys, so the body is decoded again to find the field.
            return shaped(msgspec.json.decode(body), kind)
    except RecursionError:
        raise FieldError("", "nested too deeply to be read") from None
