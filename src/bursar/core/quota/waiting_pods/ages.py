"""Ages: since when pods wait, as far as the books know it.

A pod that was behind gates of others as well is as old as the time since when only the quota gate
is left: a tenant cannot save up age behind a gate of its own. How long a pod has waited counts from
when the books first saw it wait. After a restart of the controller that is the restart.
"""

from typing import Final, TypeAlias, TypeVar

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey

T = TypeVar("T")

Pods: TypeAlias = dict[str, dict[str, T]]
"""By namespace and name: a table of `PodKey`s would add seventy bytes per pod."""


class Ages:
    """The ages of the pods that wait, or whose release is in flight."""

    def __init__(self) -> None:
        self._ages: Final[Pods[tuple[int, int, int]]] = {}
        """The hash of the uid, from when the age counts, and since when the pod waits.

        A uid itself would take three times the memory of its hash.
        """
        self._behind_others: Final[Pods[int]] = {}
        """Hashes of the uids of pods that were seen behind gates of others."""

    def note_other_gates(self, row: PodRow) -> None:
        """A pod is behind gates of others."""
        self._behind_others.setdefault(row.namespace, {})[row.name] = hash(row.uid)

    def note(self, pod: PodKey, row: PodRow, now_s: int, steady_s: int) -> int:
        """A pod waits for its quotas. Returns the second from which its age counts.

        `now_s` is a time of the wall clock, `steady_s` one of the monotonic clock.
        """
        namespace, name = pod
        uid = hash(row.uid)
        ages = self._ages.get(namespace)
        if ages is None:
            ages = self._ages[namespace] = {}
        known = ages.get(name)
        if known is not None and known[0] == uid:
            return known[1]
        age_s = row.created_s
        if self._behind_others and _pop(self._behind_others, pod) == uid:
            age_s = max(now_s, age_s)
        ages[name] = (uid, age_s, steady_s)
        return age_s

    def forget(self, pod: PodKey) -> None:
        _pop(self._ages, pod)
        if self._behind_others:
            _pop(self._behind_others, pod)

    def age_s(self, row: PodRow) -> int:
        """The second from which the age of a pod counts."""
        known = self._ages.get(row.namespace, {}).get(row.name)
        return row.created_s if known is None else known[1]

    def waiting_since_s(self, row: PodRow) -> int:
        """When the books first saw the pod wait, by the monotonic clock. It must be noted."""
        return self._ages[row.namespace][row.name][2]


def _pop(table: Pods[T], pod: PodKey) -> T | None:
    namespace, name = pod
    pods = table.get(namespace)
    if pods is None:
        return None
    found = pods.pop(name, None)
    if not pods:
        del table[namespace]
    return found
