"""The node's pods, fresh enough for whoever asks, and the last good ones when the source fails.

Clients ask often and pods change seldom, so pods are kept for a moment. But Multus asks about a pod
in the instant that it is created: a pod which kubelet names and we do not know, or know only as
one that ends (its successor may have its name), or which kubelet names twice (both are there), is
looked for afresh before an answer is given. Whoever follows the pods anyway is always up to date.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from bursar.app.devices.flight import Flight
from bursar.app.devices.ports import PodSource, SourceError
from bursar.app.ports import Clock
from bursar.app.time_limit import end, within
from bursar.core.devices.allocation import PodKey
from bursar.core.devices.choosing import live_pods
from bursar.core.devices.pod import DevicePod

Choosing: TypeAlias = Callable[[Sequence[DevicePod]], Mapping[PodKey, DevicePod]]
"""Of pods that share a name, the one that is meant."""
Hearing: TypeAlias = Callable[[], Sequence[DevicePod] | None]
"""The pods as last heard, at no cost: the same list until there is news, None if not to be had."""
AHEAD_PART: Final = 0.8
"""After this part of their time pods are read again on the side, so that busy clients need not
wait at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessRules:
    fresh_s: float = 1.0
    """For so long pods are used without waiting for the source."""
    last_good_s: float = 300.0
    """For so long they are used while the source fails."""
    read_s: float = 3.0
    """For the source to answer; Multus itself waits ten seconds."""
    retry_s: float = 1.0
    """After a failure, how long the source is left alone; doubled with each one that follows."""
    retry_max_s: float = 10.0
    miss_s: float = 0.1
    """How long one pod that could not be found is not looked for again; and how often a source
    that fails is tried for the sake of a missing pod."""


@dataclass(frozen=True, eq=False)
class PodsView:
    """The pods of the node as of one moment. Compared by identity: a new read is a new view."""

    pods: Mapping[PodKey, DevicePod]
    as_of_s: float

    @cached_property
    def _alive(self) -> frozenset[PodKey]:
        return frozenset(
            key for key, pod in self.pods.items() if not pod.is_terminal and not pod.is_terminating
        )

    def lacking(self, keys: Iterable[PodKey]) -> Sequence[PodKey]:
        """Those of which the source may by now know better."""
        alive = self._alive
        return [key for key in keys if key not in alive]


@dataclass(slots=True)
class FreshnessCounts:
    reads: int = 0
    failures: int = 0
    misses: int = 0
    """Reads for the sake of a pod that was not known."""
    failing_since_s: float | None = None
    last_error: str = ""
    read_seconds: float = 0.0


@dataclass(slots=True)
class _Trouble:
    """How patient to be with a source that fails."""

    rules: FreshnessRules
    failures: int = 0
    until_s: float = float("-inf")
    miss_until_s: float = float("-inf")

    def add(self, now: float) -> None:
        doubled = self.rules.retry_s * 2 ** min(self.failures, 30)
        self.failures += 1
        self.until_s = now + min(doubled, self.rules.retry_max_s)
        self.miss_until_s = now + self.rules.miss_s

    def clear(self) -> None:
        self.failures = 0
        self.until_s = self.miss_until_s = float("-inf")


