"""Aggregation of events: equal occurrences are counted, similar ones are combined.

Times are arguments, and nothing is written here.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeVar

from bursar.app.cluster.events.budget import drop_oldest
from bursar.app.cluster.events.document import NOTE_BYTES_MAX, Occurrence, cut
from bursar.app.cluster.ports import Key

K = TypeVar("K")
V = TypeVar("V")

SERIES_SECONDS: Final = 360
"""An equal occurrence within this time continues the event; a later one is a new event."""
SIMILAR_SECONDS: Final = 600
SIMILAR_MAX: Final = 10
"""Number of different notes for one object and reason that become separate events.

All further ones are combined, until there is a pause of `SIMILAR_SECONDS`."""
COMBINED: Final = "(combined from similar events): "
REMEMBERED_MAX: Final = 1024
"""Events that are remembered, and groups of similar ones. At the highest rate of writing they are
those of 100 seconds. An event that is repeated after it was evicted is written as a new one."""
WRITE_SECONDS_MIN: Final = 10.0
WRITE_SECONDS_MAX: Final = 300.0


@dataclass(slots=True, kw_only=True)
class Series:
    """One event and its number of occurrences. Thousands of them are remembered."""

    identity: int
    """The hash of the counted occurrence, which takes a tenth of its memory. For a combined event
    it is the hash of the part that its occurrences share."""
    namespace: str
    name: str
    """Name of the event."""
    occurrence: Occurrence | None
    """The occurrence that is to be written; None if everything is written."""
    first_time: datetime
    last_time: datetime
    observed_at: float
    """Monotonic time of the last occurrence."""
    count: int = 1
    written_count: int = 0
    """The count of the last acknowledged write; 0 if the event is not in the cluster."""
    write_after: float = 0.0
    """Monotonic time before which the event is not written again."""
    write_seconds: float = WRITE_SECONDS_MIN
    """Pause between two writes of the count. It doubles with each write, because the count of a
    frequent event need not be fresh."""
    is_queued: bool = False
    tries: int = 0

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def is_dirty(self) -> bool:
        return self.count > self.written_count

    def count_again(self, occurrence: Occurrence, now: float, time: datetime) -> None:
        self.count += 1
        self.observed_at, self.last_time = now, time
        if self.occurrence is None:
            self.occurrence = occurrence

    def note_written(self, count: int, now: float) -> None:
        if self.written_count:
            self.write_seconds = min(2 * self.write_seconds, WRITE_SECONDS_MAX)
        self.written_count, self.tries = count, 0
        self.write_after = now + self.write_seconds
        if not self.is_dirty:
            self.occurrence = None


@dataclass(slots=True)
class _Alike:
    notes: tuple[int, ...]
    """Hashes of the notes, at most `SIMILAR_MAX`. They take a twentieth of the memory of notes."""
    seen_at: float


class SeriesBook:
    """The active series and groups of similar ones. The least recently used are evicted.

    Both tables are in order of use. An `OrderedDict` would take three times the memory.
    """

    def __init__(self) -> None:
        self._series: dict[int, Series] = {}
        self._alike: dict[int, _Alike] = {}
        """By the hash of what similar occurrences share."""

    def combine(self, occurrence: Occurrence, now: float) -> Occurrence:
        """The occurrence to count: this one, or the combined one if too many are similar."""
        kind = replace(occurrence, note=COMBINED)
        shared = hash(kind)
        alike = self._alike.pop(shared, None)
        if alike is None or now - alike.seen_at > SIMILAR_SECONDS:
            alike = _Alike((), now)
        _keep_newest(self._alike, shared, alike)
        alike.seen_at = now
        while now - _oldest(self._alike).seen_at > SIMILAR_SECONDS:
            drop_oldest(self._alike)
        note = hash(occurrence.note)
        if note in alike.notes:
            return occurrence
        if len(alike.notes) == SIMILAR_MAX:
            return kind
        alike.notes += (note,)
        return occurrence

    def find(self, identity: int, now: float) -> Series | None:
        """The active series of the occurrence with this hash; None if there is none."""
        series = self._series.get(identity)
        if series is None or now - series.observed_at > SERIES_SECONDS:
            return None
        self._series[identity] = self._series.pop(identity)
        return series

    def add(self, series: Series) -> None:
        self._series.pop(series.identity, None)
        _keep_newest(self._series, series.identity, series)
        while series.observed_at - _oldest(self._series).observed_at > SERIES_SECONDS:
            drop_oldest(self._series)

    def forget(self, series: Series) -> None:
        """Remove a series, so that the next equal occurrence is a new event."""
        if self._series.get(series.identity) is series:
            del self._series[series.identity]


def noted(counted: Occurrence, note: str) -> Occurrence:
    """The occurrence to write. A combined event keeps the note of its first occurrence.

    The API does not allow the note of an event to change.
    """
    if counted.note != COMBINED:
        return counted
    return replace(counted, note=cut(COMBINED + note, NOTE_BYTES_MAX))


def _keep_newest(memory: dict[K, V], key: K, value: V) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED_MAX:
        drop_oldest(memory)


def _oldest(memory: dict[K, V]) -> V:
    return memory[next(iter(memory))]
