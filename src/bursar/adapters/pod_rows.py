"""Pods as rows: what an informer of them has to know, on whichever cluster."""

from collections.abc import Callable
from random import Random

from bursar.adapters.identity import locate
from bursar.adapters.observed import Cluster
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Clock, Key
from bursar.core.model.pod_row import PodRow
from bursar.wire.model.pod_row import PodRowDecoder


def identify_pod(row: PodRow) -> Identity:
    stamp = row.stamp
    return Identity(Key(row.namespace, row.name), stamp.uid, stamp.resource_version)


def pod_row_decode() -> Callable[[bytes], PodRow]:
    """Bodies to rows; pods that are alike share what they have in common."""
    return PodRowDecoder().decode


def pod_rows(cluster: Cluster, clock: Clock, random: Random) -> Informer[PodRow]:
    """All pods of a cluster, as rows."""
    return Informer(
        cluster,
        cluster,
        clock=clock,
        random=random,
        resource=PODS,
        decode=pod_row_decode(),
        identify=identify_pod,
        locate=locate,
    )
