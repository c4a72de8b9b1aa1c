"""The kinds of object that the extender reads and writes besides pods and namespaces."""

from typing import Final

from bursar.app.cluster.ports import Resource

GROUP: Final = "bursar.io"
CLUSTER_RESOURCES: Final = Resource(
    GROUP, "v1alpha1", "clusterresources", "ClusterResource", is_namespaced=False
)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
STORAGE_CAPACITIES: Final = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"
)
