"""The identity of an object of any kind, for callers that cannot or need not decode the rest."""

from typing import NamedTuple

import msgspec

from bursar.wire.structs.struct import Struct


class RawIdentity(NamedTuple):
    namespace: str
    name: str
    uid: str
    resource_version: str


class _IdentityMeta(Struct):
    name: str
    uid: str
    resource_version: str
    namespace: str | None = None


class _IdentifiedObject(Struct):
    """Declares no labels or annotations, so that an object with invalid ones is identified too."""

    metadata: _IdentityMeta


_DECODER = msgspec.json.Decoder(_IdentifiedObject)


def find_identity(body: bytes) -> RawIdentity | None:
    """The identity of the object in a body; None if a field of it is missing.

    >>> find_identity(b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}')
    RawIdentity(namespace='', name='a', uid='u', resource_version='1')
    """
    try:
        meta = _DECODER.decode(body).metadata
    except msgspec.DecodeError:
        return None
    return RawIdentity(meta.namespace or "", meta.name, meta.uid, meta.resource_version)
