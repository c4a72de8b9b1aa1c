"""Which happenings are one event: the same again is counted, and many alike are combined.

Pure bookkeeping on moments that are passed in; nothing is written here.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeVar

from bursar.app.cluster.events.document import NOTE_BYTES_MAX, Happening, cut
from bursar.app.cluster.ports import Key

V = TypeVar("V")

SERIES_SECONDS: Final = 360
"""The same within so long after the last is the same event; later it is a new one."""
SIMILAR_SECONDS: Final = 600
SIMILAR_MAX: Final = 10
"""So many notes that differ, for one object and reason, each with no longer pause than
`SIMILAR_SECONDS`, are written as events of their own. All further ones are combined."""
COMBINED: Final = "(combined from similar events): "
REMEMBERED_MAX: Final = 4096
WRITE_SECONDS_MIN: Final = 10.0
WRITE_SECONDS_MAX: Final = 300.0


@dataclass(slots=True, kw_only=True)
class Series:
    """One event, and how often it has happened so far."""

    key: Key
    identity: Happening
    """What it is found by; of a combined event, what its members have in common."""
    note: str
    first_time: datetime
    last_time: datetime
    observed_at: float
    """On the monotonic clock, when it last happened."""
    count: int = 1
    written_count: int = 0
    """As of the last write that was answered; 0 if it is not in the cluster."""
    write_after: float = 0.0
    """Not to be written again before, on the monotonic clock."""
    write_seconds: float = WRITE_SECONDS_MIN
    """The pause between two writes of a growing count. It doubles, for the count of what
    happens all day need not be fresh."""
    is_queued: bool = False
    tries: int = 0

    @property
    def is_dirty(self) -> bool:
        return self.count > self.written_count

    def count_again(self, now: float, time: datetime) -> None:
        self.count += 1
        self.observed_at, self.last_time = now, time

    def note_written(self, count: int, now: float) -> None:
        if self.written_count:
            self.write_seconds = min(2 * self.write_seconds, WRITE_SECONDS_MAX)
        self.written_count, self.tries = count, 0
        self.write_after = now + self.write_seconds


@dataclass(slots=True)
class _Alike:
    notes: set[str]
    seen_at: float


class SeriesBook:
    """The series that still grow, and what is alike; of both the ones used last."""

    def __init__(self) -> None:
        self._series: OrderedDict[Happening, Series] = OrderedDict()
        self._alike: OrderedDict[Happening, _Alike] = OrderedDict()

    def combine(self, happening: Happening, now: float) -> Happening:
        """What to count: the happening itself, or what stands for it and its like."""
        kind = replace(happening, note=COMBINED)
        alike = self._alike.pop(kind, None)
        if alike is None or now - alike.seen_at > SIMILAR_SECONDS:
            alike = _Alike(set(), now)
        _keep_newest(self._alike, kind, alike)
        alike.seen_at = now
        if happening.note in alike.notes:
            return happening
        if len(alike.notes) == SIMILAR_MAX:
            return kind
        alike.notes.add(happening.note)
        return happening

    def find(self, identity: Happening, now: float) -> Series | None:
        """The series that this belongs to, if one still grows."""
        series = self._series.get(identity)
        if series is None or now - series.observed_at > SERIES_SECONDS:
            return None
        self._series.move_to_end(identity)
        return series

    def add(self, series: Series) -> None:
        self._series.pop(series.identity, None)
        _keep_newest(self._series, series.identity, series)

    def forget(self, series: Series) -> None:
        """Make the next of its kind a new event."""
        if self._series.get(series.identity) is series:
            del self._series[series.identity]


def note_of(identity: Happening, note: str) -> str:
    """The text of a new event. A combined one keeps the note that it was first made for.

    The API does not let the note of an event change.
    """
    return cut(COMBINED + note, NOTE_BYTES_MAX) if identity.note == COMBINED else note


def _keep_newest(memory: OrderedDict[Happening, V], key: Happening, value: V) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED_MAX:
        memory.popitem(last=False)
