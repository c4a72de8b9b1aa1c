"""Recount: what quotas should show, added up again from all pods.

It is the check on the ledger, so it keeps nothing from one count to the next and uses none of
the ledger's bills, accounts and coverage. What the two have in common are the rules about one
pod: what it costs (the counter), whether it still counts, and which scopes match it.

A ResourceQuota counts every pod that is stored. AAQ's quotas leave out pods with a scheduling
gate, except for names that a gate cannot enforce: those are left to a ResourceQuota, which
ignores gates. Names that pods do not use, such as `services`, are not in the result.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodProfile, PodRow
from bursar.core.model.quantity import Format
from bursar.core.model.resources import ResourceList
from bursar.core.quota import scopes
from bursar.core.quota.account import FORMATS, NO_CHARGE, Charge, to_quantity
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.names import is_pod_name, is_schedulable
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.usage import is_counted, native_usage


class _Group:
    """Pods that are alike: every quota counts the same for each of them."""

    __slots__ = ("charge", "count", "native", "profile")

    def __init__(self, profile: PodProfile, *, native: Charge, charge: Charge) -> None:
        self.profile: Final = profile
        self.native: Final = native
        """What each pod costs under a ResourceQuota."""
        self.charge: Final = charge
        """What each pod costs under AAQ's quotas."""
        self.count = 0


class Recount:
    """All pods as of one time. Pods that are alike are counted together."""

    def __init__(
        self,
        rows: Iterable[PodRow],
        now_s: int,
        charge_of: Callable[[PodRow], Charge] | None = None,
    ) -> None:
        """`charge_of` says what a running pod costs under AAQ's quotas; default: natively."""
        self._groups: dict[str, list[_Group]] = {}
        """By namespace, in the order in which the first pod of each was met."""
        self._known: dict[tuple[int, bool, int], _Group] = {}
        self._now_s = now_s
        self._count_natively = NativeCounter().count
        self._charge_of = charge_of or self._count_natively
        for row in rows:
            self.add(row)

    def add(self, row: PodRow) -> None:
        """Count one more pod."""
        profile = row.profile
        counts = is_counted(row, self._now_s)
        charge = self._charge_of(row) if counts and not profile.gates else NO_CHARGE
        # By address: a group keeps its profile and charge alive, so no address is reused.
        key = (id(profile), counts, id(charge))
        group = self._known.get(key)
        if group is None:
            native = self._count_natively(row) if counts else _ended(row)
            group = self._known[key] = _Group(profile, native=native, charge=charge)
            self._groups.setdefault(profile.namespace, []).append(group)
        group.count += 1

    def used(self, quota: Quota, namespaces: Iterable[NamespaceObject]) -> ResourceList:
        """What the quota should show, for each of its names that pods use, also if it is zero."""
        totals = {name: _Total() for name in sorted(quota.hard) if is_recounted(quota, name)}
        rules = scopes.simplified(quota.scopes)
        natively = {name for name in totals if _is_counted_natively(quota, name)}
        for group in self._covered(quota, namespaces):
            if scopes.matches(rules, group.profile):
                native = group.native.amounts_of(natively)
                amounts = group.charge.amounts_of(totals)
                for name, total in totals.items():
                    amount = (native if name in natively else amounts).get(name)
                    if amount is not None:
                        total.add(amount[0] * group.count, amount[1])
        return {name: to_quantity(total.nanos, total.format) for name, total in totals.items()}

    def _covered(self, quota: Quota, namespaces: Iterable[NamespaceObject]) -> Iterator[_Group]:
        if quota.selector is None:
            yield from self._groups.get(quota.key.namespace, ())
            return
        for namespace in namespaces:
            if quota.selector.matches(namespace.labels, namespace.annotations):
                yield from self._groups.get(namespace.name, ())


class _Total:
    """A sum in the format of the first part that is not zero, as upstream adds."""

    __slots__ = ("format", "nanos")

    def __init__(self) -> None:
        self.nanos = 0
        self.format = Format.DECIMAL_SI

    def add(self, nanos: int, format_index: int) -> None:
        if self.nanos == 0:
            self.format = FORMATS[format_index]
        self.nanos += nanos


def is_recounted(quota: Quota, name: str) -> bool:
    """Whether the usage under this name is a sum over pods."""
    if is_pod_name(name):
        return True
    return quota.key.kind is not QuotaKind.NATIVE and is_schedulable(name)


def _is_counted_natively(quota: Quota, name: str) -> bool:
    return quota.key.kind is QuotaKind.NATIVE or not is_schedulable(name)


def _ended(row: PodRow) -> Charge:
    return Charge(native_usage(row.demand, is_counted=False))
