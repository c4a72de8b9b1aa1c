"""Turns: how the namespaces that share a cluster-wide quota take turns.

Namespaces take turns at two things. If pods of several namespaces fit, the namespace whose last
release is the longest ago releases a pod next. If several namespaces have a pod that may not be
passed, one namespace at a time *holds* the quota: pods of the other namespaces wait although they
would fit. A hold lasts for a bounded time. After it, no namespace holds the quota for four times
as long. So a tenant holds up others for at most a fifth of the time, whatever it asks for.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bursar.core.quota.quota import QuotaKey

HOLD_SECONDS: Final = 600
"""How long pods of other namespaces are held up for one namespace."""
REST_FACTOR: Final = 4
"""After a hold, no namespace holds the quota for this many times as long as the hold lasted."""


class HoldTurn(NamedTuple):
    """A namespace that holds a cluster-wide quota against all others."""

    namespace: str
    since_s: int

    @property
    def until_s(self) -> int:
        return self.since_s + HOLD_SECONDS


class Turns:
    """The turns at all cluster-wide quotas. A restart of the controller forgets them."""

    def __init__(self) -> None:
        self.now_s = 0
        """The time of the books."""
        self._number = 0
        self._released: dict[QuotaKey, dict[str, int]] = {}
        """By quota and namespace, the number of its last release."""
        self._held: dict[QuotaKey, dict[str, int]] = {}
        """By quota and namespace, the number of its last turn to hold."""
        self._rests: dict[QuotaKey, int] = {}
        """By quota, until when no namespace holds it."""
        self.holding: Final[dict[QuotaKey, HoldTurn]] = {}

    # ------------------------------------------------------------------ releases

    def release_number(self, namespace: str, shared: frozenset[QuotaKey]) -> int:
        """The number of a namespace's last release. The namespace with the lowest number is next.

        If a pod needs several shared quotas, the lowest of their numbers counts. So a release
        under another quota costs the namespace no turn in this one.
        """
        lowest = self._number if shared else 0
        for key in shared:
            numbers = self._released.get(key)
            number = 0 if numbers is None else numbers.get(namespace, 0)
            lowest = min(lowest, number)
        return lowest

    def note_release(self, namespace: str, shared: frozenset[QuotaKey]) -> None:
        self._number += 1
        for key in shared:
            self._released.setdefault(key, {})[namespace] = self._number

    # ------------------------------------------------------------------ holding

    def may_begin(self, key: QuotaKey) -> bool:
        """Whether a namespace may begin to hold a quota."""
        return key not in self.holding and key not in self._rests

    def last_hold(self, key: QuotaKey, namespace: str) -> int:
        """The number of the last turn of a namespace to hold a quota; 0 if it had none."""
        return self._held.get(key, {}).get(namespace, 0)

    def begin(self, key: QuotaKey, namespace: str) -> None:
        self._number += 1
        self._held.setdefault(key, {})[namespace] = self._number
        self.holding[key] = HoldTurn(namespace, self.now_s)

    def end(self, key: QuotaKey) -> None:
        """End a turn. The quota rests from now on, even if the turn should have ended before."""
        held_s = self.now_s - self.holding.pop(key).since_s
        if held_s:
            self._rests[key] = self.now_s + REST_FACTOR * held_s

    def overdue(self) -> list[QuotaKey]:
        """Quotas that have been held for long enough."""
        return [key for key, turn in self.holding.items() if turn.until_s <= self.now_s]

    def pop_rested(self) -> list[QuotaKey]:
        """Quotas that have rested for long enough."""
        rested = [key for key, until_s in self._rests.items() if until_s <= self.now_s]
        for key in rested:
            del self._rests[key]
        return rested

    def due(self) -> Iterator[int]:
        """When a turn or a rest ends."""
        yield from (turn.until_s for turn in self.holding.values())
        yield from self._rests.values()

    # ------------------------------------------------------------------ forgetting

    def forget_quota(self, key: QuotaKey) -> None:
        for numbers in (self._released, self._held):
            numbers.pop(key, None)
        self._rests.pop(key, None)

    def forget_namespace(self, namespace: str) -> None:
        for numbers in (*self._released.values(), *self._held.values()):
            numbers.pop(namespace, None)
