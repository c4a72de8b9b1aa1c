"""What a quota must know of the device annotations of a pod, read from the pod's JSON.

The controller calls this for every event of every pod, so pods without such an annotation are not
decoded.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from bursar.core.counting.devices import DeriveDevices, DeviceFacts, device_facts
from bursar.core.devices.claim import Claims
from bursar.core.devices.source import Source
from bursar.wire.devices.annotation import decode_claims
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawTexts
from bursar.wire.structs.struct import Struct

TEXT_LENGTH_MAX: Final = 1 << 14
DEVICES_MAX: Final = 128
"""Longest annotation and most devices that are read. No pod has that many devices, and a tenant
causes this work with every change of a pod, in a process that serves all tenants."""
REMEMBERED_MAX: Final = 512
"""Annotations whose result is remembered. A pod changes often, and its devices do not."""


class _Annotations(Struct):
    """Of the metadata only the annotations: it is decoded for each change of a pod."""

    annotations: RawTexts | None = None


class _Pod(Struct):
    metadata: _Annotations | None = None


def derive_devices(sources: Sequence[Source]) -> DeriveDevices:
    """A function that reads the facts.

    An annotation that cannot be read counts as none: the pod still costs what it requests.
    """
    by_name = {source.name: source for source in sources}
    marks = tuple(source.annotation.encode() for source in sources)

    def derive(body: bytes) -> DeviceFacts | None:
        if not any(mark in body for mark in marks):
            return None
        try:
            meta = decode_body(body, _Pod).metadata or _Annotations()
        except ValueError:
            return None
        held = meta.annotations or {}
        return allocated(tuple([_short(held.get(source.annotation)) for source in sources]))

    @lru_cache(maxsize=REMEMBERED_MAX)
    def allocated(texts: tuple[str, ...]) -> DeviceFacts | None:
        found = (_claims(text, source) for text, source in zip(texts, sources, strict=True))
        return device_facts([each for each in found if each is not None], by_name)

    return derive


def _short(text: str | None) -> str:
    """The text, or nothing if it is missing or too long to be read and remembered."""
    return text if text is not None and len(text) <= TEXT_LENGTH_MAX else ""


def _claims(text: str, source: Source) -> Claims | None:
    if not text:
        return None
    try:
        return decode_claims(text, source, length_max=TEXT_LENGTH_MAX, claims_max=DEVICES_MAX)
    except ValueError:
        return None
