"""Several pod counters as one: their charges are added up, as AAQ does.

If no pod counter counts a pod, or counters only add to it, the pod is counted as Kubernetes does.
If a counter cannot tell yet, the pod waits: a charge that leaves out a part would let pods pass
that do not fit.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from bursar.core.counting.counter import ChargeObserver, Counted, Pending, PodCounter
from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.core.model.pod_row import DeriveFacts, PodRow
from bursar.core.model.resources import NOTHING, ResourceList, add, maximum
from bursar.core.quota.account import Charge
from bursar.core.quota.counting import NativeCounter, NotReady
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.names import is_native_name
from bursar.core.quota.usage import native_usage, native_usage_in
from bursar.core.sharing import Living

NATIVE: Final = "native"
NATIVE_REASON: Final = "requests and limits of the pod"


class CountedPart(NamedTuple):
    """The part of a pod's charge that one counter added."""

    counter: str
    reason: str
    amounts: ResourceList
    is_addition: bool = False
    """Whether the amounts come on top of native counting, and do not replace it."""


class PendingPart(NamedTuple):
    """A counter that cannot tell its part yet."""

    counter: str
    detail: str
    at_least: ResourceList = NOTHING
    """What is known of the part so far."""


Parts: TypeAlias = tuple[CountedPart | PendingPart, ...]


class Counters:
    """Pod counters, and native counting for pods that none of them counts."""

    def __init__(self, parts: Sequence[PodCounter] = ()) -> None:
        self.parts: Final = tuple(parts)
        self._native: Final = NativeCounter()
        self._charges: Final[Living[Hashable, Charge]] = Living()
        self._observers: Final = tuple(each for each in parts if isinstance(each, ChargeObserver))

    @property
    def derive_facts(self) -> DeriveFacts | None:
        return self._derive if self.parts else None

    def _derive(self, body: bytes) -> Hashable | None:
        facts = [each.derive_facts(body) for each in self.parts]
        return tuple(fact for fact in facts if fact is not None) or None

    def see_pod(self, row: PodRow) -> Iterable[PodRow]:
        return [other for part in self.parts for other in part.see_pod(row)]

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]:
        return [other for part in self.parts for other in part.lose_pod(pod)]

    def may_charge(self, resource: str) -> bool:
        """Whether any pod can be charged under this name."""
        return is_native_name(resource) or any(each.may_charge(resource) for each in self.parts)

    # ------------------------------------------------------------------ counting

    def count(self, row: PodRow) -> Charge | NotReady:
        found = self._count(row)
        if self._observers:
            charge = found.provisional if isinstance(found, NotReady) else found
            for each in self._observers:
                each.see_charge(row, charge)
        return found

    def _count(self, row: PodRow) -> Charge | NotReady:
        parts = self._parts_of(row)
        if not parts:
            return self._native.count(row)
        pending = [each for each in parts if isinstance(each, PendingPart)]
        if not pending:
            return self._shared(row, lambda native: _total(_with_native(native, parts)))
        added, replacing = _split(parts)

        def least(native: ResourceList) -> ResourceList:
            """Whatever the pending counters will say, the pod costs at least this much."""
            known = _total(replacing)
            for each in (native, *(part.at_least for part in pending)):
                known = maximum(each, known)
            return add(known, _total(added))

        return NotReady(
            detail="; ".join(f"{each.counter}: {each.detail}" for each in pending),
            provisional=self._shared(row, least),
        )

    def explain(self, row: PodRow) -> Parts:
        """What each counter adds to the charge of the pod, and why."""
        return _with_native(native_usage(row.demand, is_counted=True), self._parts_of(row))

    def _parts_of(self, row: PodRow) -> Parts:
        # No generator: nearly all pods are counted natively, and this is called for all of them.
        found: list[CountedPart | PendingPart] = []
        for part in self.parts:
            answer = part.count(row)
            if answer is not None:
                found.append(_part(part.name, answer))
        return tuple(found)

    def _shared(self, row: PodRow, total: Callable[[ResourceList], ResourceList]) -> Charge:
        """The charge of a pod; `total` tells it, given what the pod costs natively.

        Bills are found by the address of a charge, so equal charges must be one object.
        """
        rest = row.demand.rest
        amounts = total(native_usage(row.demand, is_counted=True))
        listed = tuple((name, each.nanos, each.format) for name, each in sorted(amounts.items()))
        content = (listed, rest)
        charge = self._charges.find(content)
        if charge is None:
            amounts_in = None if rest is None else lambda names: total(native_usage_in(rest, names))
            charge = Charge(amounts, amounts_in)
            self._charges.keep(content, charge)
        return charge


def _with_native(native: ResourceList, parts: Parts) -> Parts:
    """The parts, and native counting before them if none of them takes its place."""
    if any(isinstance(each, PendingPart) or not each.is_addition for each in parts):
        return parts
    return (CountedPart(NATIVE, NATIVE_REASON, native), *parts)


def _part(counter: str, answer: Counted | Pending) -> CountedPart | PendingPart:
    if isinstance(answer, Pending):
        is_possible = not _impossible(answer.at_least)
        return PendingPart(counter, answer.detail, answer.at_least if is_possible else NOTHING)
    if problem := _impossible(answer.amounts):
        return PendingPart(counter, problem)
    return CountedPart(counter, answer.reason, answer.amounts, answer.is_addition)


def _impossible(amounts: ResourceList) -> str:
    """Why the amounts are not charged; empty if they can be."""
    for name, amount in amounts.items():
        # A negative amount would lower the bill of other pods.
        if amount.is_negative or amount.whole_units > INT64_MAX:
            return f"it charges {amount} of {name}, which no pod can cost"
    return ""


def _split(parts: Parts) -> tuple[Parts, Parts]:
    """The parts that add to native counting, and those that take its place."""
    counted = [each for each in parts if isinstance(each, CountedPart)]
    return (
        tuple(each for each in counted if each.is_addition),
        tuple(each for each in counted if not each.is_addition),
    )


def _total(parts: Iterable[CountedPart | PendingPart]) -> ResourceList:
    counted = (each.amounts for each in parts if isinstance(each, CountedPart))
    nothing: ResourceList = NOTHING
    return reduce(add, counted, nothing)
