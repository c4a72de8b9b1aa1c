"""Refused writes: what the API server did not let the controller write for a quota.

A limit that is left to a managed quota is not in force if the API server refuses that
object. So every refusal is logged and counted, becomes an event on the quota, and is shown in its
condition Ready until a write succeeds.
"""

from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Final

from bursar.app.cluster.ports import Key
from bursar.app.log import Log
from bursar.app.quota.managed.names import managed_key
from bursar.core.quota.quota import QuotaKey

LOG: Final = Log("quota")


class WrittenObject(Enum):
    """What the controller writes for a quota; the values are those of a metric's label."""

    STATUS = "status"
    MANAGED = "ResourceQuota"
    """The ResourceQuota with the limits that are left to Kubernetes."""
    CLUSTER_MANAGED = "ClusterResourceQuota"
    """The ClusterResourceQuota with the limits that are left to OpenShift."""
    COPY = "ApplicationAwareAppliedClusterResourceQuota"
    """The copy of a cluster-wide quota in a namespace that it covers."""


class RefusedWrites:
    """The writes whose latest try was refused."""

    def __init__(self, on_change: Callable[[QuotaKey, str], None]) -> None:
        """`on_change` is called with a quota and the new refusal, or an empty text at its end."""
        self._on_change = on_change
        self._words: dict[QuotaKey, dict[tuple[WrittenObject, Key], str]] = {}
        self.totals: Final = Counter(dict.fromkeys(WrittenObject, 0))
        """Refusals since the term began; a repetition in the same words counts once."""

    def note(self, quota: QuotaKey, written: WrittenObject, place: Key, words: str) -> None:
        """A write was refused in these words or, if they are empty, succeeded after a refusal."""
        refused = self._words.setdefault(quota, {})
        text = ""
        if words:
            refused[written, place] = words
            self.totals[written] += 1
            text = _text(written, place, words)
            LOG.warning("the API server refused a write", quota=quota, object=place, error=words)
        else:
            refused.pop((written, place), None)
        if not refused:
            del self._words[quota]
        self._on_change(quota, text)

    def forget(self, quota: QuotaKey) -> None:
        """The quota was deleted."""
        self._words.pop(quota, None)

    def managed(self, quota: QuotaKey) -> str:
        """The refusal of the managed quota; empty if it was not refused."""
        return self._first(quota, WrittenObject(managed_key(quota).kind.value))

    def copies(self, quota: QuotaKey) -> str:
        """The refusal of a copy of a cluster-wide quota; empty if none was refused."""
        return self._first(quota, WrittenObject.COPY)

    def _first(self, quota: QuotaKey, written: WrittenObject) -> str:
        refused = self._words.get(quota, {})
        places = sorted(place for each, place in refused if each is written)
        return _text(written, places[0], refused[written, places[0]]) if places else ""

    def counts(self) -> dict[WrittenObject, int]:
        """The number of objects whose latest write was refused."""
        found = dict.fromkeys(WrittenObject, 0)
        for refused in self._words.values():
            for written, _ in refused:
                found[written] += 1
        return found


def _text(written: WrittenObject, place: Key, words: str) -> str:
    if written is WrittenObject.STATUS:
        return f"the API server refused the status: {words}"
    return f"the API server refused {written.value} {place}: {words}"
