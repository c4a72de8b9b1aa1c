"""Decoding of KubeVirt's objects: VMs, their migrations, and the settings.

Only the fields that a charge depends on are decoded. A field with a wrong type makes the object
unreadable, and its last readable state stays in force.
"""

from typing import Final

import msgspec

from bursar.core.kubevirt.vmi import (
    CpuTopology,
    Guest,
    KubeVirt,
    KubeVirtSettings,
    Migration,
    Vmi,
)
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod_row import epoch_s
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import (
    FieldError,
    RawResourceList,
    Scalar,
    decode_quantity,
    decode_resources,
    decode_time,
)
from bursar.wire.structs.metadata import Named, ObjectMeta, required_name
from bursar.wire.structs.struct import Struct

FAILED: Final = "Failed"
UINT32_MAX: Final = 2**32 - 1
NAME_LENGTH_MAX: Final = 253
"""Longest name of an object, or of an architecture. The schemas of KubeVirt do not check it."""
PLUGINS_MAX: Final = 256
"""Most binding plugins of one VM."""


class Requirements(Struct):
    requests: RawResourceList | None = None
    limits: RawResourceList | None = None


class DomainCpu(Struct):
    cores: int | None = None
    sockets: int | None = None
    threads: int | None = None
    dedicated_cpu_placement: bool | None = None


class DomainMemory(Struct):
    guest: Scalar = None


class Present(Struct):
    """An object of which only its presence matters."""


class Interface(Struct):
    sriov: Present | None = None
    binding: Named | None = None


class Tpm(Struct):
    enabled: bool | None = None


class Devices(Struct):
    autoattach_graphics_device: bool | None = None
    tpm: Tpm | None = None
    gpus: list[Present] | None = None
    host_devices: list[Present] | None = None
    interfaces: list[Interface] | None = None


class LaunchSecurity(Struct):
    sev: Present | None = None
    snp: Present | None = None


class Domain(Struct):
    resources: Requirements | None = None
    memory: DomainMemory | None = None
    cpu: DomainCpu | None = None
    devices: Devices | None = None
    launch_security: LaunchSecurity | None = None


class Probe(Struct):
    exec: Present | None = None


class Volume(Struct):
    downward_metrics: Present | None = None


class VmiSpec(Struct):
    domain: Domain | None = None
    architecture: str | None = None
    volumes: list[Volume] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None


class MemoryStatus(Struct):
    guest_requested: Scalar = None


class MigrationState(Struct):
    source_pod: str | None = None
    target_pod: str | None = None


class VmiStatus(Struct):
    node_name: str | None = None
    migration_state: MigrationState | None = None
    memory: MemoryStatus | None = None
    current_cpu: DomainCpu | None = msgspec.field(default=None, name="currentCPUTopology")


class VirtualMachineInstance(Struct):
    metadata: ObjectMeta | None = None
    spec: VmiSpec | None = None
    status: VmiStatus | None = None


def decode_vmi(body: bytes) -> Vmi:
    """Decode a VirtualMachineInstance. Raises `FieldError` or another `ValueError`."""
    read = decode_body(body, VirtualMachineInstance)
    meta, status = read.metadata or ObjectMeta(), read.status or VmiStatus()
    memory, moved = status.memory, status.migration_state or MigrationState()
    return Vmi(
        namespace=meta.namespace or "",
        name=required_name(meta),
        uid=meta.uid or "",
        guest=_guest(read.spec or VmiSpec()),
        node_name=_name(status.node_name),
        requested_memory=None
        if memory is None
        else _stated(memory.guest_requested, "status.memory.guestRequested"),
        current_cpu=_topology(status.current_cpu, "status.currentCPUTopology"),
        migration_pods=tuple(filter(None, map(_name, (moved.source_pod, moved.target_pod)))),
    )


def _name(text: str | None) -> str:
    """The text; empty if it is longer than any name. A tenant may write a megabyte."""
    return text if text is not None and len(text) <= NAME_LENGTH_MAX else ""


def _guest(spec: VmiSpec) -> Guest:
    domain = spec.domain or Domain()
    resources, devices = domain.resources or Requirements(), domain.devices or Devices()
    interfaces, security = devices.interfaces or [], domain.launch_security or LaunchSecurity()
    probes = (spec.liveness_probe, spec.readiness_probe)
    memory, cpu, tpm = domain.memory or DomainMemory(), domain.cpu, devices.tpm
    return Guest(
        requests=_sizes(resources.requests, "spec.domain.resources.requests"),
        limits=_sizes(resources.limits, "spec.domain.resources.limits"),
        memory=_stated(memory.guest, "spec.domain.memory.guest"),
        cpu=_topology(cpu, "spec.domain.cpu"),
        has_dedicated_cpus=cpu is not None and cpu.dedicated_cpu_placement is True,
        architecture=_name(spec.architecture),
        has_graphics=devices.autoattach_graphics_device is not False,
        has_tpm=tpm is not None and tpm.enabled is not False,
        has_vfio=bool(devices.gpus or devices.host_devices)
        or any(each.sriov is not None for each in interfaces),
        has_downward_metrics=any(each.downward_metrics is not None for each in spec.volumes or ()),
        has_encrypted_memory=security.sev is not None or security.snp is not None,
        exec_probes=sum(each is not None and each.exec is not None for each in probes),
        binding_plugins=_plugins(interfaces),
    )


