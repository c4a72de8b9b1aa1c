"""Informers of objects of any kind, on whichever cluster."""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from bursar.adapters.identity import locate
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.ports import EVERYTHING, Clock, Query, Reader, Resource, Watcher

T = TypeVar("T")


class Cluster(Reader, Watcher, Protocol):
    """A cluster that can be looked at."""


def observe(
    cluster: Cluster,
    clock: Clock,
    random: Random,
    resource: Resource,
    decode: Callable[[bytes], T],
    *,
    query: Query = EVERYTHING,
) -> Informer[Sighting[T]]:
    """All objects of a kind, each with the state it is in."""

    def sighted(body: bytes) -> Sighting[T]:
        identity = locate(body)
        if identity is None:
            raise ValueError("an object without a name")
        return Sighting(identity, decode(body))

    return Informer(
        cluster,
        cluster,
        clock=clock,
        random=random,
        resource=resource,
        query=query,
        decode=sighted,
        identify=_identity,
        locate=locate,
    )


def _identity(sighting: Sighting[T]) -> Identity:
    return sighting.identity
