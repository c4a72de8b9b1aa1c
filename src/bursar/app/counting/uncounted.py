"""Names in quotas that no counter charges.

A limit under such a name looks enforced and holds no pod. The quota's owner is told so.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bursar.core.quota.names import is_schedulable

TEXT_LENGTH_MAX: Final = 1000
VM_NAMES: Final = frozenset(
    prefix + amount + "/vmi" for prefix in ("", "requests.") for amount in ("cpu", "memory")
) | {"instances/vmi", "requests.instances/vmi"}
"""AAQ's names for the amounts of KubeVirt's VMs."""
PEER_POD_NAMES: Final = frozenset(
    f"{prefix}{amount}/peerpod"
    for prefix in ("", "requests.")
    for amount in ("cpu", "memory", "gpus", "instances")
)
DEVICE_NAMES: Final = frozenset(
    f"{prefix}{kind}/koordinator"
    for prefix in ("", "requests.")
    for kind in ("fpga", "gpu", "rdma", "xpu")
)
"""The names of Koordinator's devices. They are written out because every view of quotas imports
this module, and the table of allocators takes long to import; a test compares both."""


def uncounted_names(names: Iterable[str], may_charge: Callable[[str], bool]) -> tuple[str, ...]:
    """Names of a quota whose limits a gate should enforce, and that no counter charges; sorted."""
    return tuple(sorted(each for each in names if is_schedulable(each) and not may_charge(each)))


def what_would_count(name: str) -> str:
    """What the operator of the cluster could do about a name that no counter charges."""
    if name in VM_NAMES:
        return "counted only with --vmi-mode DedicatedVirtualResources"
    if name in PEER_POD_NAMES:
        return "counted only with --peerpod-mode DedicatedVirtualResources"
    if name in DEVICE_NAMES:
        return "counted only with --count-devices"
    return (
        "no counter charges this name; check its spelling, or charge it by a CountingPolicy "
        "(--counting-policies)"
    )


def uncounted_text(names: Sequence[str]) -> str:
    """The names, each with what would count it, as far as the length allows."""
    listed = [f"{name}: {what_would_count(name)}" for name in names]
    text = "; ".join(listed)
    while len(text) > TEXT_LENGTH_MAX:
        listed.pop()
        text = "; ".join((*listed, f"and {len(names) - len(listed)} more"))
    return text
