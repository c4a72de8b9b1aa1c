"""The informer: a cache of all objects of one resource that follows the cluster.

It lists all objects once, as a streaming list if the server supports it and in pages otherwise,
and then watches. A watch that ends is resumed at the last resourceVersion. If the server no longer
has that, all objects are listed again and compared with the cache, which finds missed deletions.
After an error the informer retries; only `TooManyObjectsError` stops it.

Timeouts belong to the ports: they end a list or a watch that hangs. A process should call
`gc.freeze()` once after the sync, so that the garbage collector does not traverse the cache; the
composition root does that.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from random import Random
from typing import Final, Generic, TypeVar

from bursar.app.cluster.informer.backoff import Backoff, BackoffRules
from bursar.app.cluster.informer.cache import Cache, Draft, ReceivedObject, TooManyObjectsError
from bursar.app.cluster.informer.changes import Change, Changes, Relisted, Synced, Upserted
from bursar.app.cluster.informer.store import Identity, Snapshot, is_older
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    ClusterError,
    EventKind,
    ExpiredError,
    InvalidError,
    Key,
    Query,
    Reader,
    Resource,
    UnavailableError,
    Watcher,
    WatchEvent,
)
from bursar.app.cluster.reading.pages import Pages
from bursar.app.log import Log

T = TypeVar("T")

LOG: Final = Log("informer")

TURN: Final = 256
TURN_SECONDS: Final = 0.01
"""Number of events, and time, after which other tasks run, if the stream itself never waits.

Tenants decide how many bytes an object has, and so how long it takes to decode it.
"""

_TOO_NEW: Final = "Too large resource version"
"""The API server's message for a resourceVersion that it has not reached.

It appears after etcd was restored from a backup.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerRules:
    page_limit: int = 500
    """Objects per page of a list, if they are not large."""
    objects_max: int = 500_000
    """Number of objects above which the informer stops, to bound its memory."""
    pending_max: int = 1024
    """Unread changes of one consumer at which the informer stops reading its watch."""
    backoff: BackoffRules = field(default_factory=BackoffRules)
    brief_s: float = 1.0
    """A watch that ends earlier counts as failed, even without an error."""
    barren_watches_max: int = 3
    """Number of watches without any event after which the informer lists again."""
    initial_failures_max: int = 3
    """Number of failed streaming lists after which the informer lists in pages."""
    relist_s: float | None = None
    """List again if a watch ends and the last list is older. This repairs lost events."""


@dataclass(slots=True)
class InformerCounters:
    """Counters of one informer. They only grow."""

    events: int = 0
    duplicates: int = 0
    """Events that did not change the cache."""
    bookmarks: int = 0
    relists: int = 0
    """Lists after the first one."""
    watch_restarts: int = 0
    expired: int = 0
    """Lists and watches that failed because the resourceVersion was expired."""
    failures: int = 0
    """Lists and watches that failed for other reasons."""
    decode_failures: int = 0
    over_limit: int = 0
    """Lists and watches that exceeded `InformerRules.objects_max`."""


