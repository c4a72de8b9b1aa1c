"""Scores of the scheduler for nodes that fit, from 0 to 100.

Each function returns exactly the integer that upstream computes. It takes upstream's steps in
upstream's order: int64 that wraps and divides towards zero, and float64 rounded after every
operation. CPU and memory are scored with equal weight, as the default profile does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from bursar.core.model.demand import ASSIGNED, DemandOptions, pod_requests
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.numbers.binary_float import binary64, truncated_int64
from bursar.core.model.numbers.int64 import quotient, wrapped
from bursar.core.model.pod import Pod
from bursar.core.model.resources import ResourceList
from bursar.core.placement.node_books import SCORING_DEFAULTS, NodeBooks
from bursar.core.placement.vector import Vector, scheduled_amount

SCORE_MAX: Final = 100
_SCORED: Final = (CPU, MEMORY)

# The plugin sets none of the options it has for this, so an incoming pod's pod-level
# resources do not count in the score, although they do in the filter.
_WEIGHED_INCOMING: Final = DemandOptions(skip_pod_level=True, non_missing=SCORING_DEFAULTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """One resource of a node: what it has, what is taken, and what will be with the pod."""

    allocatable: int
    before: int
    after: int


def least_allocated(pod: Pod, books: NodeBooks) -> int:
    """Prefer the emptier node. This is what NodeResourcesFit does by default."""
    loads = _loads(books, pod_requests(pod, _WEIGHED_INCOMING), books.weighed)
    return quotient(wrapped(sum(map(_emptiness, loads))), len(loads)) if loads else 0


def balanced_allocation(pod: Pod, books: NodeBooks) -> int | None:
    """Prefer the node whose resources end up more evenly used than before: 75 is no change.

    None means that the plugin has no say, because the pod requests none of the resources.
    """
    requests = pod_requests(pod, ASSIGNED)
    if not any(scheduled_amount(name, requests) for name in _SCORED):
        return None
    loads = _loads(books, requests, books.taken)
    with_pod = _evenness([(load.after, load.allocatable) for load in loads])
    without_pod = _evenness([(load.before, load.allocatable) for load in loads])
    half = SCORE_MAX // 2
    return wrapped(half + quotient(wrapped(half + with_pod - without_pod), 2))


def _loads(books: NodeBooks, requests: ResourceList, held: Vector) -> list[_Load]:
    """The resources that count: those that the node has."""
    loads: list[_Load] = []
    for name in _SCORED:
        allocatable, before = books.allocatable.amount(name), held.amount(name)
        if allocatable:
            after = wrapped(before + scheduled_amount(name, requests))
            loads.append(_Load(allocatable=allocatable, before=before, after=after))
    return loads


def _emptiness(load: _Load) -> int:
    if load.after > load.allocatable:
        return 0
    rest = wrapped(load.allocatable - load.after)
    return quotient(wrapped(rest * SCORE_MAX), load.allocatable)


@lru_cache(maxsize=4096)
def _used_part(used: int, whole: int) -> Fraction:
    return min(Fraction(1), binary64(Fraction(binary64(used), binary64(whole))))


def _evenness(pairs: Sequence[tuple[int, int]]) -> int:
    """100 if all resources are used to the same degree, less the further they are apart."""
    fractions = [_used_part(used, whole) for used, whole in pairs]
    deviation = Fraction(0)
    if len(fractions) == len(_SCORED):
        # Upstream's shortcut for the standard deviation of two numbers.
        deviation = abs(binary64(binary64(fractions[0] - fractions[1]) * Fraction(1, 2)))
    return truncated_int64(binary64(binary64(1 - deviation) * SCORE_MAX))
