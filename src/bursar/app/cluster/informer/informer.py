"""The informer: the objects of one kind, kept equal to the cluster's, whatever happens on the way.

It lists everything once, as one stream where the server can and in pages where it
cannot, then follows the changes. A watch that ends is taken up where it stopped; if
that moment is no longer known, everything is listed afresh and compared, so that
deletions nobody told us about are found. Every end and every typed error of the ports
is a reason to try again, never to stop; only `TooManyObjectsError` stops it.

Deadlines belong to the ports: a list or a silent watch that hangs is ended there, with
an error or plainly. A process that has synced should call `gc.freeze()` once, so
that the collector does not walk the cache again and again; that is for the entry to do,
which alone owns the process.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from random import Random
from typing import Final, Generic, TypeVar

from bursar.app.cluster.informer.backoff import Backoff, BackoffRules
from bursar.app.cluster.informer.cache import Cache, Draft, News, TooManyObjectsError
from bursar.app.cluster.informer.changes import Change, Changes, Synced, Upserted
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

T = TypeVar("T")

TURN: Final = 256
"""Events taken in a row before other tasks get a turn, if the stream itself never waits."""

_TOO_NEW: Final = "Too large resource version"
"""The API server's words for a moment it has not reached, as after it was restored from a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerRules:
    page_limit: int = 500
    """Objects per page of a list, which bounds what one answer can weigh."""
    objects_max: int = 500_000
    """Above this many objects the informer stops rather than take all memory."""
    pending_max: int = 1024
    """Changes that may wait for one consumer before the watch has to wait."""
    backoff: BackoffRules = field(default_factory=BackoffRules)
    brief_s: float = 1.0
    """A watch shorter than this has failed, even if it ended without an error."""
    barren_watches_max: int = 3
    """After this many watches without an event or bookmark, the moment itself is doubted."""
    initial_failures_max: int = 3
    """After this many failures to stream the initial objects, try whether pages work better."""
    relist_s: float | None = None
    """When a watch ends and the last list is older than this, list afresh; heals lost events."""


@dataclass(slots=True)
class InformerCounters:
    """How often what happened; only ever growing."""

    events: int = 0
    duplicates: int = 0
    """Events that repeated what was known."""
    bookmarks: int = 0
    relists: int = 0
    """Times everything was listed again, after the first."""
    watch_restarts: int = 0
    expired: int = 0
    """Moments that the server no longer knew."""
    failures: int = 0
    """Lists and watches that ended with an error, moments no longer known aside."""
    decode_failures: int = 0
    over_limit: int = 0
    """Times that there were too many objects to hold."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A body that could not be decoded, as far as it can be told without showing it."""

    resource: Resource
    key: Key | None
    error: ValueError


def _tell_nobody(_: Undecodable) -> None:
    """The default: it is counted all the same."""


