"""The auditor's arithmetic: what pods use of quotas, counted naively from the objects alone.

It shares nothing with the books but the objects and `Quantity`, so that it can be wrong
only in other ways.
"""

from collections.abc import Iterable, Mapping

from bursar.core.model.pod_row import PodDemand, PodProfile, PodRow
from bursar.core.model.qos import QosClass
from bursar.core.model.quantity import Quantity
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import Quota
from bursar.core.quota.scopes import ScopeRule

ENDED = ("Succeeded", "Failed")
UNHELD = frozenset({"services", "requests.storage"})

Amounts = dict[str, Quantity]


def is_held(name: str) -> bool:
    """Whether pods are held back for a limit of this name. A quota may list others as well."""
    return name not in UNHELD and not name.startswith("count/")


def cost(row: PodRow) -> Amounts:
    """What a pod uses that has no gates and has not ended."""
    return cost_of(row.demand)


def cost_of(demand: PodDemand) -> Amounts:
    if id(demand) not in _COSTS:
        amounts = {"pods": Quantity.of(1)}
        for name, amount in demand.quota_requests.items():
            amounts |= {name: amount, f"requests.{name}": amount}
        for name, amount in demand.quota_limits.items():
            amounts |= {f"limits.{name}": amount}
        _COSTS[id(demand)] = (demand, amounts)
    return _COSTS[id(demand)][1]


def learn_cost(demand: PodDemand, amounts: Amounts) -> None:
    """Say what a demand costs that does not list all its names."""
    _COSTS[id(demand)] = (demand, amounts)


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
    return has_scope(quota, row.profile)


def has_scope(quota: Quota, profile: PodProfile) -> bool:
    """Whether pods of a profile are in the scope of a quota."""
    return all(_holds(rule, profile) for rule in quota.scopes)


def _holds(rule: ScopeRule, profile: PodProfile) -> bool:
    is_plain = profile.demand.qos is QosClass.BEST_EFFORT
    name = profile.priority_class
    if rule.scope == "PriorityClass":
        by_operator = {
            "In": name != "" and name in rule.values,
            "NotIn": name not in rule.values or name == "",
            "Exists": name != "",
            "DoesNotExist": name == "",
        }
        return by_operator.get(rule.operator, False)
    by_scope = {
        "Terminating": profile.deadline_s is not None,
        "NotTerminating": profile.deadline_s is None,
        "BestEffort": is_plain,
        "NotBestEffort": not is_plain,
        "CrossNamespacePodAffinity": profile.crosses_namespaces,
    }
    return by_scope.get(rule.scope, False)


def reach(quota: Quota, namespaces: Mapping[str, Namespace]) -> set[str]:
    """The namespaces a quota is about."""
    if quota.selector is None:
        return {quota.key.namespace} & namespaces.keys()
    return {name for name, each in namespaces.items() if is_selected(quota, each)}


def is_selected(quota: Quota, namespace: Namespace) -> bool:
    known = _SELECTED.get((id(quota), id(namespace)))
    if known is None:
        if len(_SELECTED) > 10_000:
            _SELECTED.clear()
        selector = quota.selector
        is_matched = selector.matches(namespace.labels, namespace.annotations)
        known = (quota, namespace, is_matched or namespace.name in selector.names)
        _SELECTED[id(quota), id(namespace)] = known
    return known[2]


_SELECTED: dict[tuple[int, int], tuple[Quota, Namespace, bool]] = {}
"""By the addresses of both, which are kept so that they stay theirs."""


def is_exempt(namespace: Namespace | None) -> bool:
    """Whether pods that still have the gate are released without a quota."""
    return namespace is not None and not namespace.is_targeted and not namespace.dispute


def weight_of(quota: Quota) -> int:
    """How much of a namespace's bound on limits a quota takes."""
    limits = sum(is_held(name) for name in quota.hard)
    return max(1, limits + (len(quota.hard) - limits) // 16)


def is_unreadable_for(quota: Quota, row: PodRow) -> bool:
    """Whether it cannot be told what a quota in whose reach a pod is demands of it."""
    return bool(quota.problem) and is_in_scope(quota, row)


def needs(quota: Quota, row: PodRow) -> Amounts:
    """What a pod in the quota's reach and scope needs of it."""
    amounts = cost(row)
    return {
        name: amounts[name]
        for name in quota.hard
        if name in amounts and is_held(name) and not amounts[name].is_zero
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
    return {name: Quantity.of(0) for name in quota.hard if is_held(name)}


def growth(quota: Quota, before: PodRow | None, after: Iterable[PodRow], now_s: int) -> Amounts:
    """What a pod would use beyond what it uses, if it became the largest of these."""
    charged = used(quota, () if before is None else (before,), now_s)
    most = nothing_of(quota)
    for row in after:
        if is_in_scope(quota, row):
            for name, amount in needs(quota, row).items():
                most[name] = max(most[name], amount - charged[name])
    return most


class Needs:
    """What pods of a profile need of a quota in whose reach they are, in nanos; counted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Quota, PodProfile, dict[str, int]]] = {}
        """By the addresses of both, which are kept so that they stay theirs."""

    def of(self, quota: Quota, profile: PodProfile) -> dict[str, int]:
        known = self._known.get((id(quota), id(profile)))
        if known is None:
            amounts = cost_of(profile.demand)
            nanos = {
                name: amounts[name].nanos
                for name in quota.hard
                if name in amounts and is_held(name) and not amounts[name].is_zero
            }
            known = (quota, profile, nanos if has_scope(quota, profile) else {})
            self._known[id(quota), id(profile)] = known
        return known[2]
