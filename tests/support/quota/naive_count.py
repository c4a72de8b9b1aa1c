"""The auditor's arithmetic: what pods use of quotas, counted naively from the objects alone.

It shares nothing with the books but the objects and `Quantity`, so that it can be wrong
only in other ways.
"""

from collections.abc import Iterable, Mapping

from bursar.core.model.pod_row import PodDemand, PodRow
from bursar.core.model.qos import QosClass
from bursar.core.model.quantity import Quantity
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import Quota

ENDED = ("Succeeded", "Failed")
UNHELD = frozenset({"services", "count/pods", "requests.storage"})
"""Names that a quota may list and pods are not held back for."""

Amounts = dict[str, Quantity]


def cost(row: PodRow) -> Amounts:
    """What a pod uses that has no gates and has not ended."""
    demand = row.demand
    if id(demand) not in _COSTS:
        amounts = {"pods": Quantity.of(1)}
        for name, amount in demand.quota_requests.items():
            amounts |= {name: amount, f"requests.{name}": amount}
        for name, amount in demand.quota_limits.items():
            amounts |= {f"limits.{name}": amount}
        _COSTS[id(demand)] = (demand, amounts)
    return _COSTS[id(demand)][1]


_COSTS: dict[int, tuple[PodDemand, Amounts]] = {}
"""By the address of a demand, which is kept so that it stays the demand's."""


def is_in_use(row: PodRow, now_s: int) -> bool:
    if row.profile.gates or row.phase in ENDED:
        return False
    deletion = row.deletion
    if deletion is None or deletion.grace_s is None:
        return True
    return now_s <= deletion.due_s + deletion.grace_s


def is_in_scope(quota: Quota, row: PodRow) -> bool:
    profile = row.profile
    is_plain = profile.demand.qos is QosClass.BEST_EFFORT
    holds = {
        "Terminating": profile.deadline_s is not None,
        "NotTerminating": profile.deadline_s is None,
        "BestEffort": is_plain,
        "NotBestEffort": not is_plain,
        "PriorityClass": profile.priority_class != "",
        "CrossNamespacePodAffinity": profile.crosses_namespaces,
    }
    return all(holds[rule.scope] for rule in quota.scopes)


def reach(quota: Quota, namespaces: Mapping[str, Namespace]) -> set[str]:
    """The namespaces a quota is about."""
    if quota.selector is None:
        return {quota.key.namespace} & namespaces.keys()
    return {
        each.name
        for each in namespaces.values()
        if quota.selector.matches(each.labels, each.annotations)
    }


def needs(quota: Quota, row: PodRow) -> Amounts:
    """What a pod in the quota's reach and scope needs of it."""
    return {
        name: amount
        for name, amount in cost(row).items()
        if name in quota.hard and name not in UNHELD and not amount.is_zero
    }


def is_short(quota: Quota, row: PodRow, used: Amounts) -> bool:
    return any(amount + used[name] > quota.hard[name] for name, amount in needs(quota, row).items())


def could_never_fit(quota: Quota, row: PodRow) -> bool:
    return any(amount > quota.hard[name] for name, amount in needs(quota, row).items())


def used(quota: Quota, rows: Iterable[PodRow], now_s: int) -> Amounts:
    """What all these pods use of a quota in whose reach they are."""
    total = nothing_of(quota)
    for row in rows:
        if is_in_use(row, now_s) and is_in_scope(quota, row):
            for name, amount in needs(quota, row).items():
                total[name] += amount
    return total


def nothing_of(quota: Quota) -> Amounts:
    return {name: Quantity.of(0) for name in quota.hard if name not in UNHELD}


def growth(quota: Quota, before: PodRow | None, after: Iterable[PodRow], now_s: int) -> Amounts:
    """What a pod would use beyond what it uses, if it became the largest of these."""
    charged = used(quota, () if before is None else (before,), now_s)
    most = nothing_of(quota)
    for row in after:
        if is_in_scope(quota, row):
            for name, amount in needs(quota, row).items():
                most[name] = max(most[name], amount - charged[name])
    return most
