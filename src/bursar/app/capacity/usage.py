"""Usage of extended resources: what pods that have not ended request, by node."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from bursar.core.model.names import is_extended
from bursar.core.model.pod_row import PodRow

Amounts = dict[str, int]

UNSCHEDULED: Final = ""
"""Stands for the node of pods that have none yet."""


class WaitingUsage(NamedTuple):
    """What pods without a node request of a resource."""

    amount: int
    pods: int
    gated_pods: int
    """How many of these pods have a scheduling gate."""


class _Entry(NamedTuple):
    node: str
    amounts: Amounts
    is_gated: bool


class ExtendedUsage:
    """Sums over pods. A pod that is seen twice is counted once."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], _Entry] = {}
        """By namespace and name."""
        self._used: dict[str, Amounts] = {}
        self._waiting_pods: Counter[str] = Counter()
        self._gated_pods: Counter[str] = Counter()

    def used(self, node: str, resource: str) -> int:
        return self._used.get(node, {}).get(resource, 0)

    def waiting(self, resource: str) -> WaitingUsage:
        return WaitingUsage(
            amount=self.used(UNSCHEDULED, resource),
            pods=self._waiting_pods[resource],
            gated_pods=self._gated_pods[resource],
        )

    def see(self, row: PodRow) -> frozenset[str]:
        """A pod was created or changed. Returns the nodes whose usage has changed."""
        return self._enter(row, None if row.is_terminated else _entry(row))

    def lose(self, row: PodRow) -> frozenset[str]:
        """A pod was deleted. Returns the node whose usage has changed."""
        return self._enter(row, None)

    def _enter(self, row: PodRow, after: _Entry | None) -> frozenset[str]:
        key = (row.namespace, row.name)
        before = self._pods.pop(key, None)
        if after is not None:
            self._pods[key] = after
        if before == after:
            return frozenset()
        changed = set()
        for entry, sign in ((before, -1), (after, 1)):
            if entry is not None:
                self._add(entry, sign)
                changed.add(entry.node)
        return frozenset(changed - {UNSCHEDULED})

    def _add(self, entry: _Entry, sign: int) -> None:
        used = self._used.setdefault(entry.node, {})
        for name, amount in entry.amounts.items():
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]
            if entry.node == UNSCHEDULED:
                for pods in (self._waiting_pods, self._gated_pods)[: 1 + entry.is_gated]:
                    pods[name] += sign
                    if not pods[name]:
                        del pods[name]
        if not used:
            del self._used[entry.node]


def usage_of(rows: Iterable[PodRow]) -> ExtendedUsage:
    usage = ExtendedUsage()
    for row in rows:
        usage.see(row)
    return usage


def _entry(row: PodRow) -> _Entry | None:
    """What the pod requests and on which node; None if it requests no extended resource.

    The extended resources of a pod with more than `NAMES_MAX` resource names are left out.
    """
    demand = row.demand
    requests = demand.assigned_requests if row.node_name else demand.quota_requests
    amounts = {
        name: amount.whole_units
        for name, amount in requests.items()
        if is_extended(name) and not amount.is_zero
    }
    is_gated = not row.node_name and bool(row.profile.gates)
    return _Entry(row.node_name or UNSCHEDULED, amounts, is_gated) if amounts else None
