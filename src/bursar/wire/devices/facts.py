"""What a quota must know of the device annotations of a pod, read from the pod's JSON.

The controller calls this for every event of every pod, so pods without such an annotation are not
decoded.
"""

from collections.abc import Sequence

from bursar.core.counting.devices import DeriveDevices, DeviceFacts, device_facts
from bursar.core.devices.claim import Claims
from bursar.core.devices.source import Source
from bursar.wire.devices.annotation import decode_claims
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawTexts
from bursar.wire.structs.struct import Struct


class _Meta(Struct):
    annotations: RawTexts | None = None


class _Pod(Struct):
    metadata: _Meta | None = None


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
            meta = decode_body(body, _Pod).metadata or _Meta()
        except ValueError:
            return None
        held = meta.annotations or {}
        found = (_claims(held.get(source.annotation) or "", source) for source in sources)
        return device_facts([each for each in found if each is not None], by_name)

    return derive


def _claims(text: str, source: Source) -> Claims | None:
    if not text:
        return None
    try:
        return decode_claims(text, source)
    except ValueError:
        return None
