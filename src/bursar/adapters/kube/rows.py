"""What an informer of pods has to know beside how to read a body: which pod it is about."""

from bursar.app.informer_store import Identity
from bursar.app.ports import Key, Resource
from bursar.core.model.pod_row import PodRow

PODS = Resource("", "v1", "pods", "Pod")


def identify_pod(row: PodRow) -> Identity:
    stamp = row.stamp
    return Identity(Key(row.namespace, row.name), stamp.uid, stamp.resource_version)
