"""Which object a body of any kind is about, as informers want to know it."""

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Key
from bursar.wire.cluster.object_identity import find_identity


def locate(body: bytes) -> Identity | None:
    """None if the body does not tell; for bodies that cannot, or need not, be read whole."""
    found = find_identity(body)
    if found is None:
        return None
    return Identity(Key(found.namespace, found.name), found.uid, found.resource_version)
