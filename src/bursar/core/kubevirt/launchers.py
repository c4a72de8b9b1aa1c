"""Launcher pods: which of the pods that belong to a VM runs it, and which is its next home.

A VM runs in one launcher pod. A live migration adds a second one, the target. After a migration
the pod that the VM has left, or the target that it never reached, remains for a short time.

Labels and owner references say little: every tenant that may create pods can write them. So a pod
has a role only if VM and migration, which KubeVirt writes, agree. At most one pod is the source of
a VM.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bursar.core.kubevirt.vmi import Migration, Vmi
    from bursar.core.model.pod_row import PodDemand


class LauncherFacts(NamedTuple):
    """What a pod says about the VM that owns it, beyond the fields of a row."""

    vmi_name: str
    """Name in the first owner reference, which is of kind VirtualMachineInstance."""
    vmi_uid: str
    """The uid in the same owner reference."""
    migration_uid: str
    """The label that names the migration by its uid; empty if there is none."""
    migration_name: str
    compute: PodDemand
    """The demand of its container `compute` alone."""


class Role(Enum):
    SOURCE = "source"
    """The VM runs here, or is about to start here."""
    TARGET = "target"
    """The VM is being migrated to it."""
    LEFTOVER = "leftover"
    """The VM has left this pod, or never reached it. It ends soon."""


class Launcher(NamedTuple):
    """A launcher pod that has not finished."""

    name: str
    created_s: int
    node_name: str
    migration_uid: str = ""
    migration_name: str = ""

    def is_made_by(self, migration: Migration | None) -> bool:
        if migration is None or self.migration_uid != migration.uid:
            return False
        return self.migration_name == migration.name


class Roles(NamedTuple):
    """The names of the pods of one VM that have a role. All other pods have none."""

    source: str = ""
    target: str = ""
    leftovers: tuple[str, ...] = ()

    def of(self, name: str) -> Role | None:
        if name == self.source:
            return Role.SOURCE
        if name == self.target:
            return Role.TARGET
        return Role.LEFTOVER if name in self.leftovers else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each for each in (self.source, self.target, *self.leftovers) if each)


def roles_of(vmi: Vmi, launchers: Iterable[Launcher], migrations: Iterable[Migration]) -> Roles:
    """The source is the newest launcher pod on the VM's node.

    If there is none on that node, which ends AAQ's controller, it is the newest launcher pod
    other than the target, else the target itself: a VM is never free of charge.
    """
    present = list(launchers)
    of_vm = [each for each in migrations if each.vmi_name == vmi.name]
    current = _newest_migration([each for each in of_vm if not each.is_failed])
    target = min([each for each in present if each.is_made_by(current)], default=None)
    here = [each for each in present if vmi.node_name in ("", each.node_name)]
    source = _newest(here) or _newest([each for each in present if each is not target]) or target
    if source is None:
        return Roles()
    last = _newest_migration(of_vm)
    # A migration makes one pod. Others that claim to be made by it are forged, and may be many.
    made = min([each for each in present if each.is_made_by(last)], default=None)
    left = [each for each in present if each.name in vmi.migration_pods or each is made]
    return Roles(
        source.name,
        "" if target is None or target is source else target.name,
        tuple(sorted(each.name for each in left if each is not source and each is not target)),
    )


def _newest_migration(migrations: Iterable[Migration]) -> Migration | None:
    return max(migrations, key=lambda each: (each.created_s, each.name), default=None)


def _newest(launchers: list[Launcher]) -> Launcher | None:
    """The newest pod; among pods created in the same second, the first by name."""
    last_s = max([each.created_s for each in launchers], default=0)
    return min([each for each in launchers if each.created_s == last_s], default=None)
