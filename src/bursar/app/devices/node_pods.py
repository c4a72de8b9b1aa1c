"""The cached pods of the node: fresh enough for each caller, or stale while the source fails.

Clients call often and pods change seldom, so pods are cached for a short time. But Multus asks
about a pod at the moment it is created. So pods are read again before the response if kubelet names
a pod that is not cached, or that is cached as one that ends (its successor may have the same name),
or if kubelet names a pod twice (both exist). A source that is watched is always up to date.

A source may also be slow, or never answer. No caller waits beyond its own deadline, and a caller
that has cached pods waits only a short time. The read itself continues without callers: its outcome
decides what the next callers do.
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
from bursar.app.devices.ports import PodSource, SourceError
from bursar.app.devices.shared_call import SharedCall
from bursar.core.devices.allocation import PodKey
from bursar.core.devices.pod import DevicePod, live_pods

ByKey: TypeAlias = Callable[[Sequence[DevicePod]], Mapping[PodKey, DevicePod]]
"""Maps pods by key, and chooses one of the pods that have the same key."""
WatchedPods: TypeAlias = Callable[[], Sequence[DevicePod] | None]
"""The pods of a watch, without waiting: the same list until an event arrives, None if stale."""
REFRESH_PART: Final = 0.8
"""After this part of `fresh_s` pods are read again in the background, so that the callers of a busy
node never wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessRules:
    fresh_s: float = 1.0
    """How long cached pods are used without reading them again."""
    last_good_s: float = 300.0
    """How long cached pods are used while the source fails."""
    read_s: float = 3.0
    """Timeout of one read. Multus itself waits ten seconds. Callers wait as long for a pod that is
    not cached, all together."""
    wait_s: float = 1.0
    """How long a caller that has cached pods waits for a fresh read before it uses the cache."""
    retry_s: float = 1.0
    """Back-off after a failed read; it doubles with each further failure."""
    retry_max_s: float = 10.0
    miss_s: float = 0.1
    """How long a missing pod is not searched again; also the back-off of reads for missing pods
    while the source fails."""
    miss_failing_s: float = 60.0
    """How long a missing pod is not searched again while the source fails; retries continue."""


@dataclass(frozen=True, eq=False)
class PodsView:
    """The pods of the node at one time. Compared by identity: each read makes a new view."""

    pods: Mapping[PodKey, DevicePod]
    as_of_s: float

    @cached_property
    def _alive(self) -> frozenset[PodKey]:
        return frozenset(
            key for key, pod in self.pods.items() if not pod.is_terminal and not pod.is_terminating
        )

    def shows(self, keys: Collection[PodKey]) -> bool:
        """Whether each key is alive in this view and occurs once. True for nearly all calls."""
        named = set(keys)
        return len(named) == len(keys) and named <= self._alive

    def lacking(self, keys: Iterable[PodKey]) -> Sequence[PodKey]:
        """The keys that are missing or not alive; a fresh read may find them."""
        alive = self._alive
        return [key for key in keys if key not in alive]


@dataclass(slots=True)
class FreshnessCounts:
    reads: int = 0
    failures: int = 0
    misses: int = 0
    """Reads made to find a pod that was not cached."""
    failing_since_s: float | None = None
    last_error: str = ""
    read_seconds: float = 0.0


@dataclass(slots=True)
class ReadDeadline:
    """Until when one caller waits for pods, and whether it gave up."""

    until_s: float = float("inf")
    is_exceeded: bool = False


@dataclass(slots=True)
class _BackOff:
    """When a failing source may be read again."""

    rules: FreshnessRules
    failures: int = 0
    until_s: float = float("-inf")
    miss_until_s: float = float("-inf")
    """The same for reads that are made to find a missing pod."""

    def add(self, now: float) -> None:
        doubled = self.rules.retry_s * 2 ** min(self.failures, 30)
        self.failures += 1
        self.until_s = now + min(doubled, self.rules.retry_max_s)
        self.miss_until_s = now + self.rules.miss_s

    def clear(self) -> None:
        self.failures = 0
        self.until_s = self.miss_until_s = float("-inf")


@dataclass(slots=True)
class _Missing:
    """Pods that are not cached: which are being searched, and which were not found."""

    rules: FreshnessRules
    since_s: dict[PodKey, float] = field(default_factory=dict)
    """Pods that are being searched, and since when. No read for them has ended yet."""
    skipped_until_s: dict[PodKey, float] = field(default_factory=dict)
    """Pods that a fresh read did not find alive, and until when they are not searched again."""

    def until_s(self, missing: Sequence[PodKey], now: float) -> float:
        """Until when callers wait for these pods. Each new pod gets the full time."""
        self.skipped_until_s = {
            key: until for key, until in self.skipped_until_s.items() if until > now
        }
        searched = [key for key in missing if key not in self.skipped_until_s]
        since_s = [self.since_s.setdefault(key, now) for key in searched]
        return max(since_s) + self.rules.read_s if since_s else now

    def skip(self, keys: Iterable[PodKey], until_s: float) -> None:
        for key in keys:
            self.since_s.pop(key, None)
            self.skipped_until_s[key] = until_s

    def end(self, began_s: float) -> Sequence[PodKey]:
        """Note that the read that began at `began_s` has ended; return the pods it was for."""
        served = [key for key, since_s in self.since_s.items() if since_s <= began_s]
        for key in served:
            del self.since_s[key]
        return served


