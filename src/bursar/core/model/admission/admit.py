"""Admission of one pod: what LimitRanges, RuntimeClasses and PriorityClasses change and refuse.

Objects that are not known are named, because a verdict without them is not the server's. The
plugins come in the server's order: LimitRanger, Priority, RuntimeClass, then the bounds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bursar.core.model.admission.classes import BUILT_IN, PriorityClass, RuntimeClass
from bursar.core.model.admission.limit_range import (
    LimitRange,
    limit_errors,
    with_container_defaults,
)
from bursar.core.model.pod import Pod
from bursar.core.model.problem import quoted
from bursar.core.model.resources import rounded_to_milli

_NOT_IN_THE_INPUT: Final = "not in the input"


@dataclass(frozen=True, slots=True)
class Policies:
    """The objects of the input that admission reads."""

    limit_ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)
    """LimitRanges by namespace. A namespace that is missing has unknown LimitRanges."""
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    pod: Pod
    """The pod as admission leaves it."""
    changes: tuple[str, ...]
    """What admission set, with the object that decided it."""
    refusals: tuple[str, ...]
    """Why admission refuses the pod, in the server's words."""
    unknown: tuple[str, ...]
    """Objects that admission would read and that are not known."""


def policies_of(
    limit_ranges: Iterable[LimitRange],
    runtime_classes: Iterable[RuntimeClass],
    priority_classes: Iterable[PriorityClass],
) -> Policies:
    ranges: dict[str, tuple[LimitRange, ...]] = {}
    for each in limit_ranges:
        ranges[each.namespace] = (*ranges.get(each.namespace, ()), each)
    return Policies(
        ranges,
        {each.name: each for each in runtime_classes},
        {each.name: each for each in (*BUILT_IN, *priority_classes)},
    )


def admit(pod: Pod, policies: Policies) -> Admission:
    """Admit a pod. It must have the server's defaults."""
    run = _Run(pod, policies)
    ranges = policies.limit_ranges.get(pod.namespace)
    if ranges is None:
        run.unknown.append(f"LimitRanges of namespace {pod.namespace}: {_NOT_IN_THE_INPUT}")
    for limits in ranges or ():
        run.pod, changes = with_container_defaults(run.pod, limits)
        if changes:
            run.changes.append(f"LimitRange {limits.name}: {'; '.join(changes)}")
    run.set_priority()
    run.set_runtime_class()
    for limits in ranges or ():
        if errors := limit_errors(run.pod, limits):
            run.refuse(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return Admission(
        pod=run.pod,
        changes=tuple(run.changes),
        refusals=tuple(run.refusals),
        unknown=tuple(run.unknown),
    )


class _Run:
    """One admission under way."""

    def __init__(self, pod: Pod, policies: Policies) -> None:
        self.pod = pod
        self._policies = policies
        self.changes: list[str] = []
        self.refusals: list[str] = []
        self.unknown: list[str] = []

    def refuse(self, text: str) -> None:
        self.refusals.append(f"pods {quoted(self.pod.name)} is forbidden: {text}")

    def set_priority(self) -> None:
        known, pod = self._policies.priority_classes, self.pod
        defaults = [each for each in known.values() if each.is_default]
        # Of several defaults, the one with the lowest value counts.
        default = min(defaults, key=lambda each: each.value, default=None)
        if pod.priority_class and pod.priority_class not in known:
            self.unknown.append(f"PriorityClass {pod.priority_class}: {_NOT_IN_THE_INPUT}")
            return
        chosen = known[pod.priority_class] if pod.priority_class else default
        if chosen is None:
            if pod.priority:
                self.unknown.append(f"the default PriorityClass: {_NOT_IN_THE_INPUT}")
            return
        if pod.priority not in {None, chosen.value}:
            self.refuse(
                f"the integer value of priority ({pod.priority}) must not be provided in pod spec; "
                f"priority admission controller computed {chosen.value} from the given "
                "PriorityClass name"
            )
        elif pod.preemption_policy not in {"", chosen.preemption_policy}:
            self.refuse(
                f"the string value of PreemptionPolicy ({pod.preemption_policy}) must not be "
                "provided in pod spec; priority admission controller computed "
                f"{chosen.preemption_policy} from the given PriorityClass name"
            )
        else:
            self.changes.append(f"PriorityClass {chosen.name}: priority {chosen.value}")
            self.pod = replace(pod, priority=chosen.value, priority_class=chosen.name)

    def set_runtime_class(self) -> None:
        pod = self.pod
        if not pod.runtime_class:
            if pod.overhead:
                self.refuse(
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined "
                    "Overhead"
                )
            return
        chosen = self._policies.runtime_classes.get(pod.runtime_class)
        if chosen is None:
            self.unknown.append(f"RuntimeClass {pod.runtime_class}: {_NOT_IN_THE_INPUT}")
            return
        self._set_overhead(chosen)
        self._set_scheduling(chosen)

    def _set_overhead(self, chosen: RuntimeClass) -> None:
        overhead = None if chosen.overhead is None else rounded_to_milli(chosen.overhead)
        if overhead is None:
            if self.pod.overhead:
                self.refuse(
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined "
                    "Overhead"
                )
        elif self.pod.overhead and dict(self.pod.overhead) != overhead:
            self.refuse(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            )
        elif overhead:
            named = ", ".join(f"{name} {amount}" for name, amount in sorted(overhead.items()))
            self.changes.append(f"RuntimeClass {chosen.name}: overhead {named}")
            self.pod = replace(self.pod, overhead=overhead)

    def _set_scheduling(self, chosen: RuntimeClass) -> None:
        stated = self.pod.node_selector
        for key, value in sorted(chosen.node_selector.items()):
            if stated.get(key, value) != value:
                self.refuse(
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {stated[key]}"
                )
                return
        added = [each for each in chosen.tolerations if each not in self.pod.tolerations]
        self.pod = replace(
            self.pod,
            node_selector={**stated, **chosen.node_selector},
            tolerations=(*self.pod.tolerations, *added),
        )
        if chosen.node_selector:
            named = ", ".join(f"{key}={value}" for key, value in chosen.node_selector.items())
            self.changes.append(f"RuntimeClass {chosen.name}: node selector {named}")
        if added:
            self.changes.append(f"RuntimeClass {chosen.name}: {len(added)} tolerations")