@dataclass(slots=True, eq=False)
class NodePods:
    source: PodSource
    clock: Clock
    rules: FreshnessRules = field(default_factory=FreshnessRules)
    choose: Choosing = live_pods
    hear: Hearing | None = None
    """For a source that is followed, not only asked."""
    counts: FreshnessCounts = field(default_factory=FreshnessCounts, init=False)
    _flight: Flight[None] = field(init=False)
    _view: PodsView | None = field(default=None, init=False)
    _trouble: _Trouble = field(init=False)
    _sought: dict[PodKey, float] = field(default_factory=dict, init=False)
    """Pods that even a fresh read did not show alive, and until when that is good enough."""

    _ahead: asyncio.Task[None] | None = field(default=None, init=False)
    _heard: Sequence[DevicePod] | None = field(default=None, init=False)
    _heard_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._flight = Flight(self._read)
        self._trouble = _Trouble(self.rules)

    def fresh(self) -> PodsView | None:
        """The pods, if they can be had without waiting for anybody."""
        now = self.clock.monotonic()
        self._listen(now)
        age = self._age_s(now)
        if age >= self.rules.fresh_s:
            return None
        if (
            age >= self.rules.fresh_s * AHEAD_PART
            and now >= self._trouble.until_s
            and self._ahead is None
        ):
            self._ahead = asyncio.create_task(self._flight.join(may_have_begun=True))
            self._ahead.add_done_callback(self._has_read_ahead)
        return self._view

    async def close(self) -> None:
        """End what is read on the side."""
        if self._ahead is not None:
            await end(self._ahead)

    async def current(self) -> PodsView | None:
        """Pods read not long ago; None if there are none to be trusted. It raises nothing."""
        if self.fresh() is None and self.clock.monotonic() >= self._trouble.until_s:
            await self._flight.join(may_have_begun=True)
        return self._usable()

    async def covering(self, view: PodsView | None, keys: Collection[PodKey]) -> PodsView | None:
        """The view, or a newer one if some of these pods are not in it, alive."""
        twice = named_twice(keys)
        missing = list(keys) if view is None else [*view.lacking(keys), *twice]
        if not missing:
            return view
        now = self.clock.monotonic()
        if not self._is_worth_a_read(missing, now):
            return self._usable()
        self.counts.misses += 1
        await self._flight.join()
        newer = self._usable()
        # While the source fails, the usual patience has the last word on pods sought in vain.
        until = max(now + self.rules.miss_s, self._trouble.until_s)
        in_vain = missing if newer is None else [*newer.lacking(missing), *twice]
        self._sought.update(dict.fromkeys(in_vain, until))
        return newer

    def age_s(self) -> float | None:
        """How old the pods are that answers are made of; None before the first read."""
        return None if self._view is None else self._age_s(self.clock.monotonic())

    def _listen(self, now: float) -> None:
        heard = self.hear() if self.hear is not None else None
        if heard is None:
            return
        if heard is not self._heard:
            # What was read meanwhile may be newer, for a moment: a pod that is then missing, or
            # there twice, is looked for once more.
            self._heard, self._view = heard, PodsView(self.choose(heard), now)
            self._recover()
        self._heard_at_s = now

    def _has_read_ahead(self, _: asyncio.Task[None]) -> None:
        self._ahead = None

    def _is_worth_a_read(self, missing: Sequence[PodKey], now: float) -> bool:
        if now < self._trouble.miss_until_s:
            return False
        self._sought = {key: until for key, until in self._sought.items() if until > now}
        return any(key not in self._sought for key in missing)

    async def _read(self) -> None:
        began = self.clock.monotonic()
        self.counts.reads += 1
        try:
            pods = await within(self.clock, self.rules.read_s, self._pods())
        except SourceError as error:
            self._fail(str(error))
        except TimeoutError:
            self._fail(f"no answer within {self.rules.read_s:g} s")
        else:
            self._view = PodsView(self.choose(pods), began)
            self._recover()
        self.counts.read_seconds += self.clock.monotonic() - began

    async def _pods(self) -> Sequence[DevicePod]:
        return await self.source.read()

    def _recover(self) -> None:
        self._trouble.clear()
        self.counts.failing_since_s = None
        self.counts.last_error = ""

    def _fail(self, text: str) -> None:
        now = self.clock.monotonic()
        self._trouble.add(now)
        self.counts.failures += 1
        self.counts.last_error = text
        if self.counts.failing_since_s is None:
            self.counts.failing_since_s = now

    def _usable(self) -> PodsView | None:
        old = self._age_s(self.clock.monotonic()) > self.rules.last_good_s
        return None if old else self._view

    def _age_s(self, now: float) -> float:
        if self._view is None:
            return float("inf")
        return now - max(self._view.as_of_s, self._heard_at_s)


def named_twice(keys: Collection[PodKey]) -> Sequence[PodKey]:
    """Kubelet names a pod twice while one of that name leaves and the next has come."""
    if len(set(keys)) == len(keys):
        return ()
    return [key for key, count in Counter(keys).items() if count > 1]
