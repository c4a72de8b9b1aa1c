"""The node's pods, fresh enough for whoever asks, and the last good ones when the source fails.

Clients ask often and pods change seldom, so pods are kept for a moment. But Multus asks about a pod
in the instant that it is created: a pod which kubelet names and we do not know, or know only as
one that ends (its successor may have its name), or which kubelet names twice (both are there), is
looked for afresh before an answer is given. Whoever follows the pods anyway is always up to date.

A source may also be slow, or never answer. Then nobody waits longer than their own deadline allows,
and whoever has other pods to go by waits only for a moment. The read itself goes on, with nobody
waiting, to its end: how it ended is what the next callers go by.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from bursar.app.cluster.ports import Clock
from bursar.app.cluster.time_limit import within
from bursar.app.devices.flight import Flight
from bursar.app.devices.ports import PodSource, SourceError
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
    """For the source to answer; Multus itself waits ten seconds. For so long, too, callers wait in
    turn for a pod that is not known."""
    wait_s: float = 1.0
    """After so long, a read is not waited for by those who have older pods to go by."""
    retry_s: float = 1.0
    """After a failure, how long the source is left alone; doubled with each one that follows."""
    retry_max_s: float = 10.0
    miss_s: float = 0.1
    """How long one pod that could not be found is not looked for again; and how often a source
    that fails is tried for the sake of a missing pod."""
    miss_failing_s: float = 60.0
    """How long it is not looked for again while the source fails, which is tried anyway."""


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

    def shows(self, keys: Collection[PodKey]) -> bool:
        """Whether each of these is there, alive, and named once: so it is for nearly all calls."""
        named = set(keys)
        return len(named) == len(keys) and named <= self._alive

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
class Patience:
    """How long one caller can wait for pods, and whether that was too short."""

    until_s: float = float("inf")
    is_over: bool = False


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


@dataclass(slots=True)
class _Search:
    """Which missing pods are looked for, and which were looked for in vain."""

    rules: FreshnessRules
    since_s: dict[PodKey, float] = field(default_factory=dict)
    """Those for whose sake no read has ended yet."""
    rest_until_s: dict[PodKey, float] = field(default_factory=dict)
    """Those that even a fresh read did not show alive, and until when that is good enough."""

    def until_s(self, missing: Sequence[PodKey], now: float) -> float:
        """How long anybody waits for these. A new pod has its time, whatever else is sought."""
        self.rest_until_s = {key: until for key, until in self.rest_until_s.items() if until > now}
        sought = [key for key in missing if key not in self.rest_until_s]
        since_s = [self.since_s.setdefault(key, now) for key in sought]
        return max(since_s) + self.rules.read_s if since_s else now

    def rest(self, keys: Iterable[PodKey], until_s: float) -> None:
        for key in keys:
            self.since_s.pop(key, None)
            self.rest_until_s[key] = until_s

    def end(self, began_s: float) -> Sequence[PodKey]:
        """A read that began then has ended: for whose sake it was."""
        served = [key for key, since_s in self.since_s.items() if since_s <= began_s]
        for key in served:
            del self.since_s[key]
        return served


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
    _search: _Search = field(init=False)
    _began_s: float | None = field(default=None, init=False)
    """Since when pods are being read; None while they are not."""

    _heard: Sequence[DevicePod] | None = field(default=None, init=False)
    _heard_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._flight = Flight(self._read)
        self._trouble = _Trouble(self.rules)
        self._search = _Search(self.rules)

    def fresh(self) -> PodsView | None:
        """The pods, if they can be had without waiting for anybody."""
        now = self.clock.monotonic()
        self._listen(now)
        age = self._age_s(now)
        if age >= self.rules.fresh_s:
            return None
        if age >= self.rules.fresh_s * AHEAD_PART and now >= self._trouble.until_s:
            _ = self._flight.begin(may_have_begun=True)
        return self._view

    async def close(self) -> None:
        """End what is being read, whether or not anybody waits for it."""
        await self._flight.close()

    async def current(self, patience: Patience | None = None) -> PodsView | None:
        """Pods read not long ago, or the last good ones if that takes too long.

        None if there are none to be trusted. It raises nothing.
        """
        now = self.clock.monotonic()
        if self.fresh() is None and now >= self._trouble.until_s:
            patience = patience or Patience()
            until_s = patience.until_s
            if self._usable() is not None:
                began_s = now if self._began_s is None else self._began_s
                until_s = min(until_s, began_s + self.rules.wait_s)
            await self._wait(patience, until_s, may_have_begun=True)
        return self._usable()

    async def covering(
        self, view: PodsView | None, keys: Collection[PodKey], patience: Patience | None = None
    ) -> PodsView | None:
        """The view, or a newer one if some of these pods are not in it, alive."""
        if not keys or (view is not None and view.shows(keys)):
            return view
        twice = named_twice(keys)
        missing = list(keys) if view is None else [*view.lacking(keys), *twice]
        patience, now = patience or Patience(), self.clock.monotonic()
        until_s = self._sought_until_s(missing, now)
        if until_s <= now:
            return self._usable()
        self.counts.misses += 1
        if await self._wait(patience, min(patience.until_s, until_s), may_have_begun=False):
            newer = self._usable()
            in_vain = missing if newer is None else [*newer.lacking(missing), *twice]
            self._search.rest(in_vain, self._rest_until_s(now))
        return self._usable()

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

    def _sought_until_s(self, missing: Sequence[PodKey], now: float) -> float:
        if now < self._trouble.miss_until_s:
            return now
        return self._search.until_s(missing, now)

    def _rest_until_s(self, now: float) -> float:
        if not self._trouble.failures:
            return now + self.rules.miss_s
        # Whoever is followed is asked for the sake of missing pods alone.
        is_asked_anyway = self.hear is None
        return now + self.rules.miss_failing_s if is_asked_anyway else self._trouble.until_s

    async def _wait(self, patience: Patience, until_s: float, *, may_have_begun: bool) -> bool:
        """For a read to end, well or not. If that takes too long it goes on by itself."""
        reading = self._flight.begin(may_have_begun=may_have_begun)
        # It may have to wait for another one to end.
        left_s = min(until_s - self.clock.monotonic(), 2 * self.rules.read_s)
        if left_s > 0:
            with suppress(TimeoutError):
                await within(self.clock, left_s, _ended(reading))
        patience.is_over = not reading.done()
        return reading.done()

    async def _read(self) -> None:
        self._began_s = began = self.clock.monotonic()
        self.counts.reads += 1
        try:
            pods = await within(self.clock, self.rules.read_s, self._pods())
        except SourceError as error:
            self._fail(str(error), began)
        except TimeoutError:
            self._fail(f"no answer within {self.rules.read_s:g} s", began)
        else:
            self._view = PodsView(self.choose(pods), began)
            self._search.end(began)
            self._recover()
        finally:
            self._began_s = None
            self.counts.read_seconds += self.clock.monotonic() - began

    async def _pods(self) -> Sequence[DevicePod]:
        return await self.source.read()

    def _recover(self) -> None:
        if self._trouble.failures:
            self._search.rest_until_s.clear()
        self._trouble.clear()
        self.counts.failing_since_s = None
        self.counts.last_error = ""

    def _fail(self, text: str, began: float) -> None:
        now = self.clock.monotonic()
        self._trouble.add(now)
        self._search.rest(self._search.end(began), self._rest_until_s(now))
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


async def _ended(reading: asyncio.Task[None]) -> None:
    """Waiting does not cancel what is waited for."""
    await asyncio.wait((reading,))
    reading.result()


def named_twice(keys: Collection[PodKey]) -> Sequence[PodKey]:
    """Kubelet names a pod twice while one of that name leaves and the next has come."""
    if len(set(keys)) == len(keys):
        return ()
    return [key for key, count in Counter(keys).items() if count > 1]
