"""The statement: what the status of a quota should say according to the books.

It states the limit and the usage of each resource that the quota limits. Resources that a
scheduling gate cannot enforce are counted by Kubernetes in a managed ResourceQuota, or by OpenShift
in a managed ClusterResourceQuota; their usage is taken from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import NOTHING, ResourceList, nothing
from bursar.core.quota.account import Account
from bursar.core.quota.coverage import CoveredQuota
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import Quota, QuotaKind, QuotaObject, Reported

SUMMARY_LENGTH_MAX: Final = 240
"""A summary is one cell of the table that `kubectl get` prints."""
DEBTS_LENGTH_MAX: Final = 2000
NO_ACCOUNTS: Final[Mapping[str, Account]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Limits and usage of a quota."""

    total: Reported
    namespaces: Mapping[str, Reported] = field(default_factory=dict)
    """Of a cluster-wide quota: the share of each namespace, sorted by name."""

    @property
    def summary(self) -> str:
        """Usage and limit of each resource in one line: `pods 3/5, requests.cpu 1/2`."""
        return _listed(self.total, sorted(self.total.hard), SUMMARY_LENGTH_MAX)

    @property
    def exceeded(self) -> tuple[str, ...]:
        """The resources whose usage exceeds the limit, for example after it was lowered; sorted."""
        hard, used = self.total.hard, self.total.used
        return tuple(name for name in sorted(hard) if used[name] > hard[name])

    @property
    def debts(self) -> str:
        """`exceeded` with usage and limit of each."""
        return _listed(self.total, self.exceeded, DEBTS_LENGTH_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedUsage:
    """What a managed quota reports as used."""

    total: ResourceList = field(default_factory=nothing)
    namespaces: Mapping[str, ResourceList] = field(default_factory=dict)
    """By namespace, of a managed ClusterResourceQuota; empty for a ResourceQuota."""


NO_USAGE: Final = ManagedUsage()


def statement_of(
    covered: CoveredQuota,
    managed: ManagedUsage = NO_USAGE,
    *,
    namespaces: Iterable[str] | None = None,
) -> Statement:
    """The statement of a quota. `namespaces` limits which shares it contains; default: all."""
    hard = covered.quota.hard
    total = Reported(hard=hard, used=_used(hard, covered.accounts, managed.total))
    if covered.quota.key.kind is not QuotaKind.CLUSTER:
        return Statement(total=total)
    stated = covered.namespaces if namespaces is None else covered.namespaces & set(namespaces)
    parts = {
        name: Reported(
            hard=hard,
            used=_used(
                hard,
                covered.shares.get(name, NO_ACCOUNTS),
                managed.namespaces.get(name, NOTHING),
            ),
        )
        for name in sorted(stated)
    }
    return Statement(total=total, namespaces=parts)


def delegated(hard: ResourceList) -> ResourceList:
    """The limits that are left to a managed quota."""
    return {name: amount for name, amount in hard.items() if not is_schedulable(name)}


def used_in(managed: QuotaObject | None, quota: Quota) -> ManagedUsage:
    """The usage in the managed quota; none if it counts other objects than the quota.

    Its limits may still be the old ones: the usage does not depend on them.
    """
    if managed is None or not counts_alike(managed.quota, quota):
        return NO_USAGE
    return ManagedUsage(
        total=managed.reported_used,
        namespaces={name: each.used for name, each in managed.reported_namespaces.items()},
    )


def counts_alike(managed: Quota, quota: Quota) -> bool:
    """Whether the managed quota has the scopes and the namespaces of the quota."""
    return (
        not managed.problem
        and set(managed.scopes) == set(quota.scopes)
        and managed.selector == quota.selector
    )


def _used(
    hard: ResourceList, accounts: Mapping[str, Account], managed_used: ResourceList
) -> ResourceList:
    """The usage of exactly the resources that are limited."""
    used: dict[str, Quantity] = {}
    for name in hard:
        account = accounts.get(name)
        if account is not None:
            used[name] = account.used
        else:
            used[name] = ZERO if is_schedulable(name) else managed_used.get(name, ZERO)
    return used


def _listed(stated: Reported, names: Sequence[str], length_max: int) -> str:
    """The first resources that fit into the length, and the number of the others."""
    entries = [f"{name} {stated.used[name]}/{stated.hard[name]}" for name in names]
    text = ", ".join(entries)
    while len(text) > length_max:
        entries.pop()
        text = ", ".join((*entries, f"and {len(names) - len(entries)} more"))
    return text
