"""The memory that KubeVirt adds to a launcher pod for the processes around the guest.

It repeats KubeVirt's own estimate, as AAQ does for the mode GuestEffectiveResources. AAQ adds
the firmware of arm64 if its controller runs on arm64; here the architecture of the VM decides.
"""

import re
from fractions import Fraction
from typing import Final

from bursar.core.kubevirt.vmi import Guest, KubeVirtSettings
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.numbers.binary_float import binary64, truncated_int64
from bursar.core.model.quantity import ZERO

_MI: Final = 2**20
_COMPONENTS: Final = (25 + 100 + 25 + 40 + 30) * _MI
"""virt-launcher-monitor, virt-launcher, virtlogd, virtqemud and qemu."""
_PER_VCPU: Final = 8 * _MI
_IO_THREAD: Final = 8 * _MI
_VIDEO: Final = 32 * _MI
_ARM_FIRMWARE: Final = 128 * _MI
_VFIO: Final = 1024 * _MI
_DOWNWARD_METRICS: Final = _MI
_EXEC_PROBE: Final = 10 * _MI
_EXEC_PROBES: Final = 100 * _MI
"""Added once if there is any such probe."""
_ENCRYPTION: Final = 256 * _MI
_TPM: Final = 53 * _MI
_GUARANTEED: Final = 100 * _MI
_KILO: Final = 1000
_PAGE_TABLE_SHARE: Final = 512
"""Page tables need one bit for each 512 bits of memory."""
_RATIO: Final = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{0,15})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
"""Decimal numbers. Go also parses hexadecimal ones and infinity, which KubeVirt has no use for."""


def memory_overhead(guest: Guest, settings: KubeVirtSettings) -> int:
    """The overhead in bytes."""
    total = _estimate(guest)
    if settings.overhead_ratio:
        total += _additional(total, settings.overhead_ratio)
    plugins = dict.fromkeys(guest.binding_plugins)
    return total + sum(settings.plugin_memory.get(name, ZERO).whole_units for name in plugins)


def _estimate(guest: Guest) -> int:
    memory = guest.requests.get(MEMORY, ZERO)
    total = _in_kilo(memory.whole_units) * _KILO // _PAGE_TABLE_SHARE
    total += _COMPONENTS + _PER_VCPU * _vcpus(guest) + _IO_THREAD
    total += _VIDEO * guest.has_graphics
    total += _ARM_FIRMWARE * (guest.architecture == "arm64")
    total += _VFIO * guest.has_vfio
    total += _DOWNWARD_METRICS * guest.has_downward_metrics
    total += _EXEC_PROBE * guest.exec_probes + _EXEC_PROBES * bool(guest.exec_probes)
    total += _ENCRYPTION * guest.has_encrypted_memory
    total += _TPM * guest.has_tpm
    return total + _GUARANTEED * (guest.has_dedicated_cpus or _wants_guaranteed_qos(guest))


def _vcpus(guest: Guest) -> int:
    """The topology decides, even if it is empty; else the limit, else the request; at least 1."""
    if guest.cpu is not None:
        return max(1, guest.cpu.vcpus)
    amount = guest.limits.get(CPU, guest.requests.get(CPU, ZERO))
    return max(1, amount.whole_units)


def _wants_guaranteed_qos(guest: Guest) -> bool:
    requests, limits = guest.requests, guest.limits
    memory, memory_limit = requests.get(MEMORY, ZERO), limits.get(MEMORY, ZERO)
    cpu = requests.get(CPU, ZERO)
    is_memory_guaranteed = memory == memory_limit if memory.nanos else memory_limit.nanos != 0
    return is_memory_guaranteed and not cpu.is_zero and cpu == limits.get(CPU, ZERO)


def _additional(overhead: int, ratio: str) -> int:
    """What the ratio adds, computed in float64 as KubeVirt does; 0 if it is not a number."""
    if not _RATIO.fullmatch(ratio):
        return 0
    factor = binary64(binary64(Fraction(ratio)) - 1)
    return truncated_int64(binary64(_in_kilo(overhead) * factor)) * _KILO


def _in_kilo(amount: int) -> int:
    """The number of thousands, rounded up."""
    return -(-amount // _KILO)
