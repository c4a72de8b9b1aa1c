"""What the API server refuses in the spec of a ResourceQuota, in its words.

AAQ's kinds have the same spec, but the API server does not validate it. The webhook asks the API
server with a dry-run. Admission policies have the same rules as CEL expressions
(`app/install/policies/quota_policy`). Here they tell whether a stored quota can be in force.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from bursar.core.model.names import (
    CPU,
    MEMORY,
    PODS,
    STANDARD,
    STORAGE,
    is_standard,
    is_whole,
    qualified_name_errors,
)
from bursar.core.model.problem import JsonText, Problem, invalid, required
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.names import is_claim_name, is_pod_name, is_schedulable
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.scopes import (
    CLAIM_SCOPES,
    EXISTS,
    OPERATORS,
    POD_SCOPES,
    SCOPES,
    ScopeRule,
)

NOT_STANDARD: Final = "must be a standard resource type or fully qualified"
NOT_FOR_QUOTA: Final = "must be a standard resource for quota"
NEGATIVE: Final = "must be greater than or equal to 0"
NOT_WHOLE: Final = "must be an integer"
SCOPE_UNKNOWN: Final = "unsupported scope"
SCOPE_UNFIT: Final = "unsupported scope applied to resource"
SCOPES_CONFLICT: Final = "conflicting scopes"
SCOPES_MATCH_NOTHING: Final = "no object that these resources count has the scopes of the quota"
OPERATOR_UNFIT: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
OPERATOR_UNKNOWN: Final = "not a valid selector operator"
VALUES_MISSING: Final = (
    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
)
VALUES_NEEDLESS: Final = (
    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
)
NOT_DELEGATED: Final = (
    f"{QuotaKind.CLUSTER.value} without clusterResourceQuota support, operator cannot handle "
    "non scheduable resources :"
)
"""AAQ's words. A name in brackets follows."""

