"""Scores of the scheduler for nodes that fit, from 0 to 100.

Each function answers the very integer upstream computes, which takes the same steps
in the same order: int64 that wraps and divides towards zero, and float64 rounded after
every operation. On processors where Go fuses a multiplication with an addition (not
amd64) a balance of three or more resources may come out one higher or lower there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from bursar.core.model.binary_float import binary64, sqrt64, truncated_int64
from bursar.core.model.demand import ASSIGNED, DemandOptions, pod_requests
from bursar.core.model.int64 import quotient, wrapped
from bursar.core.model.names import CPU, MEMORY, PODS, is_scalar
from bursar.core.model.pod import Pod
from bursar.core.placement.node_books import SCORING_DEFAULTS, NodeBooks
from bursar.core.placement.vector import Vector, scheduled_amount

SCORE_MAX: Final = 100

PLUGIN_WEIGHTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
)
"""By how much the default profile multiplies each plugin's score before adding them up."""

# The plugin sets none of the options it has for this, so an incoming pod's pod-level
# resources do not count in the score, although they do in the filter.
_WEIGHED_INCOMING: Final = DemandOptions(skip_pod_level=True, non_missing=SCORING_DEFAULTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedResource:
    name: str
    weight: int = 1


DEFAULT_RESOURCES: Final = (WeightedResource(name=CPU), WeightedResource(name=MEMORY))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """One resource of a node: what it has, what is taken, and what will be with the pod."""

    weight: int
    allocatable: int
    before: int
    after: int


def least_allocated(
    pod: Pod, books: NodeBooks, resources: Sequence[WeightedResource] = DEFAULT_RESOURCES
) -> int:
    """Prefer the emptier node. This is what NodeResourcesFit does by default."""
    return _weighted_average(
        [(_emptiness(load), load.weight) for load in _weighed_loads(pod, books, resources)]
    )


def balanced_allocation(
    pod: Pod, books: NodeBooks, resources: Sequence[WeightedResource] = DEFAULT_RESOURCES
) -> int | None:
    """Prefer the node whose resources end up more evenly used than before: 75 is no change.

    None means that the plugin has no say, because the pod requests none of the resources.
    """
    requests = pod_requests(pod, ASSIGNED)
    asked = [scheduled_amount(resource.name, requests) for resource in resources]
    if not any(asked):
        return None
    loads = _loads(books, resources, asked, books.taken)
    with_pod = _evenness([(load.after, load.allocatable) for load in loads])
    without_pod = _evenness([(load.before, load.allocatable) for load in loads])
    half = SCORE_MAX // 2
    return wrapped(half + quotient(wrapped(half + with_pod - without_pod), 2))


def total_score(scores: Mapping[str, int]) -> int:
    """The node's final score from the plugins' own, each already between 0 and 100."""
    return sum(score * PLUGIN_WEIGHTS[plugin] for plugin, score in scores.items())


# ------------------------------------------------------------------ what is scored


def _weighed_loads(
    pod: Pod, books: NodeBooks, resources: Sequence[WeightedResource]
) -> list[_Load]:
    requests = pod_requests(pod, _WEIGHED_INCOMING)
    asked = [scheduled_amount(resource.name, requests) for resource in resources]
    return _loads(books, resources, asked, books.weighed)


def _loads(
    books: NodeBooks, resources: Sequence[WeightedResource], asked: Sequence[int], held: Vector
) -> list[_Load]:
    """The resources that count: the node has them and, beyond the usual three, the pod asks."""
    loads: list[_Load] = []
    for resource, more in zip(resources, asked, strict=True):
        name = resource.name
        allocatable = 0 if name == PODS else books.allocatable.amount(name)
        if allocatable == 0 or (more == 0 and is_scalar(name)):
            continue
        before = (held if name in {CPU, MEMORY} else books.taken).amount(name)
        loads.append(
            _Load(
                weight=resource.weight,
                allocatable=allocatable,
                before=before,
                after=wrapped(before + more),
            )
        )
    return loads


# ------------------------------------------------------------------ how it is scored


def _weighted_average(scores: Sequence[tuple[int, int]]) -> int:
    weights = sum(weight for _, weight in scores)
    if weights == 0:
        return 0
    total = 0
    for score, weight in scores:
        total = wrapped(total + wrapped(score * weight))
    return quotient(total, weights)


def _emptiness(load: _Load) -> int:
    if load.after > load.allocatable:
        return 0
    rest = wrapped(load.allocatable - load.after)
    return quotient(wrapped(rest * SCORE_MAX), load.allocatable)


def _evenness(pairs: Sequence[tuple[int, int]]) -> int:
    """100 if all resources are used to the same degree, less the further they are apart."""
    fractions = [
        min(Fraction(1), binary64(Fraction(binary64(used), binary64(whole))))
        for used, whole in pairs
    ]
    spread = binary64(1 - _deviation(fractions))
    return truncated_int64(binary64(spread * SCORE_MAX))


def _deviation(fractions: Sequence[Fraction]) -> Fraction:
    """The standard deviation, by upstream's shortcut for two."""
    count = len(fractions)
    if count < 2:
        return Fraction(0)
    if count == 2:
        return abs(binary64(binary64(fractions[0] - fractions[1]) * Fraction(1, 2)))
    total = Fraction(0)
    for fraction in fractions:
        total = binary64(total + fraction)
    mean = binary64(Fraction(total, count))
    squares = Fraction(0)
    for fraction in fractions:
        distance = binary64(fraction - mean)
        squares = binary64(squares + binary64(distance * distance))
    return sqrt64(binary64(Fraction(squares, count)))
