"""The reconcile loop: compare an object with what it should be, and write it if it differs.

The controller writes quotas, capacity and certificates through a `Reconciler`: keys are queued
when something changed, several are reconciled at a time, one key is written no more often than
its interval, and failures are retried with back-off. A key that another program has damaged can
be expedited: it is repaired without waiting for its interval.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from http import HTTPStatus
from random import Random
from typing import Final, Generic, TypeVar

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    Clock,
    ClusterError,
    ConflictError,
    Key,
    NotFoundError,
    Writer,
)
from bursar.app.cluster.time_limit import within
from bursar.app.log import Log
from bursar.app.tracing import OBJECT, Span, Tracer
from bursar.wire.structs.fields import printable

LOG: Final = Log("reconcile")
IN_FLIGHT_MAX: Final = 8
REQUEST_SECONDS: Final = 10.0
REPAIR_SECONDS: Final = 1.0
"""Shortest time between two writes of an expedited key. It bounds how often Bursar and another
program can overwrite each other."""
RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 30.0
WORDS_MAX: Final = 1000
"""How much of the API server's words is kept when it refuses a write."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class ReconcileCounters:
    """Totals since the reconciler was made."""

    reconciles: int = 0
    writes: int = 0
    failures: int = 0
    """Reconciles that ended with an error and are retried."""
    gone: int = 0
    """Writes to an object that did not exist any more."""
    failures_by_class: Counter[str] = field(default_factory=Counter)
    """`failures` by the class of the error, such as `ForbiddenError`."""


