"""Kinds of objects that describe devices."""

from typing import Final

from bursar.app.cluster.ports import Resource

DEVICES: Final = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "devices", "Device", is_namespaced=False
)
"""Koordinator's inventory: one object for each node, with the node's name."""
RESOURCE_CLAIMS: Final = tuple(
    Resource("resource.k8s.io", version, "resourceclaims", "ResourceClaim")
    for version in ("v1", "v1beta2", "v1beta1")
)
"""Newest version first. A cluster serves some of them, with the same claims in each."""
