"""The smallest set of pods of one node whose end makes room for another pod.

With one resource, the largest pods are the smallest set. With several it is a covering problem: a
bound says how many pods are needed at least, a greedy choice how many are enough, and a search
with a bounded number of steps looks for something in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from bursar.core.model.names import PODS
from bursar.core.model.pod import Pod
from bursar.core.placement.fit import shortfalls_of
from bursar.core.placement.node_books import Entry, NodeBooks
from bursar.core.placement.vector import Vector

STEPS_MAX: Final = 20_000
"""Bound of the search for a smaller set, for all nodes together."""

CANDIDATES_MAX: Final = 400
"""A node with more pods than this is not searched; the greedy answer stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Pods of a node whose end makes room."""

    node: str
    pods: tuple[Pod, ...]
    is_certainly_smallest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """The question for one node, with an answer that is enough and a bound for the best."""

    node: str
    must_go: tuple[Entry, ...]
    """Pods that hold a port."""
    candidates: tuple[Entry, ...]
    """Others that may go, those of low priority first."""
    missing: tuple[tuple[str, int], ...]
    """What is still lacking after the pods that must go, by resource."""
    greedy: tuple[Entry, ...] | None
    """Candidates that are enough; None if all of them are not."""
    fewest: int
    """No fewer candidates can be enough."""

    @classmethod
    def of(
        cls,
        request: Vector,
        books: NodeBooks,
        *,
        must_go: Sequence[Pod],
        may_go: Sequence[Entry],
    ) -> "Eviction":
        gone = [entry for entry in books.entries if any(entry.pod is pod for pod in must_go)]
        left = [entry for entry in books.entries if all(entry is not each for each in gone)]
        lacks = shortfalls_of(request, NodeBooks(books.node, entries=left) if gone else books)
        missing = tuple((lack.resource, lack.missing) for lack in lacks)
        helpful = [
            entry
            for entry in may_go
            if all(entry is not each for each in gone)
            and any(_frees(entry, resource) > 0 for resource, _ in missing)
        ]
        candidates = tuple(sorted(helpful, key=lambda entry: _rank(entry, missing)))
        return cls(
            node=books.node.name,
            must_go=tuple(gone),
            candidates=candidates,
            missing=missing,
            greedy=_greedy(candidates, missing),
            fewest=max((_at_least(candidates, *each) for each in missing), default=0),
        )

    def freed(self, chosen: Sequence[Entry], *, is_certain: bool) -> Freed:
        return Freed(
            node=self.node,
            pods=tuple(entry.pod for entry in (*self.must_go, *chosen)),
            is_certainly_smallest=is_certain,
        )


def smallest_eviction(evictions: Sequence[Eviction]) -> Freed | None:
    """The smallest set over all nodes; among equals, the one with the lowest priorities."""
    possible = [(each, each.greedy) for each in evictions if each.greedy is not None]
    if not possible:
        return None
    best, chosen = min(
        possible,
        key=lambda pair: (len(pair[0].must_go) + len(pair[1]), _highest(pair[1]), pair[0].node),
    )
    size = len(best.must_go) + len(chosen)
    steps = _Steps(STEPS_MAX)
    for each, _ in sorted(possible, key=lambda pair: len(pair[0].must_go) + pair[0].fewest):
        while len(each.must_go) + each.fewest < size:
            smaller = _search(each, size - len(each.must_go) - 1, steps)
            if smaller is None:
                break
            best, chosen, size = each, smaller, len(each.must_go) + len(smaller)
    return best.freed(chosen, is_certain=steps.left > 0)


@dataclass(slots=True)
class _Steps:
    left: int


def _search(eviction: Eviction, size: int, steps: _Steps) -> tuple[Entry, ...] | None:
    """At most `size` candidates that free enough; None if there are none or the steps run out."""
    entries, names = eviction.candidates, [name for name, _ in eviction.missing]
    if len(entries) > CANDIDATES_MAX:
        steps.left = 0
        return None
    frees = [[_frees(entry, name) for name in names] for entry in entries]
    # The most that the candidates from each position on can free, one of them taken alone.
    most = [[0] * len(names) for _ in range(len(entries) + 1)]
    for index in range(len(entries) - 1, -1, -1):
        most[index] = [max(pair) for pair in zip(frees[index], most[index + 1], strict=True)]

    def extended(index: int, missing: list[int], left: int) -> tuple[Entry, ...] | None:
        if all(amount <= 0 for amount in missing):
            return ()
        steps.left -= 1
        if steps.left <= 0 or index == len(entries) or left == 0:
            return None
        reach = zip(missing, most[index], strict=True)
        if any(amount > left * largest for amount, largest in reach):
            return None
        rest = [amount - freed for amount, freed in zip(missing, frees[index], strict=True)]
        with_it = extended(index + 1, rest, left - 1)
        if with_it is not None:
            return (entries[index], *with_it)
        return extended(index + 1, missing, left)

    return extended(0, [amount for _, amount in eviction.missing], size)


def _greedy(
    candidates: Sequence[Entry], missing: Sequence[tuple[str, int]]
) -> tuple[Entry, ...] | None:
    """Take the pod that frees the most of what still lacks, until nothing lacks."""
    lacking = dict(missing)
    left = list(candidates)
    chosen: list[Entry] = []
    while any(amount > 0 for amount in lacking.values()):
        best = max(left, key=lambda entry: _worth(entry, lacking), default=None)
        if best is None or _worth(best, lacking) <= 0:
            return None
        left.remove(best)
        chosen.append(best)
        for resource in lacking:
            lacking[resource] -= _frees(best, resource)
    # A pod that was taken early may have become superfluous.
    for entry in list(chosen):
        rest = [each for each in chosen if each is not entry]
        if all(sum(_frees(each, name) for each in rest) >= amount for name, amount in missing):
            chosen = rest
    return tuple(chosen)


def _worth(entry: Entry, lacking: dict[str, int]) -> Fraction:
    """The sum of the parts of what lacks that the pod frees, each part at most one."""
    return sum(
        (
            Fraction(min(_frees(entry, resource), amount), amount)
            for resource, amount in lacking.items()
            if amount > 0
        ),
        start=Fraction(0),
    )


def _at_least(candidates: Sequence[Entry], resource: str, missing: int) -> int:
    """How many of the largest pods free enough of one resource."""
    count = 0
    for freed in sorted((_frees(entry, resource) for entry in candidates), reverse=True):
        if missing <= 0:
            break
        missing -= freed
        count += 1
    return count


def _frees(entry: Entry, resource: str) -> int:
    return 1 if resource == PODS else entry.taken.amount(resource)


def _rank(entry: Entry, missing: Sequence[tuple[str, int]]) -> tuple[int, Fraction, str, str]:
    """Low priorities first, then large pods, then names, so that the answer is always the same."""
    lacking = {resource: max(1, amount) for resource, amount in missing}
    return (entry.priority, -_worth(entry, lacking), entry.pod.namespace, entry.pod.name)


def _highest(entries: Sequence[Entry]) -> int:
    return max((entry.priority for entry in entries), default=0)
