"""Gated pods that wait for something else than a quota."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from bursar.core.quota.refusal import Reason, Refusal


class Blocked(NamedTuple):
    """A gated pod, and what it waits for."""

    row: PodRow
    refusal: Refusal


class BlockedPods:
    """All of these pods, and how many there are for each reason."""

    def __init__(self) -> None:
        self._pods: Final[dict[str, dict[str, Blocked]]] = {}
        """By namespace and name."""
        self._ended: Final[dict[str, set[str]]] = {}
        """By namespace: names of gated pods that have ended or are being deleted.

        They wait for nothing, but a finalizer of their owner can keep them stored for ever.
        """
        self.counts: Final = dict.fromkeys(Reason, 0)

    def __iter__(self) -> Iterator[Blocked]:
        for pods in self._pods.values():
            yield from pods.values()

    def sizes(self) -> dict[str, int]:
        """Number of pods by namespace, with those of `note_ended`."""
        blocked, ended = self._pods, self._ended
        return {
            namespace: len(blocked.get(namespace, ())) + len(ended.get(namespace, ()))
            for namespace in blocked.keys() | ended.keys()
        }

    def names_in(self, namespace: str) -> list[str]:
        return list(self._pods.get(namespace, ()))

    def find(self, pod: PodKey) -> Blocked | None:
        return self._pods.get(pod.namespace, {}).get(pod.name)

    def put(self, pod: PodKey, row: PodRow, refusal: Refusal) -> None:
        """Add a pod that is not among them."""
        self._pods.setdefault(pod.namespace, {})[pod.name] = Blocked(row, refusal)
        self.counts[refusal.reason] += 1

    def note_ended(self, pod: PodKey, row: PodRow) -> None:
        """Count a pod that is not among them until `pop`, if it has the quota gate."""
        if GATE in row.profile.gates:
            self._ended.setdefault(pod.namespace, set()).add(pod.name)

    def pop(self, pod: PodKey) -> Blocked | None:
        """Remove a pod; None if it is not among them."""
        ended = self._ended.get(pod.namespace)
        if ended is not None:
            ended.discard(pod.name)
            if not ended:
                del self._ended[pod.namespace]
        pods = self._pods.get(pod.namespace)
        if pods is None:
            return None
        found = pods.pop(pod.name, None)
        if found is not None:
            self.counts[found.refusal.reason] -= 1
        if not pods:
            del self._pods[pod.namespace]
        return found
