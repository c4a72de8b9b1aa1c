"""Watches of the embedded cluster: iterators over the change log of a collection.

A watch holds only its position in the log, so a slow consumer costs no memory. A watch that falls
too far behind is ended, as the API server ends a watch whose buffer is full. The consumer then
starts a new watch from the last resourceVersion it saw. Changes from before the start of a watch
do not count as lag; otherwise a consumer that fell behind could never catch up.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects.history import Change, Collection, Stored, encoded, stored_at
from bursar.adapters.memory.objects.selection import Selection
from bursar.app.cluster.ports import Clock, EventKind, UnavailableError, WatchEvent
from bursar.wire.cluster.status import INITIAL_EVENTS_END


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """When the cluster ends a watch, and how often it sends bookmarks."""

    bookmark_seconds: float = 60.0
    """Interval between bookmarks, as in the API server."""
    lifetime_seconds: float = 1800.0
    """How long a watch lasts: the minimum of the API server's default range."""
    lag_max: int = 10_000
    """Number of unread changes at which a watch is ended."""


@dataclass(slots=True)
class Switch:
    """Ends all watches that were started with it. Each cut makes a new switch."""

    is_cut: bool = False
    is_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One watch."""

    kind: Kind
    collection: Collection
    selection: Selection
    clock: Clock
    limits: WatchLimits
    switch: Switch
    revision_now: Callable[[], int]

    async def events(
        self, initial: Sequence[Stored], revision: int, *, marks_end: bool
    ) -> AsyncGenerator[WatchEvent]:
        """Send the initial objects, then all changes after the revision."""
        for stored in initial:
            yield _event(EventKind.ADDED, stored)
        if marks_end:
            yield replace(self._bookmark(revision, ends_initial=True), ends_initial=True)
        place = self.collection.place_after(revision)
        known = self.collection.forgotten + len(self.collection.log)
        end = self.clock.monotonic() + self.limits.lifetime_seconds
        bookmark_due = self.clock.monotonic() + self.limits.bookmark_seconds
        while self._is_alive(place, known, end):
            while place - self.collection.forgotten < len(self.collection.log):
                change = self.collection.log[place - self.collection.forgotten]
                place += 1
                event = self._seen(change) if change.revision > revision else None
                if event is not None:
                    yield event
                if not self._is_alive(place, known, end):
                    return
            if self.clock.monotonic() >= bookmark_due:
                bookmark_due = self.clock.monotonic() + self.limits.bookmark_seconds
                yield self._bookmark(self.revision_now())
                continue
            await self._change_until(min(bookmark_due, end))

    def _is_alive(self, place: int, known: int, end: float) -> bool:
        if self.switch.is_cut:
            if self.switch.is_fault:
                raise UnavailableError("the watch was cut", resource=str(self.kind.resource))
            return False
        behind = self.collection.forgotten + len(self.collection.log) - max(place, known)
        return (
            place >= self.collection.forgotten
            and behind <= self.limits.lag_max
            and self.clock.monotonic() < end
        )

    async def _change_until(self, deadline: float) -> None:
        """Return after a write, when the watch is cut, or at the deadline."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.collection.waiting.add(waiter)
        sleeper = asyncio.ensure_future(self.clock.sleep(deadline - self.clock.monotonic()))
        try:
            await asyncio.wait({waiter, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.collection.waiting.discard(waiter)
            waiter.cancel()
            sleeper.cancel()
            await asyncio.wait({sleeper})

    def _seen(self, change: Change) -> WatchEvent | None:
        """The event of a change; None if the watch does not select the object.

        An object that no longer matches the selectors counts as deleted.
        """
        if self.selection.namespace not in {"", change.key.namespace}:
            return None
        before, after = change.before, change.after
        was = before is not None and self.selection.matches(before.body)
        if change.kind is EventKind.DELETED:
            return _event(EventKind.DELETED, after) if was else None
        if self.selection.matches(after.body):
            return _event(EventKind.MODIFIED if was else EventKind.ADDED, after)
        if was and before is not None:
            # The API server sends the last state that matched.
            return _event(EventKind.DELETED, stored_at(before.body, change.revision))
        return None

    def _bookmark(self, revision: int, *, ends_initial: bool = False) -> WatchEvent:
        metadata: dict[str, object] = {"resourceVersion": str(revision)}
        if ends_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self.kind.resource
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return WatchEvent(
            kind=EventKind.BOOKMARK, body=encoded(body), resource_version=str(revision)
        )


def _event(kind: EventKind, stored: Stored) -> WatchEvent:
    return WatchEvent(kind=kind, body=stored.raw, resource_version=str(stored.revision))
