"""Informers of whole pods and nodes, for views that show more of them than a row."""

from random import Random

import msgspec

from bursar.adapters.observed import Cluster, observe
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.ports import Clock
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod


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
