"""Names of peer pods: defaults of options, and annotations."""

from typing import Final

RUNTIME_CLASS: Final = "kata-remote"
GPU_RESOURCE: Final = "nvidia.com/gpu"
VM_RESOURCE: Final = "kata.peerpods.io/vm"

_HYPERVISOR: Final = "io.katacontainers.config.hypervisor."
VCPUS_ANNOTATION: Final = f"{_HYPERVISOR}default_vcpus"
MEMORY_ANNOTATION: Final = f"{_HYPERVISOR}default_memory"
MEMORY_ALIAS_ANNOTATION: Final = f"{_HYPERVISOR}default_mem"
"""The name in upstream's documentation. Upstream's code and Kata know only `default_memory`."""
GPUS_ANNOTATION: Final = f"{_HYPERVISOR}default_gpus"
MACHINE_TYPE_ANNOTATION: Final = f"{_HYPERVISOR}machine_type"
RECORD_ANNOTATION: Final = "bursar.io/peerpod-removed"
"""Has what the rewrite removed from the pod; see `record`."""
