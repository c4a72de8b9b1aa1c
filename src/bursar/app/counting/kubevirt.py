"""Counting of KubeVirt's VMs: the counter, and the kinds of object that it must know."""

from typing import TYPE_CHECKING

from bursar.app.counting.feeds import CountingPart, WatchedKind
from bursar.app.counting.kinds import KUBEVIRTS, MIGRATIONS, VMIS
from bursar.core.kubevirt.counter import VmCounter
from bursar.core.kubevirt.mode import VmiMode
from bursar.wire.launcher_pods import derive_launcher_facts

if TYPE_CHECKING:
    from bursar.core.kubevirt.vmi import KubeVirt, Migration, Vmi


def kubevirt_part(mode: VmiMode) -> CountingPart | None:
    """The part that counts VMs; None if VMs are not recognised, so that KubeVirt is not read."""
    if mode is VmiMode.IGNORE:
        return None
    counter = VmCounter(mode, derive_launcher_facts)
    vmis = WatchedKind(
        resource=VMIS,
        decode=_decode_vmi,
        see=counter.see_vmi,
        lose=counter.lose_vmi,
        set_state=counter.set_vmi_state,
        is_named_by_pods=True,
    )
    migrations = WatchedKind(
        resource=MIGRATIONS,
        decode=_decode_migration,
        see=counter.see_migration,
        lose=counter.lose_migration,
        set_state=counter.set_migration_state,
    )
    kubevirts = WatchedKind(
        resource=KUBEVIRTS,
        decode=_decode_kubevirt,
        see=counter.see_kubevirt,
        lose=counter.lose_kubevirt,
        set_state=counter.set_kubevirt_state,
    )
    # Only the memory overhead depends on the settings of KubeVirt.
    settings = (kubevirts,) if mode is VmiMode.GUEST_EFFECTIVE else ()
    return CountingPart(counter=counter, kinds=(vmis, migrations, *settings))


# Most files and most clusters have no VM, and then the definitions of the objects are not imported.


def _decode_vmi(body: bytes) -> "Vmi":
    from bursar.wire.kubevirt import decode_vmi  # noqa: PLC0415

    return decode_vmi(body)


def _decode_migration(body: bytes) -> "Migration":
    from bursar.wire.kubevirt import decode_migration  # noqa: PLC0415

    return decode_migration(body)


def _decode_kubevirt(body: bytes) -> "KubeVirt":
    from bursar.wire.kubevirt import decode_kubevirt  # noqa: PLC0415

    return decode_kubevirt(body)
