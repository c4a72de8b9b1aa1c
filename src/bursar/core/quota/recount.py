"""The second opinion: what quotas should show, added up anew from all pods.

Nothing is carried over from before and nothing is shared with the ledger, so that the
two can be compared. A ResourceQuota counts every pod that is stored. AAQ's quotas leave
out pods behind any scheduling gate, except for names a pod cannot be made to wait for:
those are left to a ResourceQuota, which does not look at gates. Names that pods do not
use up, such as `services`, are left out of the answer.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bursar.core.model.pod_row import PodProfile, PodRow
from bursar.core.model.quantity import Format
from bursar.core.model.resources import ResourceList
from bursar.core.quota import scopes
from bursar.core.quota.account import FORMATS, NO_CHARGE, Charge, shown
from bursar.core.quota.counting import Counter, NativeCounter, NotReady
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.names import is_pod_name, is_schedulable
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.usage import is_counted, native_usage


def recount(
    quota: Quota, rows: Iterable[PodRow], namespaces: Iterable[Namespace], now_s: int
) -> ResourceList:
    """What the quota should show, counted natively. For many quotas, make one `Census`."""
    return Census(rows, now_s).used(quota, namespaces)


class _Group:
    """Pods that are alike: to every quota one of them is as good as another."""

    __slots__ = ("charge", "count", "native", "profile")

    def __init__(self, profile: PodProfile, *, native: Charge, charge: Charge) -> None:
        self.profile: Final = profile
        self.native: Final = native
        """What each costs for a ResourceQuota."""
        self.charge: Final = charge
        """What each costs for AAQ's quotas."""
        self.count = 0


class Census:
    """All pods at one moment. Those that are alike are counted together."""

    def __init__(self, rows: Iterable[PodRow], now_s: int, counter: Counter | None = None) -> None:
        self._groups: dict[str, list[_Group]] = {}
        """By namespace, in the order in which the first of each was met."""
        native = NativeCounter()
        chosen: Counter = counter or native
        known: dict[tuple[int, bool, int], _Group] = {}
        for row in rows:
            profile = row.profile
            counts = is_counted(row, now_s)
            charge = _charge(chosen, row) if counts and not profile.gates else NO_CHARGE
            # By address: a group keeps its profile and charge alive, so neither is taken over.
            key = (id(profile), counts, id(charge))
            group = known.get(key)
            if group is None:
                of_native = native(row) if counts else _ended(row)
                group = known[key] = _Group(profile, native=of_native, charge=charge)
                self._groups.setdefault(profile.namespace, []).append(group)
            group.count += 1

    def used(self, quota: Quota, namespaces: Iterable[Namespace]) -> ResourceList:
        """What the quota should show: its names that pods use up, also those nobody uses."""
        totals = {name: _Total() for name in sorted(quota.hard) if is_recounted(quota, name)}
        natively = {name for name in totals if _is_counted_natively(quota, name)}
        for group in self._covered(quota, namespaces):
            if scopes.matches(quota.scopes, group.profile):
                for name, total in totals.items():
                    charge = group.native if name in natively else group.charge
                    amount = charge.amounts.get(name)
                    if amount is not None:
                        total.add(amount[0] * group.count, amount[1])
        return {name: shown(total.nanos, total.format) for name, total in totals.items()}

    def _covered(self, quota: Quota, namespaces: Iterable[Namespace]) -> Iterator[_Group]:
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
    """Whether what the quota should show under this name follows from pods alone."""
    if is_pod_name(name):
        return True
    return quota.key.kind is not QuotaKind.NATIVE and is_schedulable(name)


def _is_counted_natively(quota: Quota, name: str) -> bool:
    return quota.key.kind is QuotaKind.NATIVE or not is_schedulable(name)


def _charge(counter: Counter, row: PodRow) -> Charge:
    counted = counter(row)
    return counted.provisional if isinstance(counted, NotReady) else counted


def _ended(row: PodRow) -> Charge:
    return Charge(native_usage(row.demand, is_counted=False))