@dataclass(slots=True, eq=False)
class NodePods:
    source: PodSource
    clock: Clock
    rules: FreshnessRules = field(default_factory=FreshnessRules)
    by_key: ByKey = live_pods
    watched: WatchedPods | None = None
    """For a source that is watched, not only read."""
    counts: FreshnessCounts = field(default_factory=FreshnessCounts, init=False)
    _reading: SharedCall[None] = field(init=False)
    _view: PodsView | None = field(default=None, init=False)
    _back_off: _BackOff = field(init=False)
    _missing: _Missing = field(init=False)
    _began_s: float | None = field(default=None, init=False)
    """When the read in progress began; None if there is none."""

    _watched: Sequence[DevicePod] | None = field(default=None, init=False)
    _watched_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._reading = SharedCall(self._read)
        self._back_off = _BackOff(self.rules)
        self._missing = _Missing(self.rules)

    def fresh(self) -> PodsView | None:
        """The cached pods if they are fresh; None if the caller must wait for a read."""
        now = self.clock.monotonic()
        self._take_watched(now)
        age = self._age_s(now)
        if age >= self.rules.fresh_s:
            return None
        if age >= self.rules.fresh_s * REFRESH_PART and now >= self._back_off.until_s:
            _ = self._reading.begin(may_have_begun=True)
        return self._view

    async def close(self) -> None:
        """Cancel the read in progress, and callers that wait for it."""
        await self._reading.close()

    async def current(self, deadline: ReadDeadline | None = None) -> PodsView | None:
        """Fresh pods, or the cached ones if a read takes too long or fails.

        None if the cached pods are too old. Raises nothing.
        """
        now = self.clock.monotonic()
        if self.fresh() is None and now >= self._back_off.until_s:
            deadline = deadline or ReadDeadline()
            until_s = deadline.until_s
            if self._usable() is not None:
                began_s = now if self._began_s is None else self._began_s
                until_s = min(until_s, began_s + self.rules.wait_s)
            await self._wait(deadline, until_s, may_have_begun=True)
        return self._usable()

    async def covering(
        self, view: PodsView | None, keys: Collection[PodKey], deadline: ReadDeadline | None = None
    ) -> PodsView | None:
        """The view if it has all these pods alive; else a newer one, after a fresh read."""
        if not keys or (view is not None and view.shows(keys)):
            return view
        twice = named_twice(keys)
        missing = list(keys) if view is None else [*view.lacking(keys), *twice]
        deadline, now = deadline or ReadDeadline(), self.clock.monotonic()
        until_s = now if now < self._back_off.miss_until_s else self._missing.until_s(missing, now)
        if until_s <= now:
            return self._usable()
        self.counts.misses += 1
        if await self._wait(deadline, min(deadline.until_s, until_s), may_have_begun=False):
            newer = self._usable()
            not_found = missing if newer is None else [*newer.lacking(missing), *twice]
            self._missing.skip(not_found, self._skipped_until_s(now))
        return self._usable()

    @property
    def known(self) -> int:
        """Number of cached pods."""
        return 0 if self._view is None else len(self._view.pods)

    def age_s(self) -> float | None:
        """The age of the cached pods; None before the first read."""
        return None if self._view is None else self._age_s(self.clock.monotonic())

    def _take_watched(self, now: float) -> None:
        watched = self.watched() if self.watched is not None else None
        if watched is None:
            return
        if watched is not self._watched:
            # A read may have been newer than the watch. Then a pod that is missing again, or
            # named twice, is searched once more.
            self._watched, self._view = watched, PodsView(self.by_key(watched), now)
            self._recover()
        self._watched_at_s = now

    def _skipped_until_s(self, now: float) -> float:
        if not self._back_off.failures:
            return now + self.rules.miss_s
        # A watched source is read only to find missing pods, so no other read would find them.
        is_watched = self.watched is not None
        return self._back_off.until_s if is_watched else now + self.rules.miss_failing_s

    async def _wait(self, deadline: ReadDeadline, until_s: float, *, may_have_begun: bool) -> bool:
        """Wait until a read ends, and return whether it did; after `until_s` it goes on alone."""
        reading = self._reading.begin(may_have_begun=may_have_begun)
        # The read may have to wait for another read to end.
        left_s = min(until_s - self.clock.monotonic(), 2 * self.rules.read_s)
        if left_s > 0:
            with suppress(TimeoutError):
                await within(self.clock, left_s, _ended(reading))
        deadline.is_exceeded = not reading.done()
        return reading.done()

    async def _read(self) -> None:
        self._began_s = began = self.clock.monotonic()
        self.counts.reads += 1
        try:
            pods = await within(self.clock, self.rules.read_s, self.source.read())
        except SourceError as error:
            self._fail(str(error), began)
        except TimeoutError:
            self._fail(f"no answer within {self.rules.read_s:g} s", began)
        else:
            self._view = PodsView(self.by_key(pods), began)
            self._missing.end(began)
            self._recover()
        finally:
            self._began_s = None
            self.counts.read_seconds += self.clock.monotonic() - began

    def _recover(self) -> None:
        if self._back_off.failures:
            self._missing.skipped_until_s.clear()
        self._back_off.clear()
        self.counts.failing_since_s = None
        self.counts.last_error = ""

    def _fail(self, text: str, began: float) -> None:
        now = self.clock.monotonic()
        self._back_off.add(now)
        self._missing.skip(self._missing.end(began), self._skipped_until_s(now))
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
        return now - max(self._view.as_of_s, self._watched_at_s)


async def _ended(reading: asyncio.Task[None]) -> None:
    # asyncio.wait does not cancel the read if this caller is cancelled.
    await asyncio.wait((reading,))
    reading.result()


def named_twice(keys: Collection[PodKey]) -> Sequence[PodKey]:
    """The keys that occur twice: while a pod is being deleted, a new one may have its name."""
    if len(set(keys)) == len(keys):
        return ()
    return [key for key, count in Counter(keys).items() if count > 1]
