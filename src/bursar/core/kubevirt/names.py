"""Names by which KubeVirt's objects and launcher pods are recognised, and counted."""

from typing import Final

GROUP: Final = "kubevirt.io"
VMI_KIND: Final = "VirtualMachineInstance"
APP_LABEL: Final = "kubevirt.io"
LAUNCHER: Final = "virt-launcher"
"""Value of the label `kubevirt.io` of launcher pods."""
MIGRATION_UID_LABEL: Final = "kubevirt.io/migrationJobUID"
MIGRATION_NAME_ANNOTATION: Final = "kubevirt.io/migrationJobName"
COMPUTE_CONTAINER: Final = "compute"
"""Name of the container of a launcher pod that the guest runs in."""
DEDICATED_NAMES: Final = ("instances/vmi", "memory/vmi", "cpu/vmi")
"""Names of resources that only VMs use. Each has a second form with the prefix `requests.`."""
