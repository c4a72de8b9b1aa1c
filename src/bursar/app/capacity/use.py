"""What is in use of extended resources on each node: requests of pods there that have not ended."""

from collections.abc import Iterable

from bursar.core.model.names import is_extended
from bursar.core.model.pod_row import PodRow

Amounts = dict[str, int]


class UseBook:
    """Counts by pod and not by event, so that a pod told twice is counted once."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], tuple[str, Amounts]] = {}
        """By namespace and name: the node, and what is requested there."""
        self._used: dict[str, Amounts] = {}

    def used(self, node: str, resource: str) -> int:
        return self._used.get(node, {}).get(resource, 0)

    def see(self, row: PodRow) -> frozenset[str]:
        """A pod is new or has changed. Returns the nodes where another amount is in use now."""
        return self._enter(row, None if row.is_terminated or not row.node_name else _amounts(row))

    def lose(self, row: PodRow) -> frozenset[str]:
        """A pod is gone. Returns the node where less is in use now."""
        return self._enter(row, None)

    def _enter(self, row: PodRow, amounts: Amounts | None) -> frozenset[str]:
        key = (row.namespace, row.name)
        before = self._pods.pop(key, None)
        after = (row.node_name, amounts) if amounts else None
        if after is not None:
            self._pods[key] = after
        if before == after:
            return frozenset()
        touched = [entry for entry in (before, after) if entry is not None]
        if before is not None:
            self._add(*before, sign=-1)
        if after is not None:
            self._add(*after, sign=1)
        return frozenset(node for node, _ in touched)

    def _add(self, node: str, amounts: Amounts, *, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]
        if not used:
            del self._used[node]


def use_of(rows: Iterable[PodRow]) -> UseBook:
    """What a list of pods uses."""
    book = UseBook()
    for row in rows:
        book.see(row)
    return book


def _amounts(row: PodRow) -> Amounts:
    return {
        name: amount.whole_units
        for name, amount in row.demand.assigned_requests.items()
        if is_extended(name) and not amount.is_zero
    }
