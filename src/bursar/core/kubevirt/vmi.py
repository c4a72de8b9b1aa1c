"""A VirtualMachineInstance, its migrations and KubeVirt's settings: the fields that charge a VM."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList, nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTopology:
    """`cores`, `sockets` and `threads` of a guest. Zero means that the field is not set."""

    cores: int = 0
    sockets: int = 0
    threads: int = 0

    @property
    def vcpus(self) -> int:
        """The product of the fields that are set; 0 if none is.

        >>> CpuTopology(cores=2, threads=2).vcpus, CpuTopology().vcpus
        (4, 0)
        """
        counts = [each for each in (self.cores, self.sockets, self.threads) if each]
        return prod(counts) if counts else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """The hardware of a VM, as its spec states it."""

    requests: ResourceList = field(default_factory=nothing)
    """`spec.domain.resources.requests`."""
    limits: ResourceList = field(default_factory=nothing)
    memory: Quantity | None = None
    """`spec.domain.memory.guest`."""
    cpu: CpuTopology | None = None
    """`spec.domain.cpu`; None is not the same as a topology without any field."""
    has_dedicated_cpus: bool = False
    architecture: str = ""
    has_graphics: bool = True
    """False if `devices.autoattachGraphicsDevice` is false."""
    has_tpm: bool = False
    has_vfio: bool = False
    """Whether it has host devices, GPUs or an SR-IOV interface."""
    has_downward_metrics: bool = False
    has_encrypted_memory: bool = False
    """Whether it uses SEV, SEV-ES or SEV-SNP."""
    exec_probes: int = 0
    """Number of liveness and readiness probes that run a command: 0, 1 or 2."""
    binding_plugins: tuple[str, ...] = ()
    """Names of the network binding plugins of its interfaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vmi:
    """A VirtualMachineInstance."""

    namespace: str
    name: str
    uid: str
    guest: Guest
    node_name: str = ""
    """`status.nodeName`: where the VM runs; empty before it has started."""
    requested_memory: Quantity | None = None
    """`status.memory.guestRequested`: the memory before a hotplug has been migrated."""
    current_cpu: CpuTopology | None = None
    """`status.currentCPUTopology`."""
    migration_pods: tuple[str, ...] = ()
    """Names of source and target pod of the last migration: `status.migrationState`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A VirtualMachineInstanceMigration."""

    namespace: str
    name: str
    uid: str
    vmi_name: str
    created_s: int
    is_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeVirtSettings:
    """The fields of a KubeVirt object that change the memory overhead of its VMs."""

    overhead_ratio: str = ""
    """`additionalGuestMemoryOverheadRatio`: a decimal number, or empty."""
    plugin_memory: Mapping[str, Quantity] = field(default_factory=dict)
    """Memory that each network binding plugin requests for a VM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeVirt:
    """A KubeVirt object: an installation of KubeVirt."""

    namespace: str
    name: str
    settings: KubeVirtSettings | None
    """None while the object is being deleted."""
