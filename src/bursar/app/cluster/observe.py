"""Watch all objects of a kind: how an informer is made, and how its changes are followed.

The informers of pods, nodes and namespaces are in `observe_kinds`: a process that watches
neither, as the agent, does not load their models.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from bursar.app.cluster.informer.changes import Deleted, Relisted, Synced, Upserted
from bursar.app.cluster.informer.informer import TURN_SECONDS, Informer, InformerCounters
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    ClusterError,
    Key,
    Query,
    Reader,
    Resource,
    Watcher,
)
from bursar.app.cluster.sighting import locate, sighted

T = TypeVar("T")


class Watched(Reader, Watcher, Protocol):
    """A cluster that can be listed and watched."""


class RunningInformer(Protocol):
    """An informer of any kind of object."""

    resource: Resource
    counters: InformerCounters
    last_error: ClusterError | None

    @property
    def is_synced(self) -> bool: ...

    @property
    def staleness_seconds(self) -> float: ...

    def __len__(self) -> int: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...


async def follow(
    informer: Informer[T],
    on_change: Callable[[T], None],
    on_delete: Callable[[T], None],
    on_synced: Callable[[], None] = lambda: None,
    on_relisted: Callable[[], None] = lambda: None,
) -> None:
    """Call back for everything that an informer holds and for every change, until cancelled.

    `on_synced` is called when everything that existed has been passed on: first after the start,
    then after each `on_relisted`, between which the caller has a mixture of two states. However
    many changes are at hand, other tasks run in between.
    """
    clock = informer.clock
    turn_began = clock.monotonic()
    async for change in informer.changes():
        match change:
            case Upserted():
                on_change(change.new)
            case Deleted():
                on_delete(change.last)
            case Relisted():
                on_relisted()
            case Synced():
                on_synced()
        if clock.monotonic() - turn_began >= TURN_SECONDS:
            # Changes that are ready are passed on without waiting, and each can take long.
            await asyncio.sleep(0)
            turn_began = clock.monotonic()


def observe(
    cluster: Watched,
    clock: Clock,
    random: Random,
    resource: Resource,
    decode: Callable[[bytes], T],
    *,
    query: Query = EVERYTHING,
) -> Informer[Sighting[T]]:
    """Watch all objects of a kind. `decode` raises `ValueError` for a body it cannot read."""
    return Informer(
        cluster,
        cluster,
        clock=clock,
        random=random,
        resource=resource,
        query=query,
        decode=sighted(decode),
        identify=lambda sighting: sighting.identity,
        locate=locate,
    )


def observe_one(
    cluster: Watched,
    clock: Clock,
    random: Random,
    resource: Resource,
    decode: Callable[[bytes], T],
    key: Key,
) -> Informer[Sighting[T]]:
    """Watch one object."""
    return observe(cluster, clock, random, resource, decode, query=Query.of(key))