class _Entry:
    """A key that is queued or being reconciled."""

    __slots__ = (
        *("due", "error", "failures", "has_written", "is_changed", "is_expedited"),
        *("not_before", "rests_until", "ticket"),
    )

    def __init__(self) -> None:
        self.failures = 0
        self.error = ""
        """The class of the error of the latest reconcile; empty if there was none."""
        self.has_written = False
        """Whether the latest reconcile wrote."""
        self.is_changed = False
        """The key was queued again after its reconcile began."""
        self.is_expedited = False
        """The key was expedited after its reconcile began."""
        self.ticket = 0
        """Which element of the heap stands for the key; 0 while it is being reconciled."""
        self.due = 0.0
        self.not_before = 0.0
        """When an expedited key is reconciled at the earliest."""
        self.rests_until = 0.0
        """When the interval after the latest write ends."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Something differs, and is to be written after this time at the earliest."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class ReconcileContext:
    """What every reconciler of one controller shares."""

    writer: Writer
    clock: Clock
    random: Random
    may_write: Callable[[], bool]
    """Whether this process leads and has seen everything that it decides by."""
    tracer: Tracer | None = None
    """None: reconciles are not traced."""


@dataclass(eq=False)
class Reconciler(Generic[K]):
    """A queue of keys and the workers that reconcile them. Call `run` once.

    After a write the key is reconciled again, so that it leaves the queue only when there is
    nothing to write. A key whose object does not exist leaves the queue.
    """

    name: str
    """What is reconciled, for the log."""
    reconcile: Callable[[K], Coroutine[object, object, bool | Postponed]]
    """Compares and, if something differs, writes. Returns whether it has written."""
    context: ReconcileContext
    interval_s: float
    """Shortest time between two writes for one key."""

    on_refused: Callable[[K, str], None] = lambda _key, _words: None
    """Called when the API server refuses a write, with its words, and with an empty text when a
    write of the same key succeeds again. Repetitions are left out."""

    counters: ReconcileCounters = field(default_factory=ReconcileCounters, init=False)

    def __post_init__(self) -> None:
        self._entries: dict[K, _Entry] = {}
        self._refused: dict[K, str] = {}
        """By key: the API server's words, if it refused the latest write."""
        self._due: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._has_new = asyncio.Event()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._clock = self.context.clock

    @property
    def is_idle(self) -> bool:
        """Whether the queue is empty: everything that was queued needs no write."""
        return not self._entries

    @property
    def pending(self) -> int:
        """Keys in the queue, with those that are being reconciled."""
        return len(self._entries)

    def enqueue(self, keys: Iterable[K]) -> None:
        """Reconcile these keys soon."""
        for key in keys:
            entry = self._entries.get(key)
            if entry is not None:
                entry.is_changed = True
            else:
                self._entries[key] = _Entry()
                self._schedule(key, self._clock.monotonic())

    def expedite(self, keys: Iterable[K]) -> None:
        """Reconcile these keys now, even if they were written less than an interval ago.

        For objects that another program has deleted or changed. A back-off is not shortened.
        """
        for key in keys:
            entry = self._entries.get(key)
            self.enqueue([key])
            if entry is None:
                continue
            if not entry.ticket:
                entry.is_expedited = True
                continue
            due = max(self._clock.monotonic(), entry.not_before)
            if due < entry.due:
                self._schedule(key, due)

    async def run(self) -> None:
        """Reconcile queued keys until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._slots.acquire()
                key = await self._next_due()
                tasks.create_task(self._process(key))

    def _schedule(self, key: K, due: float) -> None:
        self._sequence += 1
        entry = self._entries[key]
        entry.ticket, entry.due = self._sequence, due
        heappush(self._due, (due, self._sequence, key))
        self._has_new.set()

    async def _next_due(self) -> K:
        while True:
            self._drop_superseded()
            pause = self._due[0][0] - self._clock.monotonic() if self._due else None
            if pause is not None and pause <= 0:
                if self.context.may_write():
                    _, _, key = heappop(self._due)
                    self._entries[key].ticket = 0
                    return key
                await self._clock.sleep(self.interval_s)
                continue
            self._has_new.clear()
            if pause is None:
                await self._has_new.wait()
            else:
                with suppress(TimeoutError):
                    await within(self._clock, pause, self._has_new.wait())

    def _drop_superseded(self) -> None:
        """Remove elements of keys that were expedited: another element stands for the key."""
        while self._due:
            _, ticket, key = self._due[0]
            entry = self._entries.get(key)
            if entry is not None and entry.ticket == ticket:
                return
            heappop(self._due)

    async def _process(self, key: K) -> None:
        entry = self._entries[key]
        entry.is_changed = entry.is_expedited = False
        self.counters.reconciles += 1
        tracer = self.context.tracer
        try:
            if tracer is None:
                pause = await self._try(key, entry)
            else:
                pause = await self._trace(tracer, key, entry)
        finally:
            self._slots.release()
        now = self._clock.monotonic()
        if pause is None and not entry.is_changed and entry.rests_until <= now:
            del self._entries[key]
            return
        # A key that was expedited rests on, so that other changes are not written sooner for that.
        due = max(now, entry.rests_until) if pause is None else now + pause
        if entry.is_expedited:
            due = min(due, max(now, entry.not_before))
        self._schedule(key, due)

    async def _trace(self, tracer: Tracer, key: K, entry: _Entry) -> float | None:
        """As `_try`, with a span."""
        began_s, entry.error = self._clock.now().timestamp(), ""
        entry.has_written = False
        pause = await self._try(key, entry)
        tracer.record(
            Span(
                name="reconcile",
                began_s=began_s,
                ended_s=self._clock.now().timestamp(),
                attributes={
                    "bursar.loop": self.name,
                    "bursar.wrote": entry.has_written,
                    OBJECT: str(key),
                },
                problem=entry.error,
            )
        )
        return pause

    async def _try(self, key: K, entry: _Entry) -> float | None:
        """Seconds until the next reconcile; None if the key need not be reconciled again."""
        try:
            has_written = await within(self._clock, REQUEST_SECONDS, self.reconcile(key))
        except NotFoundError:
            # The watch will show the deletion, and queue the key again if it is created again.
            self.counters.gone += 1
            self._note_refusal(key, "")
            return None
        except (ConflictError, AlreadyExistsError) as error:
            # The object changed after it was read. The watch is about to show it.
            self._count_failure(entry, error)
            entry.not_before = self._clock.monotonic() + RETRY_SECONDS
            return max(self.interval_s, RETRY_SECONDS)
        except (ClusterError, TimeoutError) as error:
            self._count_failure(entry, error)
            LOG.warning(
                "reconcile failed; trying again",
                part=self.name,
                reason=type(error).__name__,
                error=str(error) or f"no answer within {REQUEST_SECONDS:.0f} s",
            )
            if isinstance(error, ClusterError) and _is_refusal(error):
                self._note_refusal(key, printable(_words(error), WORDS_MAX))
            retry_after = error.retry_after if isinstance(error, ClusterError) else None
            pause = self._backoff(entry, retry_after)
            entry.not_before = self._clock.monotonic() + pause
            return pause
        entry.failures = 0
        self._note_refusal(key, "")
        if isinstance(has_written, Postponed):
            return has_written.seconds
        if not has_written:
            return None
        self.counters.writes += 1
        entry.has_written = True
        now = self._clock.monotonic()
        entry.not_before = now + min(REPAIR_SECONDS, self.interval_s)
        entry.rests_until = now + self.interval_s
        return self.interval_s

    def _note_refusal(self, key: K, words: str) -> None:
        if words == self._refused.get(key, ""):
            return
        if words:
            self._refused[key] = words
        else:
            del self._refused[key]
        self.on_refused(key, words)

    def _count_failure(self, entry: _Entry, error: Exception) -> None:
        entry.error = type(error).__name__
        self.counters.failures += 1
        self.counters.failures_by_class[type(error).__name__] += 1

    def _backoff(self, entry: _Entry, retry_after: float | None) -> float:
        pause = min(RETRY_SECONDS * 2.0**entry.failures, RETRY_SECONDS_MAX)
        # At the longest pause the count stops growing.
        entry.failures += pause < RETRY_SECONDS_MAX
        # Jitter, so that keys that failed together are not retried together.
        jitter = 0.5 + self.context.random.random()
        # A proxy in front of the API server may ask for days.
        asked = min(retry_after or 0.0, RETRY_SECONDS_MAX)
        return max(asked, self.interval_s, pause * jitter)


def _words(error: ClusterError) -> str:
    """The API server's words. Problems of a map come in another order each time."""
    if len(error.causes) <= 1:
        return error.message
    return f"{error.message.partition(': ')[0]}: {', '.join(sorted(error.causes))}"


def _is_refusal(error: ClusterError) -> bool:
    """Whether the API server has judged the request, and a retry gets the same answer.

    A broken webhook of others is answered with 500.
    """
    return error.code >= HTTPStatus.BAD_REQUEST and error.code not in _NO_JUDGEMENT


_NO_JUDGEMENT: Final = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.GONE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class PendingWrites(Generic[V]):
    """What was written to objects and the watch has not shown yet.

    A write is pending as long as the informer shows the object at the resourceVersion over
    which it was written. Any newer state of the object supersedes it.
    """

    def __init__(self) -> None:
        self._writes: dict[Key, tuple[str, V]] = {}

    def add(self, over: Identity, written: V) -> None:
        """Remember what was written over this state of the object."""
        self._writes[over.key] = (over.resource_version, written)

    def find(self, shown: Identity) -> V | None:
        """What was written over the state that the informer shows; None if nothing was."""
        resource_version, written = self._writes.get(shown.key, ("", None))
        return written if resource_version == shown.resource_version else None

    def forget(self, key: Key) -> None:
        """The object was deleted."""
        self._writes.pop(key, None)
