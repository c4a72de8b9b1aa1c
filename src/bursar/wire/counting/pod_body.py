"""Keeping a pod's JSON for counters, without the fields that no counter reads."""

from functools import lru_cache
from typing import Final
from zlib import compress

import msgspec

from bursar.core.counting.pod_body import PodBody

LEVEL: Final = 1
"""The fastest compression. It makes a usual pod about three times smaller."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@lru_cache(maxsize=1)  # Several counters keep the same pod, one after the other.
def keep_body(body: bytes) -> PodBody:
    """The pod without `managedFields`, which are half of a usual pod. Never raises."""
    json = _without(body, "metadata", "managedFields")
    return PodBody(compress(json, LEVEL), len(json))


def without_gates(body: bytes) -> bytes:
    """The pod as it is after its release. AAQ's sidecars are asked about pods without gates."""
    return _without(body, "spec", "schedulingGates")


def _without(body: bytes, parent: str, field: str) -> bytes:
    """Remove a field. A body that cannot be read stays as it is."""
    try:
        pod = _OBJECT.decode(body)
        fields = _OBJECT.decode(pod[parent])
    except (KeyError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return body
    if fields.pop(field, None) is None:
        return body
    pod[parent] = msgspec.Raw(msgspec.json.encode(fields))
    return msgspec.json.encode(pod)
