"""What an informer of pods has to know: how to read a body, and which object it is about."""

from bursar.app.informer_store import Identity
from bursar.app.ports import Key, Resource
from bursar.core.model.pod_row import PodRow
from bursar.wire.object_identity import find_identity

PODS = Resource("", "v1", "pods", "Pod")


def identify_pod(row: PodRow) -> Identity:
    stamp = row.stamp
    return Identity(Key(row.namespace, row.name), stamp.uid, stamp.resource_version)


def locate(body: bytes) -> Identity | None:
    """Which object of any kind a body is about, for bodies that cannot be read whole."""
    found = find_identity(body)
    if found is None:
        return None
    return Identity(Key(found.namespace, found.name), found.uid, found.resource_version)
