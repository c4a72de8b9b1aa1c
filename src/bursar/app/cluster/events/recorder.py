"""Records Kubernetes events in the background.

`record` only queues an occurrence. A worker writes it within a rate limit, writes repetitions as a
count, and retries for a while if the cluster does not respond. An event that cannot be written is
dropped and counted: events inform people, and no decision waits for them or depends on them.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from heapq import heappop, heappush
from typing import Final, Generic, NoReturn, Protocol, TypeVar

from bursar.app.cluster.events.budget import Budget, ObjectBuckets, TokenBucket
from bursar.app.cluster.events.document import (
    NOTE_BYTES_MAX,
    WORD_BYTES_MAX,
    EventType,
    ObjectReference,
    Occurrence,
    Source,
    cut,
    event_document,
    event_name,
    series_document,
)
from bursar.app.cluster.events.series import Series, SeriesBook, noted
from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    BusyError,
    Clock,
    ClusterError,
    ConflictError,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
    Writer,
)
from bursar.app.cluster.time_limit import within

R = TypeVar("R", bound=Enum)

DEFAULT_BUDGET: Final = Budget()
REQUEST_SECONDS: Final = 10.0
FLUSH_SECONDS: Final = 5.0
"""Longest delay of a shutdown for events that wait to be written."""
TRIES_MAX: Final = 5
RETRY_SECONDS: Final = 2.0
RETRY_SECONDS_MAX: Final = 30.0
TICK_SECONDS: Final = 0.001
TRANSIENT: Final = (BusyError, UnavailableError, ConflictError, TimeoutError)


class Drop(Enum):
    """The reason why an occurrence was not written, or not completely."""

    OBJECT_BUDGET = "too many events about one object"
    QUEUE_FULL = "too many events wait to be written"
    REFUSED = "the cluster refused the event"
    UNAVAILABLE = "the cluster did not take the event in time"


class EventCounts(Protocol):
    """Counts of one event recorder, for metrics and status pages."""

    @property
    def dropped(self) -> Mapping[Drop, int]:
        """Number of occurrences that were not written, by reason."""

    @property
    def waiting(self) -> int:
        """Number of events that wait to be written."""


class EventRecorder(Generic[R]):
    """Records events of one component, with reasons of one enum. Use it on one event loop."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        *,
        reasons: type[R],
        component: str,
        instance: str,
        budget: Budget = DEFAULT_BUDGET,
    ) -> None:
        self._writer, self._clock, self._budget = writer, clock, budget
        self._reasons = reasons
        self._source = Source(component=component, instance=instance)
        # Two instances can report about one object in the same microsecond.
        self._mark = hashlib.sha256(f"{component} {instance}".encode()).hexdigest()[:8]
        self._book = SeriesBook()
        self._objects = ObjectBuckets(budget)
        self._bucket = TokenBucket(budget.burst, 1 / budget.writes_per_second, clock.monotonic())
        self._queue: list[tuple[float, int, Series]] = []
        self._sequence = 0
        self._news = asyncio.Event()
        self._dropped: Counter[Drop] = Counter()

    @property
    def dropped(self) -> Mapping[Drop, int]:
        return dict(self._dropped)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def record(
        self,
        regarding: ObjectReference,
        reason: R,
        note: str,
        *,
        action: str,
        type: EventType = EventType.NORMAL,
        related: ObjectReference | None = None,
    ) -> None:
        """Queue an event and return at once. A note that is too long is cut."""
        assert isinstance(reason, self._reasons), "reasons come from one closed list"
        assert action, "an event says what was done"
        occurrence = Occurrence(
            regarding=regarding,
            reason=cut(str(reason.value), WORD_BYTES_MAX),
            action=cut(action, WORD_BYTES_MAX),
            note=cut(note, NOTE_BYTES_MAX),
            type=type,
            related=related,
        )
        now = self._clock.monotonic()
        counted = self._book.combine(occurrence, now)
        series = self._book.find(hash(counted), now)
        if series is not None:
            series.count_again(noted(counted, occurrence.note), now, self._clock.now())
        elif len(self._queue) >= self._budget.queue_max:
            self._dropped[Drop.QUEUE_FULL] += 1
        elif not self._objects.take((regarding, type), now):
            self._dropped[Drop.OBJECT_BUDGET] += 1
        else:
            series = self._begin(hash(counted), noted(counted, occurrence.note), now)
        if series is not None:
            self._enqueue(series)

    async def run(self) -> NoReturn:
        """Write queued events until cancelled, then the remaining ones for a few seconds."""
        try:
            while True:
                await self._write(await self._next_due())
        finally:
            with suppress(TimeoutError):
                await within(self._clock, FLUSH_SECONDS, self._flush())
            for _, _, series in self._queue:
                self._dropped[Drop.UNAVAILABLE] += series.count - series.written_count
            self._queue.clear()

    # -------------------------------------------------------------- noting

    def _begin(self, identity: int, occurrence: Occurrence, now: float) -> Series:
        time = self._clock.now()
        self._sequence += 1
        suffix = f"{int(time.timestamp() * 1_000_000):x}{self._mark}{self._sequence:x}"
        series = Series(
            identity=identity,
            namespace=occurrence.namespace,
            name=event_name(occurrence, suffix),
            occurrence=occurrence,
            first_time=time,
            last_time=time,
            observed_at=now,
            write_after=now,
        )
        self._book.add(series)
        return series

    def _enqueue(self, series: Series) -> None:
        if series.is_queued:
            return
        self._sequence += 1
        series.is_queued = True
        heappush(self._queue, (series.write_after, self._sequence, series))
        self._news.set()

    # -------------------------------------------------------------- writing

    async def _next_due(self) -> Series:
        """Wait until an event is due and the rate limit allows a write."""
        while True:
            now = self._clock.monotonic()
            pause = self._queue[0][0] - now if self._queue else None
            if pause is not None and pause <= 0:
                if self._bucket.take(now):
                    series = heappop(self._queue)[2]
                    series.is_queued = False
                    return series
                pause = self._bucket.seconds_until_next(now)
            self._news.clear()
            await self._await_news(pause)

    async def _await_news(self, seconds: float | None) -> None:
        if seconds is None:
            await self._news.wait()
            return
        with suppress(TimeoutError):
            await within(self._clock, max(seconds, TICK_SECONDS), self._news.wait())

    async def _write(self, series: Series) -> None:
        count = series.count
        try:
            await within(self._clock, REQUEST_SECONDS, self._store(series, count))
            series.note_written(count, self._clock.monotonic())
        except TRANSIENT as error:
            self._postpone(series, error)
        except ClusterError:
            self._give_up(series, Drop.REFUSED)
        finally:
            if series.is_dirty:
                self._enqueue(series)

    async def _store(self, series: Series, count: int) -> None:
        growth = {"series": series_document(count, series.last_time)} if count > 1 else {}
        if series.written_count:
            patch = Patch(kind=PatchKind.MERGE, body=growth)
            try:
                await self._writer.patch(EVENTS, series.key, patch)
            except NotFoundError:
                pass  # The API server deletes events after about an hour. Create it again.
            else:
                return
        assert series.occurrence is not None, "there is something to write"
        body = event_document(series.key, series.occurrence, self._source, series.first_time)
        try:
            await self._writer.create(EVENTS, body | growth, namespace=series.key.namespace)
        except AlreadyExistsError:
            # Created by an earlier attempt whose response was lost: the name contains our suffix.
            if growth:
                patch = Patch(kind=PatchKind.MERGE, body=growth)
                await self._writer.patch(EVENTS, series.key, patch)

    def _postpone(self, series: Series, error: ClusterError | TimeoutError) -> None:
        series.tries += 1
        if series.tries >= TRIES_MAX:
            self._give_up(series, Drop.UNAVAILABLE)
            return
        pause = RETRY_SECONDS * 2 ** (series.tries - 1)
        if isinstance(error, ClusterError) and error.retry_after is not None:
            pause = max(pause, error.retry_after)
        series.write_after = self._clock.monotonic() + min(pause, RETRY_SECONDS_MAX)

    def _give_up(self, series: Series, reason: Drop) -> None:
        self._dropped[reason] += series.count - series.written_count
        series.written_count = series.count
        self._book.forget(series)

    async def _flush(self) -> None:
        """Try once more to write all queued events, even those that are not due."""
        for _, _, series in sorted(self._queue):
            await self._write(series)
        self._queue = [entry for entry in self._queue if entry[2].is_dirty]
