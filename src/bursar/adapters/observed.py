"""Informers of whole objects, for views and decisions that need more of them than a row."""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

import msgspec

from bursar.adapters.identity import locate
from bursar.app.informer import Informer
from bursar.app.informer_store import Identity, Sighting
from bursar.app.kinds import NODES, PODS
from bursar.app.ports import EVERYTHING, Clock, Query, Reader, Resource, Watcher
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire import node as wire_node
from bursar.wire import pod as wire_pod

T = TypeVar("T")


class Cluster(Reader, Watcher, Protocol):
    """A cluster that can be looked at."""


def observe_pods(cluster: Cluster, clock: Clock, random: Random) -> Informer[Sighting[Pod]]:
    """All pods of a cluster. The informer does nothing until it is run."""
    decoder = msgspec.json.Decoder(wire_pod.Pod)
    return observe(
        cluster, clock, random, PODS, lambda body: wire_pod.to_core(decoder.decode(body))
    )


def observe_nodes(cluster: Cluster, clock: Clock, random: Random) -> Informer[Sighting[Node]]:
    """All nodes of a cluster."""
    decoder = msgspec.json.Decoder(wire_node.Node)
    return observe(
        cluster, clock, random, NODES, lambda body: wire_node.to_core(decoder.decode(body))
    )


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
