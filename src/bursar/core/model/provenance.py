"""Provenance: the containers and rules that a pod's demand comes from.

The amounts come from `demand`. This module finds the parts that add up to each amount, to explain
why a pod counts for more or less than its containers request.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from bursar.core.model.demand import (
    INCOMING,
    Basis,
    DemandOptions,
    Readings,
    Side,
    container_readings,
    counted,
    pod_level,
    pod_level_readings,
    pod_limits,
    pod_requests,
)
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList


class Rule(Enum):
    """The rule that decided an amount. Except for the last rule, overhead may come on top."""

    SUM_OF_CONTAINERS = "sum of containers and sidecars"
    INIT_PEAK = "init container peak"
    POD_LEVEL = "pod-level resources"
    OVERHEAD_ONLY = "overhead only"


class Kind(Enum):
    CONTAINER = "container"
    INIT = "init container"
    SIDECAR = "sidecar"
    POD = "pod"
    OVERHEAD = "overhead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One summand of a decision."""

    source: str
    """The container's name, or `pod`, or `overhead`."""
    kind: Kind
    amount: Quantity
    basis: Basis = Basis.SPEC


Parts: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The amount of one resource. The parts add up to it; overhead, if any, is the last."""

    amount: Quantity
    rule: Rule
    parts: Parts


def explain_requests(pod: Pod, options: DemandOptions = INCOMING) -> dict[str, Decision]:
    """The resources and amounts of `pod_requests`, each with where it came from."""
    return _explained(pod, Side.REQUESTS, pod_requests(pod, options), options)


def explain_limits(pod: Pod, options: DemandOptions = INCOMING) -> dict[str, Decision]:
    """The resources and amounts of `pod_limits`, each with where it came from."""
    return _explained(pod, Side.LIMITS, pod_limits(pod, options), options)


def _explained(
    pod: Pod, side: Side, demand: ResourceList, options: DemandOptions
) -> dict[str, Decision]:
    parts_of = _parts_by_resource(pod, side, options)
    stated = _stated(pod, side, options)
    decisions: dict[str, Decision] = {}
    for name, amount in demand.items():
        rule, parts = _origin(parts_of.get(name, []), stated.get(name))
        if side is Side.REQUESTS or _nanos(parts):
            # A limit of zero stays zero: overhead comes only on top of something.
            parts += _overhead(pod, name, options)
        decisions[name] = Decision(amount=amount, rule=rule, parts=parts)
    return decisions


def _parts_by_resource(pod: Pod, side: Side, options: DemandOptions) -> dict[str, list[Part]]:
    """The amount of each container, by resource. One pass, however many resources there are."""
    kinds = [Kind.CONTAINER for _ in pod.containers]
    kinds += [Kind.SIDECAR if c.is_sidecar else Kind.INIT for c in pod.init_containers]
    parts: dict[str, list[Part]] = {}
    for container, kind, readings in zip(
        (*pod.containers, *pod.init_containers),
        kinds,
        container_readings(pod, side, options),
        strict=True,
    ):
        for name, amount in counted(readings).items():
            basis = _basis(readings, name, amount)
            part = Part(source=container.name, kind=kind, amount=amount, basis=basis)
            parts.setdefault(name, []).append(part)
    return parts


def _stated(pod: Pod, side: Side, options: DemandOptions) -> dict[str, Part]:
    """The numbers the pod states for itself."""
    if pod.resources is None or options.skip_pod_level:
        return {}
    readings = pod_level_readings(pod, side, options)
    return {
        name: Part(source="pod", kind=Kind.POD, amount=amount, basis=_basis(readings, name, amount))
        for name, amount in pod_level(pod, side, options).items()
    }


def _origin(parts: list[Part], stated: Part | None) -> tuple[Rule, Parts]:
    """The rule that decided before overhead, and the parts it added up.

    The candidates are all containers and sidecars together, then each step of the start. A step
    holds the sidecars that started before it, so a running sum compares all steps in one pass.
    """
    if stated is not None:
        return Rule.POD_LEVEL, (stated,)
    if not parts:
        return Rule.OVERHEAD_ONLY, ()
    running = tuple(part for part in parts if part.kind is not Kind.INIT)
    greatest = _nanos(running) if running else None
    peak: int | None = None
    sidecars = 0
    for position, part in enumerate(parts):
        if part.kind is Kind.CONTAINER:
            continue
        step = sidecars + part.amount.nanos
        if part.kind is Kind.SIDECAR:
            sidecars = step
        # Only a greater amount displaces an earlier one; so it does upstream.
        if greatest is None or step > greatest:
            greatest, peak = step, position
    if peak is None:
        return Rule.SUM_OF_CONTAINERS, running
    return Rule.INIT_PEAK, _step(parts, peak)


def _step(parts: list[Part], position: int) -> Parts:
    """What runs while the container at this position starts. A plain init container is first."""
    started = tuple(part for part in parts[:position] if part.kind is Kind.SIDECAR)
    part = parts[position]
    return (*started, part) if part.kind is Kind.SIDECAR else (part, *started)


def _overhead(pod: Pod, name: str, options: DemandOptions) -> Parts:
    if options.exclude_overhead or name not in pod.overhead:
        return ()
    return (Part(source="overhead", kind=Kind.OVERHEAD, amount=pod.overhead[name]),)


def _basis(readings: Readings, name: str, amount: Quantity) -> Basis:
    """Where the amount was read. A status that says nothing reads as zero."""
    winners = (basis for basis, amounts in readings if amounts.get(name) == amount)
    return next(winners, Basis.ACTUAL)


def _nanos(parts: Parts) -> int:
    return sum(part.amount.nanos for part in parts)
