"""The statement: what the status of a quota should say, as the books have it.

Only what the quota limits is stated, each resource with its limit and its use. What pods
cannot be made to wait for is counted by Kubernetes, in a ResourceQuota that is managed
for the purpose; those numbers are passed on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import NOTHING, ResourceList
from bursar.core.quota.account import Account
from bursar.core.quota.coverage import CoveredQuota
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.reported import QuotaObject, Reported

SUMMARY_LENGTH_MAX: Final = 240
"""A summary is one cell of a table."""
DEBTS_LENGTH_MAX: Final = 2000
NO_ACCOUNTS: Final[Mapping[str, Account]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Limits and use of a quota at one moment."""

    total: Reported
    namespaces: Mapping[str, Reported] = field(default_factory=dict)
    """Of a cluster-wide quota: the part of each namespace, sorted by name."""

    @property
    def summary(self) -> str:
        """Use and limit of each resource in one line: `pods 3/5, requests.cpu 1/2`."""
        return _listed(self.total, sorted(self.total.hard), SUMMARY_LENGTH_MAX)

    @property
    def exceeded(self) -> tuple[str, ...]:
        """What more is in use of than is allowed, as after a limit was lowered; sorted."""
        hard, used = self.total.hard, self.total.used
        return tuple(name for name in sorted(hard) if used[name] > hard[name])

    @property
    def debts(self) -> str:
        """The same with numbers, for people."""
        return _listed(self.total, self.exceeded, DEBTS_LENGTH_MAX)


def statement_of(
    covered: CoveredQuota,
    managed_used: ResourceList | None = None,
    *,
    namespaces: Iterable[str] | None = None,
) -> Statement:
    """What to report. Of a cluster-wide quota all its namespaces, or only those asked for."""
    hard = covered.quota.hard
    total = Reported(hard=hard, used=_used(hard, covered.accounts, managed_used or NOTHING))
    if covered.quota.key.kind is not QuotaKind.CLUSTER:
        return Statement(total=total)
    stated = covered.namespaces if namespaces is None else covered.namespaces & set(namespaces)
    parts = {
        name: Reported(hard=hard, used=_used(hard, covered.shares.get(name, NO_ACCOUNTS), NOTHING))
        for name in sorted(stated)
    }
    return Statement(total=total, namespaces=parts)


def delegated(hard: ResourceList) -> ResourceList:
    """The part of the limits that is left to a ResourceQuota."""
    return {name: amount for name, amount in hard.items() if not is_schedulable(name)}


def used_in(managed: QuotaObject | None, quota: Quota) -> ResourceList | None:
    """What Kubernetes has counted on behalf of a quota; None if that says nothing about it.

    The limits need not agree yet: while a new one is on its way there, as many services
    are in use as before. Another scope is another matter.
    """
    if managed is None or set(managed.quota.scopes) != set(quota.scopes):
        return None
    return managed.reported_used


def _used(
    hard: ResourceList, accounts: Mapping[str, Account], managed_used: ResourceList
) -> ResourceList:
    """The use of what is limited, and of nothing else, whatever has been charged."""
    used: dict[str, Quantity] = {}
    for name in hard:
        account = accounts.get(name)
        if account is not None:
            used[name] = account.used
        else:
            used[name] = ZERO if is_schedulable(name) else managed_used.get(name, ZERO)
    return used


def _listed(stated: Reported, names: Sequence[str], length_max: int) -> str:
    """As many as there is room for, and how many more there are."""
    entries = [f"{name} {stated.used[name]}/{stated.hard[name]}" for name in names]
    text = ", ".join(entries)
    while len(text) > length_max:
        entries.pop()
        text = ", ".join((*entries, f"and {len(names) - len(entries)} more"))
    return text
