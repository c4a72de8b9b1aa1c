"""Informers for the kinds of object that more than one part of Bursar watches.

Each function returns an informer that does nothing until it is run.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from bursar.app.cluster.informer.changes import Deleted, Synced, Upserted
from bursar.app.cluster.informer.informer import Informer, InformerCounters
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
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
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import DeriveFacts, PodRow
from bursar.wire.cluster.object_identity import find_identity
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.structs.body import decode_body

T = TypeVar("T")


class Cluster(Reader, Watcher, Protocol):
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
) -> None:
    """Call back for everything that an informer holds and for every change, until cancelled.

    `on_synced` is called once, when everything that existed has been passed to `on_change`.
    """
    is_synced = False
    async for change in informer.changes():
        match change:
            case Upserted():
                on_change(change.new)
            case Deleted():
                on_delete(change.last)
            case Synced() if not is_synced:
                is_synced = True
                on_synced()


def locate(body: bytes) -> Identity | None:
    """Read only which object a body is about; None if the body does not say."""
    found = find_identity(body)
    if found is None:
        return None
    return Identity(Key(found.namespace, found.name), found.uid, found.resource_version)


def sighted(decode: Callable[[bytes], T]) -> Callable[[bytes], Sighting[T]]:
    """Wrap a decoder so that it also returns the identity of the object."""

    def decode_sighted(body: bytes) -> Sighting[T]:
        identity = locate(body)
        if identity is None:
            raise ValueError("the object has no name")
        return Sighting(identity, decode(body))

    return decode_sighted


def observe(
    cluster: Cluster,
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


def observe_namespaces(
    cluster: Cluster, clock: Clock, random: Random
) -> Informer[Sighting[NamespaceObject]]:
    return observe(cluster, clock, random, NAMESPACES, decode_namespace)


def observe_pod_rows(
    cluster: Cluster, clock: Clock, random: Random, derive_facts: DeriveFacts | None = None
) -> Informer[PodRow]:
    """Watch all pods, each kept in a few hundred bytes, and what a counter derives from it."""
    return Informer(
        cluster,
        cluster,
        clock=clock,
        random=random,
        resource=PODS,
        decode=PodRowDecoder(derive_facts).decode,
        identify=identify_pod,
        locate=locate,
    )


def identify_pod(row: PodRow) -> Identity:
    stamp = row.stamp
    return Identity(Key(row.namespace, row.name), stamp.uid, stamp.resource_version)


def observe_pods(cluster: Cluster, clock: Clock, random: Random) -> Informer[Sighting[Pod]]:
    """Watch all pods with every field of the model, for views that show more than a row holds."""

    def decode(body: bytes) -> Pod:
        return wire_pod.to_core(decode_body(body, wire_pod.Pod))

    return observe(cluster, clock, random, PODS, decode)


def observe_nodes(cluster: Cluster, clock: Clock, random: Random) -> Informer[Sighting[Node]]:
    def decode(body: bytes) -> Node:
        return wire_node.to_core(decode_body(body, wire_node.Node))

    return observe(cluster, clock, random, NODES, decode)