def _plugins(interfaces: list[Interface]) -> tuple[str, ...]:
    names = dict.fromkeys(_name(each.binding.name) for each in interfaces if each.binding)
    if len(names) > PLUGINS_MAX:
        field = "spec.domain.devices.interfaces"
        raise FieldError(field, f"more than {PLUGINS_MAX} binding plugins")
    return tuple(names)


def _sizes(raw: RawResourceList | None, field: str) -> ResourceList:
    """CPU and memory. Other names do not matter, and there may be any number of them."""
    stated = raw or {}
    sizes: RawResourceList = {name: stated[name] for name in (CPU, MEMORY) if name in stated}
    return decode_resources(sizes, field)


def _topology(raw: DomainCpu | None, field: str) -> CpuTopology | None:
    if raw is None:
        return None
    counts = [each or 0 for each in (raw.cores, raw.sockets, raw.threads)]
    if min(counts) < 0 or max(counts) > UINT32_MAX:
        raise FieldError(field, f"whole numbers from 0 to {UINT32_MAX} are expected")
    cores, sockets, threads = counts
    return CpuTopology(cores=cores, sockets=sockets, threads=threads)


def _stated(raw: Scalar, field: str) -> Quantity | None:
    return None if raw is None else decode_quantity(raw, field)


# ------------------------------------------------------------------ migrations and settings


class MigrationSpec(Struct):
    vmi_name: str | None = None


class MigrationStatus(Struct):
    phase: str | None = None


class VirtualMachineInstanceMigration(Struct):
    metadata: ObjectMeta | None = None
    spec: MigrationSpec | None = None
    status: MigrationStatus | None = None


def decode_migration(body: bytes) -> Migration:
    """Decode a VirtualMachineInstanceMigration. Raises `FieldError` or another `ValueError`."""
    read = decode_body(body, VirtualMachineInstanceMigration)
    meta = read.metadata or ObjectMeta()
    created = decode_time(meta.creation_timestamp, "metadata.creationTimestamp")
    return Migration(
        namespace=meta.namespace or "",
        name=required_name(meta),
        uid=meta.uid or "",
        vmi_name=_name((read.spec or MigrationSpec()).vmi_name),
        created_s=0 if created is None else epoch_s(created),
        is_failed=(read.status or MigrationStatus()).phase == FAILED,
    )


class BindingPlugin(Struct):
    compute_resource_overhead: Requirements | None = None


class NetworkConfiguration(Struct):
    binding: dict[str, BindingPlugin | None] | None = None


class Configuration(Struct):
    additional_guest_memory_overhead_ratio: str | None = None
    network: NetworkConfiguration | None = None


class KubeVirtSpec(Struct):
    configuration: Configuration | None = None


class KubeVirtObject(Struct):
    metadata: ObjectMeta | None = None
    spec: KubeVirtSpec | None = None


def decode_kubevirt(body: bytes) -> KubeVirt:
    """Decode a KubeVirt object. Raises `FieldError` or another `ValueError`."""
    read = decode_body(body, KubeVirtObject)
    meta = read.metadata or ObjectMeta()
    configuration = (read.spec or KubeVirtSpec()).configuration or Configuration()
    return KubeVirt(
        namespace=meta.namespace or "",
        name=required_name(meta),
        settings=None if meta.deletion_timestamp else _settings(configuration),
    )


def _settings(configuration: Configuration) -> KubeVirtSettings:
    plugins = (configuration.network or NetworkConfiguration()).binding or {}
    return KubeVirtSettings(
        overhead_ratio=configuration.additional_guest_memory_overhead_ratio or "",
        plugin_memory={
            name: memory
            for name, plugin in plugins.items()
            if (memory := _plugin_memory(name, plugin)) is not None
        },
    )


def _plugin_memory(name: str, plugin: BindingPlugin | None) -> Quantity | None:
    overhead = None if plugin is None else plugin.compute_resource_overhead
    requests = {} if overhead is None else overhead.requests or {}
    field = f"spec.configuration.network.binding[{name}].computeResourceOverhead.requests[memory]"
    return _stated(requests.get("memory"), field)
