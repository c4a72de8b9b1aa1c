"""What pods that have not ended request of extended resources: on each node, and without one."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from bursar.core.model.names import is_extended
from bursar.core.model.pod_row import PodRow

Amounts = dict[str, int]

NOWHERE: Final = ""
"""Instead of the name of a node, for pods that have none yet."""


class Waiting(NamedTuple):
    """What pods without a node request of a resource, as `bursar top` counts it."""

    amount: int
    pods: int
    gated_pods: int
    """How many of these pods a scheduling gate holds back."""


class _Entry(NamedTuple):
    node: str
    amounts: Amounts
    is_gated: bool


class UseBook:
    """Counts by pod and not by event, so that a pod told twice is counted once."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], _Entry] = {}
        """By namespace and name."""
        self._used: dict[str, Amounts] = {}
        self._waiting_pods: Counter[str] = Counter()
        self._gated_pods: Counter[str] = Counter()

    def used(self, node: str, resource: str) -> int:
        return self._used.get(node, {}).get(resource, 0)

    def waiting(self, resource: str) -> Waiting:
        return Waiting(
            amount=self.used(NOWHERE, resource),
            pods=self._waiting_pods[resource],
            gated_pods=self._gated_pods[resource],
        )

    def see(self, row: PodRow) -> frozenset[str]:
        """A pod is new or has changed. Returns the nodes where another amount is in use now."""
        return self._enter(row, None if row.is_terminated else _entry(row))

    def lose(self, row: PodRow) -> frozenset[str]:
        """A pod is gone. Returns the node where less is in use now."""
        return self._enter(row, None)

    def _enter(self, row: PodRow, after: _Entry | None) -> frozenset[str]:
        key = (row.namespace, row.name)
        before = self._pods.pop(key, None)
        if after is not None:
            self._pods[key] = after
        if before == after:
            return frozenset()
        touched = set()
        for entry, sign in ((before, -1), (after, 1)):
            if entry is not None:
                self._add(entry, sign)
                touched.add(entry.node)
        return frozenset(touched - {NOWHERE})

    def _add(self, entry: _Entry, sign: int) -> None:
        used = self._used.setdefault(entry.node, {})
        for name, amount in entry.amounts.items():
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]
            if entry.node == NOWHERE:
                self._waiting_pods[name] += sign
                self._gated_pods[name] += sign * entry.is_gated
        if not used:
            del self._used[entry.node]


def use_of(rows: Iterable[PodRow]) -> UseBook:
    """What a list of pods uses."""
    book = UseBook()
    for row in rows:
        book.see(row)
    return book


def _entry(row: PodRow) -> _Entry | None:
    """What the pod requests, where that is; None if it is nothing that is counted here."""
    demand = row.demand
    requests = demand.assigned_requests if row.node_name else demand.quota_requests
    amounts = {
        name: amount.whole_units
        for name, amount in requests.items()
        if is_extended(name) and not amount.is_zero
    }
    is_gated = not row.node_name and bool(row.profile.gates)
    return _Entry(row.node_name or NOWHERE, amounts, is_gated) if amounts else None