STANDARD_FOR_QUOTA: Final = STANDARD - {STORAGE}
COMPUTE: Final = frozenset(
    prefix + name for prefix in ("", "requests.", "limits.") for name in (CPU, MEMORY)
)
FIT: Final = {
    **dict.fromkeys(POD_SCOPES, COMPUTE | {PODS}),
    "BestEffort": frozenset({PODS}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""By scope: the standard resources that a quota with this scope may limit."""
CONFLICTS: Final = (("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating"))


def spec_problems(quota: Quota, path: str = "spec") -> tuple[Problem, ...]:
    """Everything that the API server would refuse in a ResourceQuota with this spec."""
    listed = tuple(rule.scope for rule in quota.scopes if rule.is_listed)
    expressions = tuple(rule for rule in quota.scopes if not rule.is_listed)
    return (
        *_hard_problems(quota.hard, f"{path}.hard"),
        *_listed_problems(listed, quota.hard, f"{path}.scopes"),
        *_expression_problems(expressions, quota.hard, f"{path}.scopeSelector.matchExpressions"),
    )


def undelegated(names: Iterable[str]) -> str:
    """Why a cluster-wide quota may not limit some of these names; empty if it may.

    Only a ClusterResourceQuota can limit them over several namespaces, and only OpenShift has it.
    """
    found = sorted(name for name in names if not is_schedulable(name))
    return f"{NOT_DELEGATED}[{' '.join(found)}]" if found else ""


def enforcement_problem(quota: Quota, *, is_delegated: bool = False) -> str:
    """Why a stored quota is not in force as it is written; empty if nothing is wrong with it.

    `is_delegated` says whether the cluster has ClusterResourceQuotas, to which a cluster-wide quota
    leaves the limits that a gate cannot enforce.
    """
    path = "spec.quota" if quota.key.kind is QuotaKind.CLUSTER else "spec"
    quota = replace(quota, scopes=_different(quota.scopes))
    texts = list(dict.fromkeys(map(str, spec_problems(quota, path))))
    if not texts and _conflicting({rule.scope for rule in quota.scopes}):
        # The API server compares each of the two lists with itself only.
        texts.append(f"{path}.scopes, {path}.scopeSelector: {SCOPES_CONFLICT}")
    if not texts:
        texts += filter(None, [_unmatched(quota, path)])
    if quota.key.kind is QuotaKind.CLUSTER and not is_delegated:
        texts += filter(None, [undelegated(quota.hard)])
    return ", ".join(texts)


def _different(rules: Iterable[ScopeRule]) -> tuple[ScopeRule, ...]:
    """The first of all rules that are alike but for their values: a tenant can write very many."""
    found: dict[tuple[str, str, bool, bool], ScopeRule] = {}
    for rule in rules:
        found.setdefault((rule.scope, rule.operator, rule.is_listed, bool(rule.values)), rule)
    return tuple(found.values())


def _unmatched(quota: Quota, path: str) -> str:
    """Why nothing is counted under some of the names; empty if there are none.

    Only pods and claims for volumes have scopes. The API server checks that for standard names, and
    accepts others, such as `count/services`, with any scope.
    """
    scopes = {rule.scope for rule in quota.scopes}
    found = sorted(name for name in quota.hard if not scopes <= _scopes_of(name))
    return f"{path}.hard: {SCOPES_MATCH_NOTHING}: {' '.join(found)}" if found else ""


def _scopes_of(name: str) -> frozenset[str]:
    """The scopes that an object can have that is counted under the name."""
    if is_claim_name(name):
        return CLAIM_SCOPES
    return POD_SCOPES if is_schedulable(name) or is_pod_name(name) else frozenset()


# ------------------------------------------------------------------ limits


def is_standard_for_quota(name: str) -> bool:
    """Whether the API server's own quotas know the name without a domain in front."""
    return is_standard(name) and name != STORAGE


def _hard_problems(hard: ResourceList, path: str) -> Iterator[Problem]:
    for name, amount in hard.items():
        field = f"{path}[{name}]"
        yield from _name_problems(name, field)
        yield from _amount_problems(name, amount, field)


def _name_problems(name: str, field: str) -> Iterator[Problem]:
    errors = qualified_name_errors(name)
    for error in errors:
        yield invalid(field, JsonText(name), error)
    if "/" in name:
        return
    if not errors and not is_standard(name):
        yield invalid(field, JsonText(name), NOT_STANDARD)
    if not is_standard_for_quota(name):
        yield invalid(field, JsonText(name), NOT_FOR_QUOTA)


def _amount_problems(name: str, amount: Quantity, field: str) -> Iterator[Problem]:
    if amount.is_negative:
        yield invalid(field, str(amount), NEGATIVE)
    if is_whole(name) and amount.milli_value() % 1000:
        yield invalid(field, amount, NOT_WHOLE)


# ------------------------------------------------------------------ scopes


def _listed_problems(scopes: tuple[str, ...], hard: ResourceList, path: str) -> Iterator[Problem]:
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid(path, scopes, SCOPE_UNKNOWN)
        for _ in _unfit(scope, hard):
            yield invalid(path, scopes, SCOPE_UNFIT)
    if _conflicting(set(scopes)):
        yield invalid(path, scopes, SCOPES_CONFLICT)


def _expression_problems(
    rules: Sequence[ScopeRule], hard: ResourceList, path: str
) -> Iterator[Problem]:
    for rule in rules:
        if rule.scope not in SCOPES:
            yield invalid(f"{path}.scopeName", JsonText(rule.scope), SCOPE_UNKNOWN)
        for _ in _unfit(rule.scope, hard):
            yield invalid(path, rule.scope, SCOPE_UNFIT)
        if rule.scope in POD_SCOPES - {"PriorityClass"} and rule.operator != EXISTS:
            yield invalid(f"{path}.operator", JsonText(rule.operator), OPERATOR_UNFIT)
        yield from _value_problems(rule, path)
    if _conflicting({rule.scope for rule in rules}):
        yield invalid(path, (), SCOPES_CONFLICT)


def _value_problems(rule: ScopeRule, path: str) -> Iterator[Problem]:
    if rule.operator not in OPERATORS:
        yield invalid(f"{path}.operator", JsonText(rule.operator), OPERATOR_UNKNOWN)
    elif rule.operator in {"In", "NotIn"}:
        if not rule.values:
            yield required(f"{path}.values", VALUES_MISSING)
    elif rule.values:
        yield invalid(f"{path}.values", rule.values, VALUES_NEEDLESS)


def _unfit(scope: str, hard: ResourceList) -> list[str]:
    """The standard resources that a quota with this scope may not limit."""
    fit = FIT.get(scope)
    if fit is None:
        return []
    return [name for name in hard if is_standard_for_quota(name) and name not in fit]


def _conflicting(scopes: set[str]) -> bool:
    return any(scopes.issuperset(pair) for pair in CONFLICTS)
