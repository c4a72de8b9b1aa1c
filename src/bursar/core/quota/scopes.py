"""Scopes: which pods of its namespaces a quota covers.

A quota without scopes covers all pods. As in Kubernetes, the operator matters only for the
scope PriorityClass. With other scopes the API allows only the operator Exists.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from bursar.core.model.qos import QosClass

EXISTS: Final = "Exists"
"""The operator of an entry of `spec.scopes`."""
OPERATORS: Final = frozenset({"In", "NotIn", EXISTS, "DoesNotExist"})
POD_SCOPES: Final = frozenset(
    {
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
    }
)
"""Scopes that look at pods."""
CLAIM_SCOPES: Final = frozenset({"VolumeAttributesClass"})
"""Scopes that look at claims for volumes. They match no pod."""
SCOPES: Final = POD_SCOPES | CLAIM_SCOPES


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """One condition on a pod. An entry of `spec.scopes` becomes one with operator Exists."""

    scope: str
    operator: str
    values: tuple[str, ...] = ()
    is_listed: bool = field(default=False, compare=False)
    """Whether it is an entry of `spec.scopes`. Both notations mean the same."""

    @property
    def is_readable(self) -> bool:
        """Whether the scope and the operator are known, and there are values if it takes some."""
        takes_values = self.operator in {"In", "NotIn"}
        is_known = self.scope in SCOPES and self.operator in OPERATORS
        return is_known and bool(self.values) == takes_values


class SimpleRule(NamedTuple):
    """All rules of a quota with one scope and one operator, as one condition on a pod."""

    scope: str
    operator: str
    values: frozenset[str]


class Rule(Protocol):
    """A condition on a pod, as it is written or simplified."""

    @property
    def scope(self) -> str: ...

    @property
    def operator(self) -> str: ...

    @property
    def values(self) -> Container[str]: ...


class ScopeFacts(Protocol):
    """The fields of a pod that scopes look at. All pods of a profile share them."""

    @property
    def deadline_s(self) -> int | None: ...

    @property
    def priority_class(self) -> str: ...

    @property
    def crosses_namespaces(self) -> bool: ...

    @property
    def qos(self) -> QosClass: ...


def simplified(rules: Iterable[ScopeRule]) -> tuple[SimpleRule, ...]:
    """Rules that hold for the same pods, at most one for each scope and operator.

    A tenant can write tens of thousands of rules and values into one quota.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        values = found.get((rule.scope, rule.operator))
        if values is None:
            found[rule.scope, rule.operator] = set(rule.values)
        elif rule.operator == "In":
            values.intersection_update(rule.values)
        else:
            values.update(rule.values)
    return tuple(SimpleRule(*key, frozenset(values)) for key, values in found.items())


def matches(rules: Iterable[Rule], facts: ScopeFacts) -> bool:
    """Whether all rules hold for the pod. An unknown scope matches no pod."""
    return all(_holds(rule, facts) for rule in rules)


def _holds(rule: Rule, facts: ScopeFacts) -> bool:
    match rule.scope:
        case "Terminating":
            return _has_deadline(facts)
        case "NotTerminating":
            return not _has_deadline(facts)
        case "BestEffort":
            return facts.qos is QosClass.BEST_EFFORT
        case "NotBestEffort":
            return facts.qos is not QosClass.BEST_EFFORT
        case "PriorityClass":
            return _class_holds(rule, facts.priority_class)
        case "CrossNamespacePodAffinity":
            return facts.crosses_namespaces
    return False


def _has_deadline(facts: ScopeFacts) -> bool:
    # "Terminating" means a pod with activeDeadlineSeconds, not a pod that is being deleted.
    return facts.deadline_s is not None and facts.deadline_s >= 0


def _class_holds(rule: Rule, name: str) -> bool:
    """Compare the name of the pod's priority class.

    Kubernetes parses the values as label values and fails for names longer than 63 characters,
    which priority classes may have. Here names of any length are compared.
    """
    match rule.operator:
        case "In":
            return name != "" and name in rule.values
        case "NotIn":
            return name == "" or name not in rule.values
        case "Exists":
            return name != ""
        case "DoesNotExist":
            return name == ""
    return False
