"""Reading which object a body is about, beside what is decoded of it."""

from collections.abc import Callable
from typing import TypeVar

from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.ports import Key
from bursar.wire.cluster.object_identity import find_identity

T = TypeVar("T")


def locate(body: bytes) -> Identity | None:
    """Read only which object a body is about; None if the body does not say."""
    found = find_identity(body)
    if found is None:
        return None
    return Identity(Key(found.namespace, found.name), found.uid, found.resource_version)


def sighted(decode: Callable[[bytes], T]) -> Callable[[bytes], Sighting[T]]:
    """Wrap a decoder so that it also returns the identity of the object."""

    def decode_sighted(body: bytes) -> Sighting[T]:
        identity = locate(body)
        if identity is None:
            raise ValueError("the object has no name")
        return Sighting(identity, decode(body))

    return decode_sighted
