"""Counts the pods of VMs. It is told of VMs, migrations and pods, and says which to count again.

A change concerns the pods of one VM, so its cost does not grow with the namespace. Of these
only the pods that have a role in the VM, or had one, are counted again: a tenant that gives a VM
a thousand pods must not make every change a thousand times as expensive.

A pod that claims to be a launcher waits while the objects that would confirm it are not known.
Counted natively it could pass a quota of VMs, and be charged only afterwards.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from bursar.core.counting.counter import Counted, Pending, fact_of
from bursar.core.counting.kind_state import KindState
from bursar.core.kubevirt.launchers import Launcher, LauncherFacts, Role, Roles, roles_of
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.kubevirt.names import DEDICATED_NAMES
from bursar.core.model.names import QUOTA_REQUESTS_PREFIX
from bursar.core.model.pod_row import TOO_MANY_NAMES, DeriveFacts, PodDemand, PodRow
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.usage import native_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bursar.core.kubevirt.vmi import KubeVirt, KubeVirtSettings, Migration, Vmi
    from bursar.core.model.resources import ResourceList


class VmKey(NamedTuple):
    namespace: str
    name: str


class NamedObject(NamedTuple):
    """A migration or a KubeVirt object, by namespace and name."""

    namespace: str
    name: str


class _Member(NamedTuple):
    """An unfinished pod that says that it is a launcher of the VM."""

    row: PodRow
    launcher: Launcher
    vmi_uid: str
    compute: PodDemand

    @property
    def decisive(self) -> tuple[Launcher, str, PodDemand, PodDemand, bool]:
        """What decides about roles and about the cost of other pods."""
        return self.launcher, self.vmi_uid, self.row.demand, self.compute, self.is_gated

    @property
    def is_gated(self) -> bool:
        return bool(self.row.profile.gates)


class _Vm:
    """Everything that is known of one VM, including pods of a VM that is not known yet."""

    __slots__ = ("members", "migrations", "roles", "vmi")

    def __init__(self) -> None:
        self.vmi: Vmi | None = None
        self.migrations: dict[str, Migration] = {}
        self.members: dict[str, _Member] = {}
        self.roles = Roles()

    @property
    def is_empty(self) -> bool:
        return self.vmi is None and not self.migrations and not self.members

    def rows(self, names: Iterable[str]) -> list[PodRow]:
        return [self.members[name].row for name in dict.fromkeys(names) if name in self.members]

    def claiming(self, *vmis: Vmi | None) -> list[PodRow]:
        """The pods that say that they belong to one of these, by uid.

        Only these pods need a new count. A tenant can create a thousand other pods that name the
        VM, and delete and create the VM all the time.
        """
        uids = {vmi.uid for vmi in vmis if vmi is not None}
        return [each.row for each in self.members.values() if each.vmi_uid in uids]

    def update_roles(self) -> list[PodRow]:
        """Find the roles again. Returns the pods that have a role, or had one before."""
        before, vmi = self.roles, self.vmi
        if vmi is None:
            self.roles = Roles()
        else:
            own = (each.launcher for each in self.members.values() if each.vmi_uid == vmi.uid)
            self.roles = roles_of(vmi, own, self.migrations.values())
        return self.rows((*before.names, *self.roles.names))


class VmCounter:
    """The VMs of a cluster and their launcher pods.

    Methods that are told of a change return the pods whose count may have changed.
    """

    name: Final = "kubevirt"

    def __init__(self, mode: VmiMode, derive_facts: DeriveFacts) -> None:
        """`derive_facts` finds the `LauncherFacts` of a pod."""
        assert mode is not VmiMode.IGNORE, "VMs that are not recognised need no counter"
        self._mode: Final = mode
        self.derive_facts: Final = derive_facts
        self._vmi_state = self._migration_state = self._kubevirt_state = KindState.SYNCING
        self._kubevirts: dict[NamedObject, KubeVirt] = {}
        self._settings: KubeVirtSettings | None = None
        self._vms: dict[VmKey, _Vm] = {}
        self._vm_of_pod: dict[PodKey, VmKey] = {}
        self._vm_of_migration: dict[NamedObject, VmKey] = {}

    def may_charge(self, resource: str) -> bool:
        short = resource.removeprefix(QUOTA_REQUESTS_PREFIX)
        return self._mode is VmiMode.DEDICATED and short in DEDICATED_NAMES

    # ------------------------------------------------------------------ VMs

    def set_vmi_state(self, state: KindState) -> list[PodRow]:
        self._vmi_state = state
        if state is not KindState.SYNCED:
            for key, vm in list(self._vms.items()):
                vm.vmi = None
                vm.update_roles()
                self._drop_empty(key, vm)
        return list(self._all_rows())

    def see_vmi(self, vmi: Vmi) -> list[PodRow]:
        vm = self._vm(VmKey(vmi.namespace, vmi.name))
        before, vm.vmi = vm.vmi, vmi
        if before == vmi:
            return []
        changed = vm.update_roles()
        if before is None or before.uid != vmi.uid:
            changed = vm.claiming(vmi, before)
        return changed if self._vmi_state is KindState.SYNCED else []

    def lose_vmi(self, vmi: Vmi) -> list[PodRow]:
        key = VmKey(vmi.namespace, vmi.name)
        vm = self._vm(key)
        before, vm.vmi = vm.vmi, None
        vm.update_roles()
        self._drop_empty(key, vm)
        return vm.claiming(vmi, before)

    # ------------------------------------------------------------------ migrations

    def set_migration_state(self, state: KindState) -> list[PodRow]:
        self._migration_state = state
        if state is not KindState.SYNCED:
            self._vm_of_migration.clear()
            for key, vm in list(self._vms.items()):
                vm.migrations.clear()
                vm.update_roles()
                self._drop_empty(key, vm)
        return list(self._all_rows())

    def see_migration(self, migration: Migration) -> list[PodRow]:
        own = NamedObject(migration.namespace, migration.name)
        key = VmKey(migration.namespace, migration.vmi_name)
        # KubeVirt denies a change of `vmiName`, but its webhook may be down.
        moved = [] if self._vm_of_migration.get(own) == key else self.lose_migration(migration)
        vm = self._vm(key)
        if vm.migrations.get(migration.name) == migration:
            return []
        vm.migrations[migration.name] = migration
        self._vm_of_migration[own] = key
        return _once(moved, vm.update_roles(), _made_by(migration, vm))

    def lose_migration(self, migration: Migration) -> list[PodRow]:
        key = self._vm_of_migration.pop(NamedObject(migration.namespace, migration.name), None)
        if key is None:
            return []
        vm = self._vms[key]
        known = vm.migrations.pop(migration.name)
        changed = _once(vm.update_roles(), _made_by(known, vm))
        self._drop_empty(key, vm)
        return changed

    # ------------------------------------------------------------------ settings of KubeVirt

    def set_kubevirt_state(self, state: KindState) -> list[PodRow]:
        self._kubevirt_state = state
        if state is not KindState.SYNCED:
            self._kubevirts.clear()
        self._choose_settings()
        return self._rows_by_settings()

    def see_kubevirt(self, kubevirt: KubeVirt) -> list[PodRow]:
        self._kubevirts[NamedObject(kubevirt.namespace, kubevirt.name)] = kubevirt
        return self._choose_settings()

    def lose_kubevirt(self, kubevirt: KubeVirt) -> list[PodRow]:
        self._kubevirts.pop(NamedObject(kubevirt.namespace, kubevirt.name), None)
        return self._choose_settings()

    def _choose_settings(self) -> list[PodRow]:
        """Use the first KubeVirt object, by namespace and name, that is not being deleted."""
        before = self._settings
        found = (self._kubevirts[key].settings for key in sorted(self._kubevirts))
        self._settings = next((each for each in found if each is not None), None)
        return [] if self._settings == before else self._rows_by_settings()

    def _rows_by_settings(self) -> list[PodRow]:
        return list(self._all_rows()) if self._mode is VmiMode.GUEST_EFFECTIVE else []

    # ------------------------------------------------------------------ pods

    def see_pod(self, row: PodRow) -> list[PodRow]:
        pod, member = PodKey(row.namespace, row.name), _member(row)
        key = None if member is None else _vm_key(row)
        others: list[PodRow] = []
        if self._vm_of_pod.get(pod) not in (None, key):
            others = self.lose_pod(pod)
        if member is None or key is None:
            return others
        vm = self._vm(key)
        before = vm.members.get(row.name)
        vm.members[row.name] = member
        self._vm_of_pod[pod] = key
        if before is not None and before.decisive == member.decisive:
            return others
        had_role = vm.roles.of(row.name) is not None
        roles, changed = vm.roles, vm.update_roles()
        if had_role or vm.roles != roles:
            others += [each for each in changed if each.name != row.name]
        return others

    def lose_pod(self, pod: PodKey) -> list[PodRow]:
        key = self._vm_of_pod.pop(pod, None)
        if key is None:
            return []
        vm = self._vms[key]
        del vm.members[pod.name]
        had_role = vm.roles.of(pod.name) is not None
        changed = vm.update_roles()
        self._drop_empty(key, vm)
        return changed if had_role else []

    # ------------------------------------------------------------------ counting

    def count(self, row: PodRow) -> Counted | Pending | None:
        member = _member(row)
        if member is None or self._vmi_state is KindState.ABSENT:
            return None
        key = _vm_key(row)
        if self._vmi_state is KindState.SYNCING:
            return Pending("the VirtualMachineInstances of the cluster are not listed yet")
        vm = self._vms.get(key)
        if vm is None or vm.vmi is None or vm.vmi.uid != member.vmi_uid:
            # The text must stay true when a VM of another uid comes or goes: see `claiming`.
            name = f"{key.name} with uid {member.vmi_uid}"
            return Pending(f"VirtualMachineInstance {name} does not exist (yet)")
        return self._count_member(vm, vm.vmi, member)

    def _count_member(self, vm: _Vm, vmi: Vmi, member: _Member) -> Counted | Pending | None:
        role = vm.roles.of(member.row.name)
        if role is not Role.SOURCE:
            if self._migration_state is KindState.SYNCING:
                return Pending("the VirtualMachineInstanceMigrations are not listed yet")
            if role is None:
                return _unconfirmed(vm, member)
        if self._mode is VmiMode.GUEST_EFFECTIVE and self._kubevirt_state is KindState.SYNCING:
            return Pending("the KubeVirt object is not listed yet")
        if member.row.demand.rest is not None:
            return Pending(TOO_MANY_NAMES)
        source = member if role is Role.SOURCE else vm.members[vm.roles.source]
        # A gated source is not charged, so nothing may be deducted for it from another pod.
        if role is not Role.SOURCE and source.is_gated:
            return Pending(f"pod {source.row.name}, which is to run the VM, is still gated")
        # Commands count no VM in most files, and should not pay for it.
        from bursar.core.kubevirt.reason import reason_of  # noqa: PLC0415
        from bursar.core.kubevirt.usage import PodUse, launcher_usage  # noqa: PLC0415

        usage = launcher_usage(
            self._mode,
            role,
            vmi,
            PodUse(*_use(member)),
            source=PodUse(*_use(source)),
            settings=self._settings,
        )
        return Counted(usage, reason_of(self._mode, role, vmi, usage, self._settings))

    # ------------------------------------------------------------------ lookups

    def _vm(self, key: VmKey) -> _Vm:
        return self._vms.setdefault(key, _Vm())

    def _drop_empty(self, key: VmKey, vm: _Vm) -> None:
        if vm.is_empty:
            del self._vms[key]

    def _all_rows(self) -> Iterator[PodRow]:
        members = chain.from_iterable(vm.members.values() for vm in self._vms.values())
        return (each.row for each in members)


def _member(row: PodRow) -> _Member | None:
    """The pod as a member of a VM; None if it has finished or does not look like a launcher pod."""
    facts = fact_of(row, LauncherFacts)
    if facts is None or row.is_terminated:
        return None
    launcher = Launcher(
        row.name,
        row.stamp.created_s,
        row.node_name,
        facts.migration_uid,
        facts.migration_name,
    )
    return _Member(row, launcher, facts.vmi_uid, facts.compute)


def _vm_key(row: PodRow) -> VmKey:
    facts = fact_of(row, LauncherFacts)
    assert facts is not None, "only members have a VM"
    return VmKey(row.namespace, facts.vmi_name)


def _unconfirmed(vm: _Vm, member: _Member) -> Pending | None:
    """A pod without a role is counted natively, unless its migration is not known yet."""
    uid = member.launcher.migration_uid
    if not uid or any(each.uid == uid for each in vm.migrations.values()):
        return None
    name = member.launcher.migration_name
    return Pending(f"VirtualMachineInstanceMigration {name} with uid {uid} does not exist (yet)")


def _made_by(migration: Migration, vm: _Vm) -> list[PodRow]:
    found = vm.members.values()
    return [each.row for each in found if each.launcher.migration_uid == migration.uid]


def _once(*groups: Iterable[PodRow]) -> list[PodRow]:
    return list({each.name: each for each in chain(*groups)}.values())


def _use(member: _Member) -> tuple[ResourceList, ResourceList]:
    """What Kubernetes counts for the whole pod, and for its container `compute` alone."""
    compute = native_usage(member.compute, is_counted=True)
    return native_usage(member.row.demand, is_counted=True), compute