@dataclass(eq=False)
class Informer(Generic[T]):
    """A cache of one resource. Call `run` once; read it or its `changes` at any time."""

    reader: Reader
    watcher: Watcher
    _: KW_ONLY
    clock: Clock
    random: Random
    resource: Resource
    query: Query = EVERYTHING
    decode: Callable[[bytes], T]
    """Decodes a body. Raises `ValueError` if it cannot."""
    identify: Callable[[T], Identity]
    locate: Callable[[bytes], Identity | None]
    """The identity in an undecodable body; None if that cannot be read either."""
    rules: InformerRules = field(default_factory=InformerRules)

    counters: InformerCounters = field(default_factory=InformerCounters, init=False)
    last_error: ClusterError | None = field(default=None, init=False)
    """The error of the last list or watch; None if it succeeded."""

    def __post_init__(self) -> None:
        self._cache = Cache(
            self.identify, resource=str(self.resource), objects_max=self.rules.objects_max
        )
        self._backoff = Backoff(self.rules.backoff, self.random)
        self._draft: Draft[T] | None = None
        self._consumers: list[Changes[T]] = []
        self._position = ""
        """The resourceVersion of the cache; empty if a list is needed."""
        self._settled = asyncio.Event()
        self._failure: TooManyObjectsError | None = None
        self._has_started = self._has_ended = False
        self._synced: Synced | None = None
        self._refuses_initial = False
        self._initial_failures = 0
        self._barren_watches = 0
        self._has_noise = False
        """Whether an unidentifiable body arrived since the last list."""
        self._listed_at = self._fresh_at = float("-inf")

    # ------------------------------------------------------------------ asking

    @property
    def is_synced(self) -> bool:
        """Whether one list is complete."""
        return self._synced is not None

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the cache; empty while a list is needed."""
        return self._position

    @property
    def staleness_seconds(self) -> float:
        """Seconds since the cache was last known to be current; infinite before the first list."""
        return self.clock.monotonic() - self._fresh_at

    @property
    def suspects(self) -> frozenset[Key]:
        """Objects whose latest state could not be decoded. The cache may hold an older one."""
        return frozenset(self._cache.suspects)

    def __len__(self) -> int:
        return len(self._cache.store)

    def find(self, key: Key) -> T | None:
        return self._cache.store.find(key)

    def snapshot(self) -> Snapshot[T]:
        return self._cache.store.snapshot()

    async def wait_synced(self) -> None:
        """Wait for the first complete list. Raises the error that stopped the informer.

        There is no timeout; the caller sets one that suits the size of the cluster.
        """
        await self._settled.wait()
        if self._synced is None:
            raise self._failure or UnavailableError(
                "the informer was stopped before it was synced", resource=str(self.resource)
            )

    def changes(self) -> Changes[T]:
        """A queue of all cached objects as added, and then of all further changes."""
        known = () if self._synced is None else _retold(self.snapshot(), self._synced)
        consumer = Changes(iter(known), self.rules.pending_max)
        if self._has_ended:
            consumer.end()
        else:
            self._consumers.append(consumer)
        return consumer

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """List and watch until cancelled. Raises `TooManyObjectsError`."""
        assert not self._has_started, "an informer runs once"
        self._has_started = True
        try:
            while True:
                delay = await self._attempt()
                if delay:
                    await self.clock.sleep(delay)
        except TooManyObjectsError as error:
            self.counters.over_limit += 1
            self._failure = error
            raise
        finally:
            self._has_ended = True
            for consumer in self._consumers:
                consumer.end()
            self._settled.set()

    async def _attempt(self) -> float:
        """List if needed, then watch until the watch ends. Returns the back-off in seconds."""
        began = self.clock.monotonic()
        heard = self._heard()
        is_resumed = bool(self._position)
        error: ClusterError | None = None
        try:
            await self._listen()
        except ClusterError as caught:
            error = caught
        now = self.clock.monotonic()
        is_brief = now - began < self.rules.brief_s
        if is_resumed and not is_brief:
            self._relist_if_barren(is_barren=self._heard() == heard)
        is_urgent = self._learn_from(error, is_brief=is_brief and not is_resumed)
        if self._has_noise or self._is_list_old(now):
            self._position = ""
        if is_urgent or (error is None and not is_brief):
            return 0.0
        return self._backoff.delay_s(now, error.retry_after if error else None)

    def _is_list_old(self, now: float) -> bool:
        return self.rules.relist_s is not None and now - self._listed_at >= self.rules.relist_s

    def _heard(self) -> int:
        return self.counters.events + self.counters.bookmarks

    def _learn_from(self, error: ClusterError | None, *, is_brief: bool) -> bool:
        """Decide how to continue after an attempt; true to retry without a back-off."""
        was_drafting = self._draft is not None
        self._draft = None
        self.last_error = error
        if error is None:
            return False
        if isinstance(error, ExpiredError) or _is_too_new(error):
            # Not a failure: the history was compacted. List again at once, unless the expired
            # request was itself a list.
            self.counters.expired += 1
            is_urgent = bool(self._position) and not is_brief
            self._position = ""
            return is_urgent
        if was_drafting and isinstance(error, InvalidError):
            # Not a failure: Kubernetes 1.33 has no streaming lists by default.
            LOG.info("no streaming lists; listing in pages", resource=self.resource, error=error)
            self._refuses_initial = True
            return True
        self.counters.failures += 1
        LOG.warning("list or watch failed; trying again", resource=self.resource, error=error)
        if isinstance(error, UnavailableError) and not self._position:
            # If pages fail as well, the streaming list is not at fault.
            self._initial_failures = self._initial_failures + 1 if was_drafting else 0
        return False

    def _relist_if_barren(self, *, is_barren: bool) -> None:
        """List again after several watches without events.

        A watch from a resourceVersion that the server has not reached never sends anything.
        """
        self._barren_watches = self._barren_watches + 1 if is_barren else 0
        if self._barren_watches >= self.rules.barren_watches_max:
            self._barren_watches = 0
            self._position = ""

    async def _relist_if_restored(self) -> None:
        """List again if the server is older than the cache: etcd was restored from a backup.

        A watch from a resourceVersion that the server has not reached sends nothing, or, when the
        server reaches it, changes of another history.
        """
        page = await self.reader.list(self.resource, self.query, limit=1)
        if is_older(page.resource_version, self._position):
            LOG.warning(
                "the server is older than what was seen of it; listing again",
                resource=self.resource,
                seen=self._position,
                server=page.resource_version,
            )
            self._position = ""

    async def _listen(self) -> None:
        if self._position and isinstance(self.last_error, UnavailableError):
            await self._relist_if_restored()
        if self._position:
            self.counters.watch_restarts += 1
        else:
            self.counters.relists += self._synced is not None
            self._has_noise = False
            if self._streams_initial:
                await self._stream()
                return
            await self._list()
        await self._follow(
            self.watcher.watch(self.resource, self.query, resource_version=self._position)
        )

    @property
    def _streams_initial(self) -> bool:
        if self._refuses_initial:
            return False
        return self._initial_failures < self.rules.initial_failures_max

    async def _stream(self) -> None:
        """List and watch in one stream."""
        self._draft = Draft(self._cache)
        await self._follow(self.watcher.watch(self.resource, self.query, send_initial=True))
        if self._draft is not None:
            raise UnavailableError(
                "the watch ended before all objects were sent", resource=str(self.resource)
            )

    async def _list(self) -> None:
        began = self.clock.monotonic()
        draft = Draft(self._cache)
        pages = Pages(self.reader, self.resource, self.query, self.rules.page_limit)
        resource_version, turn_began = "", began
        while (page := await pages.next()) is not None:
            resource_version = page.resource_version
            for body in page.items:
                received = self._read(body)
                if received is None:
                    draft.has_noise = True
                else:
                    draft.put(received)
                turn_began = await self._take_turns(turn_began)
        if self._initial_failures >= self.rules.initial_failures_max:
            self._refuses_initial = True
        self._fresh_at = began
        await self._replace(draft, resource_version)

    async def _take_turns(self, began: float) -> float:
        """Let other tasks run if this one has run for long enough. Returns when its turn began."""
        if self.clock.monotonic() - began < TURN_SECONDS:
            return began
        await asyncio.sleep(0)
        return self.clock.monotonic()

    async def _follow(self, stream: AsyncIterator[WatchEvent]) -> None:
        turn_began = self.clock.monotonic()
        try:
            async for event in stream:
                await self._receive(event)
                if self._heard() % TURN == 0:
                    await asyncio.sleep(0)
                turn_began = await self._take_turns(turn_began)
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    # ------------------------------------------------------------------ what arrives

    async def _receive(self, event: WatchEvent) -> None:
        self._fresh_at = self.clock.monotonic()
        self.last_error = None
        if event.kind is EventKind.BOOKMARK:
            self.counters.bookmarks += 1
            if self._draft is None:
                self._advance(event.resource_version)
            elif event.ends_initial:
                draft, self._draft = self._draft, None
                await self._replace(draft, event.resource_version)
            return
        self.counters.events += 1
        if self._draft is not None:
            self._enter(self._draft, event)
        elif is_older(event.resource_version, self._position):
            self.counters.duplicates += 1
        else:
            await self._apply(event)

    def _enter(self, draft: Draft[T], event: WatchEvent) -> None:
        received = self._read(event.body)
        if received is None:
            draft.has_noise = True
        elif event.kind is EventKind.DELETED:
            self.counters.duplicates += not draft.remove(received.identity)
        else:
            self.counters.duplicates += not draft.put(received)

    async def _apply(self, event: WatchEvent) -> None:
        received = self._read(event.body)
        if received is None:
            self._require_not_deleted(event)
            self._advance(event.resource_version)
            return
        if event.kind is EventKind.DELETED:
            changes = self._cache.delete(received.identity)
        else:
            changes = self._cache.upsert(received)
        self._advance(event.resource_version)
        if changes:
            await self._send(changes)
        elif received.item is not None:
            self.counters.duplicates += 1

    def _require_not_deleted(self, event: WatchEvent) -> None:
        """Raise if the deleted object cannot be identified: only a list shows which one it was."""
        if event.kind is EventKind.DELETED:
            self._position = ""
            raise UnavailableError("a deletion could not be read", resource=str(self.resource))

    def _read(self, body: bytes) -> ReceivedObject[T] | None:
        """The received object; None if it cannot be identified."""
        try:
            item = self.decode(body)
        except ValueError as error:
            identity = self.locate(body)
            self.counters.decode_failures += 1
            self._has_noise |= identity is None
            LOG.warning(
                "an object cannot be decoded",
                resource=self.resource,
                object=identity.key if identity else "(without a name)",
                error=error,
            )
            return None if identity is None else ReceivedObject(identity, None)
        return ReceivedObject(self.identify(item), item)

    def _advance(self, resource_version: str) -> None:
        if resource_version and not is_older(resource_version, self._position):
            self._position = resource_version

    async def _replace(self, draft: Draft[T], resource_version: str) -> None:
        changes = self._cache.replace(draft)
        begin = () if self._synced is None else (Relisted(),)
        self._position = resource_version
        self._listed_at = self._fresh_at
        self._initial_failures = 0
        self._synced = Synced(resource_version)
        self._settled.set()
        await self._send(chain(begin, changes, [self._synced]))

    async def _send(self, changes: Iterable[Change[T]]) -> None:
        # A consumer that joins later begins with the new state and must not get it twice.
        self._consumers = [each for each in self._consumers if not each.is_closed]
        consumers = tuple(self._consumers)
        for change in changes:
            for consumer in consumers:
                await consumer.put(change)


def _retold(snapshot: Snapshot[T], synced: Synced) -> Iterator[Change[T]]:
    for item in snapshot.objects():
        yield Upserted(None, item)
    yield synced


def _is_too_new(error: ClusterError) -> bool:
    return any(_TOO_NEW in text for text in (error.message, *error.causes))
