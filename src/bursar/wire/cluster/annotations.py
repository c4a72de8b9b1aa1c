"""The annotations of an object of any kind."""

from typing import Final

import msgspec

from bursar.wire.structs.body import UNREADABLE
from bursar.wire.structs.metadata import PartialObjectMetadata

_METADATA: Final = msgspec.json.Decoder(PartialObjectMetadata)


def decode_annotation(body: bytes, name: str) -> str:
    """The value of one annotation; empty if it is missing. Raises `ValueError`.

    >>> decode_annotation(b'{"metadata": {"annotations": {"a": "b"}}}', "a")
    'b'
    """
    try:
        metadata = _METADATA.decode(body).metadata
    except UNREADABLE:
        raise ValueError("not an object with metadata") from None
    annotations = None if metadata is None else metadata.annotations
    return (annotations or {}).get(name) or ""
