"""A counter together with what keeps it informed.

A counter may depend on kinds of object that are not installed, or not yet: those of KubeVirt, for
example. Its answers follow as the kind comes and goes. While it is not known whether there are such
objects, `KindState.SYNCING`, the counter holds the pods concerned.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from bursar.app.cluster.informer.changes import Deleted, Synced, Upserted
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.listing import name_of
from bursar.app.cluster.observe import Cluster, observe
from bursar.app.cluster.ports import Clock, ClusterError, NotFoundError, Resource
from bursar.app.cluster.time_limit import end
from bursar.app.counting.provenance import Explain
from bursar.app.log import Log
from bursar.core.counting.counter import PodCounter
from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.counting import Counter, NativeCounter, RecountPods
from bursar.core.quota.ledger import PodKey

LOG: Final = Log("counting")
PROBE_SECONDS: Final = 10.0
"""How often it is checked whether a kind was installed or removed."""

LeftOut: TypeAlias = Callable[[], Mapping[str, str]]
"""By namespace: why pods of it are counted without an answer that their counter needs."""

T = TypeVar("T")


class CounterFeed(Protocol):
    """Tells a counter what it needs to know, such as which VMs there are."""

    async def run(self, recount: RecountPods) -> None:
        """Work until cancelled, and call `recount` for pods whose answer may have changed."""


class ObjectFeed(CounterFeed, Protocol):
    """A feed that begins with objects that exist already."""

    async def wait_known(self) -> None:
        """Return when the counter has been told of them, or that there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKind(Generic[T]):
    """A kind of object that a counter must know, and how the counter is told.

    The callbacks return the pods that must be counted again.
    """

    resource: Resource
    decode: Callable[[bytes], T]
    """Raises `ValueError` for a body that it cannot read."""
    see: Callable[[T], Iterable[PodRow]]
    lose: Callable[[T], Iterable[PodRow]]
    set_state: Callable[[KindState], Iterable[PodRow]]
    """The state is SYNCING first. Unless it is SYNCED, the counter forgets all objects."""
    is_named_by_pods: bool = False
    """Whether a pod tells that it depends on such an object, as the pod of a VM does.

    If files hold pods and no object of this kind, the kind stays SYNCING: the pods that depend on
    one are not counted. Without this the kind counts as absent, and pods are counted without it.
    """

    def feed(self, cluster: Cluster, clock: Clock, random: Random) -> ObjectFeed:
        return KindFeed(cluster, clock, random, self)

    def load(self, bodies: Iterable[bytes], problems: list[str] | None = None) -> None:
        """Tell the counter of all objects there are.

        A body that cannot be read is left out and a line is added to `problems`; without
        `problems`, `ValueError` is raised.
        """
        for body in bodies:
            try:
                item = self.decode(body)
            except ValueError as error:
                if problems is None:
                    raise
                problems.append(f"left out: {self.resource} {name_of(body)}: {error}")
            else:
                self.see(item)
        self.set_state(KindState.SYNCED)

    def mark_absent(self) -> None:
        """Tell the counter that the kind is not installed."""
        self.set_state(KindState.ABSENT)


class CountedKind(Protocol):
    """A `WatchedKind` of any type of object."""

    @property
    def resource(self) -> Resource: ...

    @property
    def is_named_by_pods(self) -> bool: ...

    def feed(self, cluster: Cluster, clock: Clock, random: Random) -> ObjectFeed: ...

    def load(self, bodies: Iterable[bytes], problems: list[str] | None = None) -> None: ...

    def mark_absent(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingPart:
    """One way of counting pods, and what keeps it informed."""

    counter: PodCounter
    kinds: tuple[CountedKind, ...] = ()
    feeds: tuple[CounterFeed, ...] = ()
    """What keeps the counter informed beside the objects of `kinds`."""
    left_out: LeftOut | None = None
    """Set if the counter may count pods without an answer that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """How a term counts pods. Each term has its own, because a term starts with empty books."""

    counter: Counter
    kinds: tuple[CountedKind, ...] = ()
    feeds: tuple[CounterFeed, ...] = ()
    left_out: LeftOut | None = None
    """Set if pods may be counted without an answer that their counter needs."""
    explain: Explain = field(default_factory=lambda: Counters().explain)
    """Which counter charges a pod what, and why."""

    @classmethod
    def of(cls, parts: Sequence[CountingPart]) -> "Counting":
        """Without parts, pods are counted natively."""
        if not parts:
            return cls(counter=NativeCounter())
        counters = Counters([part.counter for part in parts])
        return cls(
            counter=counters,
            explain=counters.explain,
            kinds=tuple(kind for part in parts for kind in part.kinds),
            feeds=tuple(feed for part in parts for feed in part.feeds),
            left_out=next((part.left_out for part in parts if part.left_out), None),
        )


class KindFeed(Generic[T]):
    """Keeps a counter informed of the objects of one kind."""

    def __init__(
        self, cluster: Cluster, clock: Clock, random: Random, kind: WatchedKind[T]
    ) -> None:
        self._cluster, self._clock, self._random = cluster, clock, random
        self._kind: Final = kind
        self._known = asyncio.Event()

    async def wait_known(self) -> None:
        await self._known.wait()

    async def run(self, recount: RecountPods) -> None:
        """Watch the kind whenever it is installed."""
        self._set_state(KindState.SYNCING, recount)
        while True:
            if await self._is_absent():
                self._set_state(KindState.ABSENT, recount)
                await self._clock.sleep(PROBE_SECONDS)
            else:
                await self._watch(recount)

    async def _is_absent(self) -> bool:
        """Whether the API server does not know the kind. An error leaves the question open."""
        try:
            await self._cluster.list(self._kind.resource, limit=1)
        except NotFoundError:
            return True
        except ClusterError:
            return False
        return False

    async def _watch(self, recount: RecountPods) -> None:
        """Follow the objects until the kind is removed."""
        kind = self._kind
        self._set_state(KindState.SYNCING, recount)
        informer = observe(self._cluster, self._clock, self._random, kind.resource, kind.decode)
        tasks = [
            asyncio.create_task(informer.run()),
            asyncio.create_task(self._follow(informer, recount)),
        ]
        try:
            while not any(task.done() for task in tasks):
                await self._clock.sleep(PROBE_SECONDS)
                # A watch of a kind that was removed may stay open without a word.
                if await self._is_absent():
                    return
            LOG.warning("watching a kind failed; starting over", resource=kind.resource)
        finally:
            await end(*tasks)

    async def _follow(self, informer: Informer[Sighting[T]], recount: RecountPods) -> None:
        async for change in informer.changes():
            match change:
                case Upserted():
                    recount(_keys(self._kind.see(change.new.item)))
                case Deleted():
                    recount(_keys(self._kind.lose(change.last.item)))
                case Synced():
                    self._set_state(KindState.SYNCED, recount)

    def _set_state(self, state: KindState, recount: RecountPods) -> None:
        recount(_keys(self._kind.set_state(state)))
        if state is not KindState.SYNCING:
            self._known.set()


def _keys(rows: Iterable[PodRow]) -> list[PodKey]:
    return [PodKey(row.namespace, row.name) for row in rows]
