"""A cluster of one kind for tests of list and watch, with faults that a test switches on.

It keeps every change in a log, as etcd does, and serves lists and watches from the log. Its
contents are always right. What goes wrong lies between it and the client, and is set as
`Weather`: answers fail or are late; streams break, stall, repeat or lose an event; the log is
compacted. By default nothing of that happens.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import (
    EVERYTHING,
    BusyError,
    ClusterError,
    EventKind,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Page,
    Query,
    Resource,
    UnauthorizedError,
    UnavailableError,
    WatchEvent,
)

THINGS = Resource("example.com", "v1", "things", "Thing")
BOOKMARK_S = 60.0
IDLE_S = 90.0
"""After so much silence a client gives a watch up."""

FAULTS = (
    UnavailableError("no answer"),
    UnavailableError("bad gateway", code=502),
    BusyError("later", code=429, retry_after=2.0),
    UnauthorizedError("expired token", code=401),
    ForbiddenError("not yet", code=403),
    NotFoundError("no such kind", code=404),
    ClusterError("odd", code=418),
)


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a seed, not a secret


class Thing(NamedTuple):
    key: Key
    uid: str
    resource_version: str
    value: int


def decode_thing(body: bytes) -> Thing:
    raw = json.loads(body)
    identity = locate_thing(body)
    if identity is None or not isinstance(raw["value"], int):
        raise ValueError("value: a whole number is expected")
    return Thing(*identity, raw["value"])


def identify_thing(thing: Thing) -> Identity:
    return Identity(thing.key, thing.uid, thing.resource_version)


def locate_thing(body: bytes) -> Identity | None:
    try:
        meta = json.loads(body)["metadata"]
    except ValueError:
        return None
    return Identity(Key(meta["namespace"], meta["name"]), meta["uid"], meta["resourceVersion"])


@dataclass(frozen=True)
class Stored:
    key: Key
    uid: str
    revision: int
    value: int
    is_readable: bool = True

    @property
    def thing(self) -> Thing:
        return Thing(self.key, self.uid, str(self.revision), self.value)

    @property
    def body(self) -> bytes:
        meta = {
            "namespace": self.key.namespace,
            "name": self.key.name,
            "uid": self.uid,
            "resourceVersion": str(self.revision),
        }
        return json.dumps(
            {"metadata": meta, "value": self.value if self.is_readable else "?"}
        ).encode()


@dataclass(frozen=True)
class Weather:
    """Chances, each between 0 and 1, at every place where something can go wrong."""

    late: float = 0.0
    fail: float = 0.0
    expire: float = 0.0
    cut: float = 0.0
    stall: float = 0.0
    repeat: float = 0.0
    replay: float = 0.0
    lose: float = 0.0
    garble: float = 0.0


CALM = Weather()


class Backup(NamedTuple):
    """A state of the cluster, with its past."""

    revision: int
    objects: dict[Key, Stored]
    log: list[tuple[EventKind, Stored]]


@dataclass
class ScriptedCluster:
    """A `Reader` and `Watcher`. `faults` are raised by the next calls of that name, in turn."""

    random: Random = field(default_factory=lambda: seeded(0))
    weather: Weather = CALM
    refuses_initial: bool = False
    never_ends_initial: bool = False
    is_mute: bool = False
    """Watches from a given moment stay open and say nothing until their deadline."""
    deadline_s: float = 400.0
    faults: dict[str, deque[ClusterError]] = field(
        default_factory=lambda: {"list": deque(), "watch": deque(), "page": deque()}
    )
    calls: list[str] = field(default_factory=list)
    garbled: set[int] = field(default_factory=set)
    """Revisions that arrive as noise."""
    revision: int = 100
    compacted: int = 0
    objects: dict[Key, Stored] = field(default_factory=dict)
    log: list[tuple[EventKind, Stored]] = field(default_factory=list)
    _open: set["_Line"] = field(default_factory=set)
    _born: int = 0

    # ------------------------------------------------------------------ the script's side

    @property
    def truth(self) -> dict[Key, Thing]:
        return {key: stored.thing for key, stored in self.objects.items() if stored.is_readable}

    @property
    def unreadable(self) -> set[Key]:
        return {key for key, stored in self.objects.items() if not stored.is_readable}

    def write(self, name: str, value: int = 0, *, is_readable: bool = True) -> Stored:
        """Create `namespace/name` or change it."""
        key = Key(*name.split("/"))
        held = self.objects.get(key)
        self.revision += 1
        if held is None:
            self._born += 1
        uid = f"u{self._born}" if held is None else held.uid
        stored = Stored(key, uid, self.revision, value, is_readable)
        self.objects[key] = stored
        self._record(EventKind.ADDED if held is None else EventKind.MODIFIED, stored)
        return stored

    def delete(self, name: str) -> Stored:
        self.revision += 1
        last = self.objects.pop(Key(*name.split("/")))
        gone = replace(last, revision=self.revision)
        self._record(EventKind.DELETED, gone)
        return gone

    def compact(self) -> None:
        """Forget the past: nothing before now can be watched or paged any more."""
        self.compacted = self.revision

    def backup(self) -> "Backup":
        return Backup(self.revision, dict(self.objects), list(self.log))

    def restore(self, backup: "Backup") -> None:
        """Be as then, and know nothing of what happened since."""
        self.revision, self.objects, self.log = backup

    def cut(self, error: ClusterError | None = None) -> None:
        """End all watches, plainly or with an error."""
        for line in self._open:
            line.ending = error or _PLAIN_END
            line.news.set()

    @property
    def watches(self) -> int:
        return len(self._open)

    def _record(self, kind: EventKind, stored: Stored) -> None:
        self.log.append((kind, stored))
        for line in self._open:
            line.news.set()

    # ------------------------------------------------------------------ Reader

    async def get(self, resource: Resource, key: Key) -> bytes:
        if key not in self.objects:
            raise NotFoundError("not found", code=404, resource=str(resource), key=key)
        return self.objects[key].body

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        self.calls.append("page" if page else "list")
        await self._before("page" if page else "list")
        assert query == EVERYTHING
        revision, offset = (int(part) for part in (page or f"{self.revision}:0").split(":"))
        if revision < self.compacted:
            raise ExpiredError("too old", code=410, resource=str(resource))
        items = self._as_of(revision)
        end = offset + (limit or len(items))
        return Page(
            items=[self.sent(stored) for stored in items[offset:end]],
            resource_version=str(revision),
            next_page=f"{revision}:{end}" if end < len(items) else "",
        )

    def _as_of(self, revision: int) -> "list[Stored]":  # the method `list` hides the type
        objects: dict[Key, Stored] = {}
        for kind, stored in self.log:
            if stored.revision <= revision:
                objects.pop(stored.key, None)
                if kind is not EventKind.DELETED:
                    objects[stored.key] = stored
        return [objects[key] for key in sorted(objects)]

    # ------------------------------------------------------------------ Watcher

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        assert query == EVERYTHING
        self.calls.append("initial" if send_initial else f"watch {resource_version}")
        await self._before("watch")
        if send_initial and self.refuses_initial:
            raise InvalidError("sendInitialEvents is forbidden", code=422)
        position = self.revision if send_initial else int(resource_version)
        if position < self.compacted:
            raise ExpiredError("too old", code=410, resource=str(resource))
        line = _Line(self, position)
        self._open.add(line)
        try:
            if send_initial:
                async for event in line.initial():
                    yield event
            async for event in line.follow():
                yield event
        finally:
            self._open.discard(line)

    # ------------------------------------------------------------------ weather

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def sent(self, stored: Stored) -> bytes:
        """A body as it arrives."""
        is_noise = stored.revision in self.garbled or self.chance(self.weather.garble)
        return b"{" if is_noise else stored.body

    async def _before(self, call: str) -> None:
        if self.chance(self.weather.late):
            await asyncio.sleep(self.random.choice([0.0, 0.1, 3.0]))
        if self.faults[call]:
            raise self.faults[call].popleft()
        if self.chance(self.weather.fail):
            raise _again(self.random.choice(FAULTS))
        if self.chance(self.weather.expire):
            raise ExpiredError("too old", code=410)


_PLAIN_END = ClusterError("")


@dataclass(eq=False)
class _Line:
    """One open watch."""

    cluster: ScriptedCluster
    position: int
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ending: ClusterError | None = None

    async def initial(self) -> AsyncIterator[WatchEvent]:
        cluster = self.cluster
        for stored in cluster._as_of(self.position):
            async for event in self._deliver(EventKind.ADDED, stored, can_lose=False):
                yield event
        # What happens meanwhile may come before the mark.
        if cluster.weather != CALM:
            await asyncio.sleep(cluster.random.choice([0.0, 0.01, 2.0, 6.0]))
        while cluster.random.random() < 0.8 and (pending := self._pending()):
            async for event in self._deliver(*pending[0]):
                yield event
        if not cluster.never_ends_initial:
            yield self._bookmark(ends_initial=True)

    async def follow(self) -> AsyncIterator[WatchEvent]:
        cluster = self.cluster
        deadline = asyncio.get_running_loop().time() + cluster.deadline_s
        while (now := asyncio.get_running_loop().time()) < deadline:
            if cluster.is_mute:
                await asyncio.sleep(deadline - now)
                return
            pending = self._pending()
            if pending:
                async for event in self._deliver(*pending[0]):
                    yield event
                continue
            self.news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(BOOKMARK_S):
                    await self.news.wait()
            if self._has_ended():
                return
            if not self._pending():
                yield self._bookmark()

    def _pending(self) -> list[tuple[EventKind, Stored]]:
        pending: list[tuple[EventKind, Stored]] = []
        for entry in reversed(self.cluster.log):
            if entry[1].revision <= self.position:
                break
            pending.append(entry)
        return pending[::-1]

    async def _deliver(
        self, kind: EventKind, stored: Stored, *, can_lose: bool = True
    ) -> AsyncIterator[WatchEvent]:
        cluster, weather = self.cluster, self.cluster.weather
        await self._endure()
        if self._has_ended():
            raise UnavailableError("the connection was closed")
        self.position = max(self.position, stored.revision)
        if can_lose and cluster.chance(weather.lose):
            return
        event = WatchEvent(
            kind=kind, body=cluster.sent(stored), resource_version=str(stored.revision)
        )
        yield event
        if cluster.chance(weather.repeat):
            yield event
        if cluster.chance(weather.replay):
            past = [entry for entry in cluster.log[-12:] if entry[1].revision <= self.position]
            for kind_, before in past if can_lose else []:
                yield WatchEvent(
                    kind=kind_, body=before.body, resource_version=str(before.revision)
                )

    async def _endure(self) -> None:
        cluster, weather = self.cluster, self.cluster.weather
        if cluster.chance(weather.late):
            await asyncio.sleep(cluster.random.choice([0.0, 0.01, 2.0]))
        if cluster.chance(weather.stall):
            await asyncio.sleep(IDLE_S)
            raise UnavailableError("nothing heard for too long")
        if cluster.chance(weather.cut):
            raise _again(cluster.random.choice(FAULTS))
        if cluster.chance(weather.expire):
            raise ExpiredError("compacted while watching", code=410)

    def _has_ended(self) -> bool:
        if self.ending is None or self.ending is _PLAIN_END:
            return self.ending is not None
        raise self.ending

    def _bookmark(self, *, ends_initial: bool = False) -> WatchEvent:
        if not ends_initial and not self._pending():
            self.position = max(self.position, self.cluster.revision)
        return WatchEvent(
            kind=EventKind.BOOKMARK,
            body=b"{}",
            resource_version=str(self.position),
            ends_initial=ends_initial,
        )


def _again(error: ClusterError) -> ClusterError:
    """A fresh copy, since an exception remembers where it was raised."""
    return type(error)(error.message, code=error.code, retry_after=error.retry_after)
