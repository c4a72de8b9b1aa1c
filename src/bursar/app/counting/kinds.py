"""Kinds of object that counters depend on: Bursar's own, and those of KubeVirt."""

from typing import Final

from bursar.app.cluster.ports import Resource
from bursar.core.kubevirt.names import GROUP as KUBEVIRT_GROUP
from bursar.core.kubevirt.names import VMI_KIND

GROUP: Final = "bursar.io"
COUNTING_POLICIES: Final = Resource(
    GROUP, "v1alpha1", "countingpolicies", "CountingPolicy", is_namespaced=False
)

VMIS: Final = Resource(KUBEVIRT_GROUP, "v1", "virtualmachineinstances", kind=VMI_KIND)
MIGRATIONS: Final = Resource(
    KUBEVIRT_GROUP, "v1", "virtualmachineinstancemigrations", kind="VirtualMachineInstanceMigration"
)
KUBEVIRTS: Final = Resource(KUBEVIRT_GROUP, "v1", "kubevirts", kind="KubeVirt")
