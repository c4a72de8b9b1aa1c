"""Informers of whole pods and nodes, for views that show more than accounting needs."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, Protocol, TypeVar

import msgspec

from bursar.adapters.identity import locate
from bursar.app.informer import Informer
from bursar.app.informer_store import Identity
from bursar.app.ports import Clock, Reader, Resource, Watcher
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire import node as wire_node
from bursar.wire import pod as wire_pod

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)

T = TypeVar("T", Pod, Node)


class Cluster(Reader, Watcher, Protocol):
    """A cluster that can be looked at."""


@dataclass(frozen=True, slots=True)
class Observed(Generic[T]):
    """An object, and which state of it this is."""

    identity: Identity
    item: T


def observe_pods(cluster: Cluster, clock: Clock, random: Random) -> Informer[Observed[Pod]]:
    """All pods of a cluster. The informer does nothing until it is run."""
    decoder = msgspec.json.Decoder(wire_pod.Pod)
    return _informer(
        cluster, clock, random, PODS, lambda body: wire_pod.to_core(decoder.decode(body))
    )


def observe_nodes(cluster: Cluster, clock: Clock, random: Random) -> Informer[Observed[Node]]:
    """All nodes of a cluster."""
    decoder = msgspec.json.Decoder(wire_node.Node)
    return _informer(
        cluster, clock, random, NODES, lambda body: wire_node.to_core(decoder.decode(body))
    )


def _informer(
    cluster: Cluster,
    clock: Clock,
    random: Random,
    resource: Resource,
    decode: Callable[[bytes], T],
) -> Informer[Observed[T]]:
    def observed(body: bytes) -> Observed[T]:
        identity = locate(body)
        if identity is None:
            raise ValueError("an object without a name")
        return Observed(identity, decode(body))

    return Informer(
        cluster,
        cluster,
        clock=clock,
        random=random,
        resource=resource,
        decode=observed,
        identify=_identity,
        locate=locate,
    )


def _identity(observed: Observed[T]) -> Identity:
    return observed.identity
