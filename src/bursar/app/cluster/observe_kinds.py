"""Informers for the kinds of object that more than one part of Bursar watches.

Each function returns an informer that does nothing until it is run.
"""

from random import Random

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
from bursar.app.cluster.observe import Watched, observe
from bursar.app.cluster.ports import Clock, Key
from bursar.app.cluster.sighting import locate
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import DeriveFacts, PodRow
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.node import decode_node
from bursar.wire.model.pod import decode_pod
from bursar.wire.model.pod_row import PodRowDecoder


def observe_namespaces(
    cluster: Watched, clock: Clock, random: Random
) -> Informer[Sighting[NamespaceObject]]:
    return observe(cluster, clock, random, NAMESPACES, decode_namespace)


def observe_pod_rows(
    cluster: Watched, clock: Clock, random: Random, derive_facts: DeriveFacts | None = None
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


def observe_pods(cluster: Watched, clock: Clock, random: Random) -> Informer[Sighting[Pod]]:
    """Watch all pods with every field of the model, for views that show more than a row holds."""
    return observe(cluster, clock, random, PODS, decode_pod)


def observe_nodes(cluster: Watched, clock: Clock, random: Random) -> Informer[Sighting[Node]]:
    return observe(cluster, clock, random, NODES, decode_node)
