"""Scopes: which pods of its namespaces a quota is about.

A quota without scopes is about all of them. The operator is looked at only where the
scope is PriorityClass, as upstream does; with the other scopes the API allows no
operator but Exists.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from bursar.core.model.qos import QosClass

EXISTS: Final = "Exists"
"""The operator of a scope that is merely listed."""


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """One condition on a pod. An entry of `scopes` is the one that its scope Exists."""

    scope: str
    operator: str
    values: tuple[str, ...] = ()


class ScopeFacts(Protocol):
    """What of a pod decides about scopes; all the pods of a profile have it in common."""

    @property
    def deadline_s(self) -> int | None: ...

    @property
    def priority_class(self) -> str: ...

    @property
    def crosses_namespaces(self) -> bool: ...

    @property
    def qos(self) -> QosClass: ...


def matches(rules: Iterable[ScopeRule], facts: ScopeFacts) -> bool:
    """Whether all the rules hold for the pod. A scope nobody knows holds for none."""
    return all(_holds(rule, facts) for rule in rules)


def _holds(rule: ScopeRule, facts: ScopeFacts) -> bool:
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
    # The scope is named after the deadline of jobs. Pods being deleted are not what it means.
    return facts.deadline_s is not None and facts.deadline_s >= 0


def _class_holds(rule: ScopeRule, name: str) -> bool:
    """Upstream reads the values as values of a label, and fails on names beyond 63 characters.

    Classes may have them, though. Here they are compared like any other name.
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
