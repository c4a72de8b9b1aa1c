"""Watches: an iterator that follows a collection's log.

A watch keeps a place in the log and nothing else, so a slow one costs no memory.
When it falls too far behind, it is ended, as the API server ends a watch whose
buffer is full; the consumer then watches again from the last revision it saw. What
had happened before a watch began is not held against it, or one that fell behind
could never catch up.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects.history import Change, Collection, Stored, encoded, stored_at
from bursar.adapters.memory.objects.selecting import Choice
from bursar.app.cluster.ports import Clock, EventKind, UnavailableError, WatchEvent

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """When watches end by themselves, and how often they are told that nothing happened."""

    bookmark_seconds: float = 60.0
    """As often as the API server sends bookmarks."""
    lifetime_seconds: float = 1800.0
    """The shortest that the API server lets a watch live by default."""
    lag_max: int = 10_000
    """Changes a watch may be behind before it is ended."""


@dataclass(slots=True)
class Switch:
    """Shared by all watches begun between two cuts; turning it ends them."""

    is_cut: bool = False
    is_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One watch, ready to be followed."""

    kind: Kind
    collection: Collection
    choice: Choice
    clock: Clock
    limits: WatchLimits
    switch: Switch
    revision_now: Callable[[], int]

    async def events(
        self, initial: Sequence[Stored], revision: int, *, marks_end: bool
    ) -> AsyncGenerator[WatchEvent]:
        """First the initial objects, then changes after the revision."""
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

    async def _change_until(self, moment: float) -> None:
        """Return when something was written, the watch was cut, or the moment has come."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.collection.waiting.add(waiter)
        sleeper = asyncio.ensure_future(self.clock.sleep(moment - self.clock.monotonic()))
        try:
            await asyncio.wait({waiter, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.collection.waiting.discard(waiter)
            waiter.cancel()
            sleeper.cancel()
            await asyncio.wait({sleeper})

    def _seen(self, change: Change) -> WatchEvent | None:
        """The change as this watch sees it: leaving the selection is a deletion."""
        if self.choice.namespace not in {"", change.key.namespace}:
            return None
        before, after = change.before, change.after
        was = before is not None and self.choice.matches(before.body)
        if change.kind is EventKind.DELETED:
            return _event(EventKind.DELETED, after) if was else None
        if self.choice.matches(after.body):
            return _event(EventKind.MODIFIED if was else EventKind.ADDED, after)
        if was and before is not None:
            # The server shows what the object was when it was last selected.
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
