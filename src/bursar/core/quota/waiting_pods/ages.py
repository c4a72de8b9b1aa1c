"""Ages: since when pods wait, as far as the books know it.

A pod that was behind gates of others as well is as old as the time since when only the quota gate
is left: nobody can save up age behind a gate of their own. How long a pod has waited counts from
when the books first saw it wait. After a restart of the controller that is the restart.
"""

from typing import Final

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey


class Ages:
    """The ages of the pods that wait, or whose release is in flight."""

    def __init__(self) -> None:
        self._ages: Final[dict[PodKey, tuple[str, int, int]]] = {}
        """The uid, from when the age counts, and since when the pod waits."""
        self._uids_behind_others: Final[dict[PodKey, str]] = {}
        """Pods that were seen behind gates of others."""

    def note_other_gates(self, row: PodRow) -> None:
        """A pod is behind gates of others."""
        self._uids_behind_others[PodKey(row.namespace, row.name)] = row.uid

    def note(self, pod: PodKey, row: PodRow, now_s: int, steady_s: int) -> int:
        """A pod waits for its quotas. Returns the second from which its age counts.

        `now_s` is a time of the wall clock, `steady_s` one of the monotonic clock.
        """
        uid, created_s = row.uid, row.created_s
        known = self._ages.get(pod)
        if known is not None and known[0] == uid:
            return known[1]
        age_s = created_s
        if self._uids_behind_others and self._uids_behind_others.pop(pod, None) == uid:
            age_s = max(now_s, created_s)
        self._ages[pod] = (uid, age_s, steady_s)
        return age_s

    def forget(self, pod: PodKey) -> None:
        self._ages.pop(pod, None)
        if self._uids_behind_others:
            self._uids_behind_others.pop(pod, None)

    def age_s(self, row: PodRow) -> int:
        """The second from which the age of a pod counts."""
        known = self._ages.get(PodKey(row.namespace, row.name))
        return row.created_s if known is None else known[1]

    def waiting_since_s(self, row: PodRow) -> int:
        """When the books first saw the pod wait, by the monotonic clock. It must be noted."""
        return self._ages[PodKey(row.namespace, row.name)][2]
