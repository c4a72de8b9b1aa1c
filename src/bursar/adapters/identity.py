"""Which object a body of any kind is about, as informers want to know it."""

from bursar.app.informer_store import Identity
from bursar.app.ports import Key
from bursar.wire.object_identity import find_identity


def locate(body: bytes) -> Identity | None:
    """None if the body does not tell; for bodies that cannot, or need not, be read whole."""
    found = find_identity(body)
    if found is None:
        return None
    return Identity(Key(found.namespace, found.name), found.uid, found.resource_version)
