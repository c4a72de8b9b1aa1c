"""Why a launcher pod costs what it costs, in a few words for the owner of the VM."""

from bursar.core.kubevirt.launchers import Role
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.kubevirt.overhead import memory_overhead
from bursar.core.kubevirt.vmi import KubeVirtSettings, Vmi
from bursar.core.model.names import CPU, MEMORY, QUOTA_REQUESTS_PREFIX
from bursar.core.model.quantity import Format, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.names import LIMITS_PREFIX


def reason_of(
    mode: VmiMode, role: Role, vmi: Vmi, usage: ResourceList, settings: KubeVirtSettings | None
) -> str:
    """For example "VM db: 4 vCPUs, 8Gi"."""
    if role is Role.TARGET:
        return f"VM {vmi.name}, migration target: {_grown(usage)} more than the source"
    if role is Role.LEFTOVER:
        return f"VM {vmi.name}, left over from a migration: {_grown(usage)} more than the source"
    if mode is VmiMode.POD_USAGE:
        return f"VM {vmi.name}: requests and limits of its pod"
    if mode is VmiMode.GUEST_EFFECTIVE:
        return f"VM {vmi.name}: container compute{_without(vmi, settings)}"
    suffix = "/vmi" if mode is VmiMode.DEDICATED else ""
    cpu, memory = str(usage[CPU + suffix]), str(usage[MEMORY + suffix])
    return f"VM {vmi.name}: {cpu} vCPU{'' if cpu == '1' else 's'}, {memory}"


def _without(vmi: Vmi, settings: KubeVirtSettings | None) -> str:
    if settings is None:
        return ""
    overhead = Quantity.of(memory_overhead(vmi.guest, settings), Format.BINARY_SI)
    return f" without {overhead} of memory overhead"


def _grown(usage: ResourceList) -> str:
    """Each amount once: `requests.cpu` is left out beside `cpu`."""
    parts = [
        f"{name} {amount}"
        for name, amount in sorted(usage.items())
        if not amount.is_zero and _short(name) not in usage
    ]
    return ", ".join(parts) or "0"


def _short(name: str) -> str | None:
    """The name without its prefix; None if it has none."""
    for prefix in (QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return None