@dataclass(eq=False)
class Informer(Generic[T]):
    """A cache of one kind. `run` it once; ask it or follow `changes` at any time."""

    reader: Reader
    watcher: Watcher
    _: KW_ONLY
    clock: Clock
    random: Random
    resource: Resource
    query: Query = EVERYTHING
    decode: Callable[[bytes], T]
    """Raises `ValueError` for a body that it cannot read."""
    identify: Callable[[T], Identity]
    locate: Callable[[bytes], Identity | None]
    """Which object a body is about that could not be decoded; None if even that is unreadable."""
    rules: InformerRules = field(default_factory=InformerRules)
    report: Callable[[Undecodable], None] = _tell_nobody

    counters: InformerCounters = field(default_factory=InformerCounters, init=False)
    last_error: ClusterError | None = field(default=None, init=False)
    """Why the last list or watch failed; None while all is well."""

    def __post_init__(self) -> None:
        self._cache = Cache(
            self.identify, resource=str(self.resource), objects_max=self.rules.objects_max
        )
        self._backoff = Backoff(self.rules.backoff, self.random)
        self._draft: Draft[T] | None = None
        self._consumers: list[Changes[T]] = []
        self._position = ""
        """The moment up to which everything is known; empty if we have to list."""
        self._settled = asyncio.Event()
        self._failure: TooManyObjectsError | None = None
        self._has_started = self._has_ended = False
        self._synced: Synced | None = None
        self._refuses_initial = False
        self._initial_failures = 0
        self._barren_watches = 0
        self._has_noise = False
        """Whether something arrived since the last list that may have been about any object."""
        self._listed_at = self._fresh_at = float("-inf")

    # ------------------------------------------------------------------ asking

    @property
    def is_synced(self) -> bool:
        """Whether everything has been listed at least once."""
        return self._synced is not None

    @property
    def resource_version(self) -> str:
        """The moment up to which everything is known; empty while that has to be found out."""
        return self._position

    @property
    def staleness_seconds(self) -> float:
        """How long ago we last had proof of being up to date; infinite before the first."""
        return self.clock.monotonic() - self._fresh_at

    @property
    def suspects(self) -> frozenset[Key]:
        """Objects whose latest state could not be read; an older one may be held."""
        return frozenset(self._cache.suspects)

    def __len__(self) -> int:
        return len(self._cache.store)

    def find(self, key: Key) -> T | None:
        return self._cache.store.find(key)

    def snapshot(self) -> Snapshot[T]:
        return self._cache.store.snapshot()

    async def wait_synced(self) -> None:
        """Wait for the first whole list. Raises what stopped the informer, if that comes first.

        The caller sets the deadline: how long is too long depends on the cluster's size.
        """
        await self._settled.wait()
        if self._synced is None:
            raise self._failure or UnavailableError(
                "the informer was stopped before it was synced", resource=str(self.resource)
            )

    def changes(self) -> Changes[T]:
        """Everything held now, as if it had just been added, then every change from here on."""
        known = () if self._synced is None else _retold(self.snapshot(), self._synced)
        consumer = Changes(iter(known), self.rules.pending_max)
        if self._has_ended:
            consumer.end()
        else:
            self._consumers.append(consumer)
        return consumer

    def report_to(self, report: Callable[[Undecodable], None]) -> None:
        """Call `report` from now on for each object that cannot be decoded."""
        self.report = report

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Follow the cluster until cancelled. Raises `TooManyObjectsError`."""
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
        """List if need be, then watch to the end. Returns the seconds to wait before the next."""
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
            self._doubt_if_barren(is_barren=self._heard() == heard)
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
        """Draw conclusions from how an attempt ended; true if the next should follow at once."""
        was_drafting = self._draft is not None
        self._draft = None
        self.last_error = error
        if error is None:
            return False
        if isinstance(error, ExpiredError) or _is_too_new(error):
            # Not a fault: the past we asked for has been compacted. It is right to list at
            # once, unless a list is what has just expired, or was of no use.
            self.counters.expired += 1
            is_urgent = bool(self._position) and not is_brief
            self._position = ""
            return is_urgent
        self.counters.failures += 1
        if was_drafting and isinstance(error, InvalidError):
            self._refuses_initial = True
            return True
        if isinstance(error, UnavailableError) and not self._position:
            # Pages that fail as well prove nothing against streaming.
            self._initial_failures = self._initial_failures + 1 if was_drafting else 0
        return False

    def _doubt_if_barren(self, *, is_barren: bool) -> None:
        """A watch from a moment that the server has yet to reach says nothing, for ever."""
        self._barren_watches = self._barren_watches + 1 if is_barren else 0
        if self._barren_watches >= self.rules.barren_watches_max:
            self._barren_watches = 0
            self._position = ""

    async def _listen(self) -> None:
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
        """All objects and then all changes, in one stream."""
        self._draft = Draft(self._cache)
        await self._follow(self.watcher.watch(self.resource, self.query, send_initial=True))
        if self._draft is not None:
            raise UnavailableError(
                "the watch ended before all objects were sent", resource=str(self.resource)
            )

    async def _list(self) -> None:
        began = self.clock.monotonic()
        draft = Draft(self._cache)
        limit = self.rules.page_limit
        page = await self.reader.list(self.resource, self.query, limit=limit)
        while True:
            for body in page.items:
                news = self._read(body)
                if news is None:
                    draft.has_noise = True
                else:
                    draft.put(news)
            if not page.next_page:
                break
            page = await self.reader.list(
                self.resource, self.query, limit=limit, page=page.next_page
            )
        if self._initial_failures >= self.rules.initial_failures_max:
            self._refuses_initial = True
        self._fresh_at = began
        await self._replace(draft, page.resource_version)

    async def _follow(self, stream: AsyncIterator[WatchEvent]) -> None:
        try:
            async for event in stream:
                await self._receive(event)
                if self._heard() % TURN == 0:
                    await asyncio.sleep(0)
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
        news = self._read(event.body)
        if news is None:
            draft.has_noise = True
        elif event.kind is EventKind.DELETED:
            self.counters.duplicates += not draft.remove(news.identity)
        else:
            self.counters.duplicates += not draft.put(news)

    async def _apply(self, event: WatchEvent) -> None:
        news = self._read(event.body)
        if news is None:
            self._require_not_deleted(event)
            self._advance(event.resource_version)
            return
        if event.kind is EventKind.DELETED:
            changes = self._cache.delete(news.identity)
        else:
            changes = self._cache.upsert(news)
        self._advance(event.resource_version)
        if changes:
            await self._tell(changes)
        elif news.item is not None:
            self.counters.duplicates += 1

    def _require_not_deleted(self, event: WatchEvent) -> None:
        """An unreadable deletion of we know not what: only a list can tell which object it was."""
        if event.kind is EventKind.DELETED:
            self._position = ""
            raise UnavailableError("a deletion could not be read", resource=str(self.resource))

    def _read(self, body: bytes) -> News[T] | None:
        """What arrived, or None if it cannot even be told which object it is about."""
        try:
            item = self.decode(body)
        except ValueError as error:
            identity = self.locate(body)
            self.counters.decode_failures += 1
            self._has_noise |= identity is None
            self.report(Undecodable(self.resource, identity.key if identity else None, error))
            return None if identity is None else News(identity, None)
        return News(self.identify(item), item)

    def _advance(self, resource_version: str) -> None:
        if resource_version and not is_older(resource_version, self._position):
            self._position = resource_version

    async def _replace(self, draft: Draft[T], resource_version: str) -> None:
        changes = self._cache.replace(draft)
        self._position = resource_version
        self._listed_at = self._fresh_at
        self._initial_failures = 0
        self._synced = Synced(resource_version)
        self._settled.set()
        await self._tell(chain(changes, [self._synced]))

    async def _tell(self, changes: Iterable[Change[T]]) -> None:
        # Whoever joins from here on begins with the new state, and must not hear of it twice.
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
