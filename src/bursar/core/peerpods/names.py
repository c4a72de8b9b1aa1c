"""Names of peer pods that options have as defaults."""

from typing import Final

RUNTIME_CLASS: Final = "kata-remote"
GPU_RESOURCE: Final = "nvidia.com/gpu"
VM_RESOURCE: Final = "kata.peerpods.io/vm"
