"""Which object a body is about, for those who cannot or need not read the rest."""

from typing import NamedTuple

import msgspec


class RawIdentity(NamedTuple):
    namespace: str
    name: str
    uid: str
    resource_version: str


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str
    namespace: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta


_DECODER = msgspec.json.Decoder(_Object)


def find_identity(body: bytes) -> RawIdentity | None:
    """None if the body does not tell, or is no object at all.

    >>> find_identity(b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}')
    RawIdentity(namespace='', name='a', uid='u', resource_version='1')
    """
    try:
        meta = _DECODER.decode(body).metadata
    except msgspec.DecodeError:
        return None
    return RawIdentity(meta.namespace or "", meta.name, meta.uid, meta.resource_version)
