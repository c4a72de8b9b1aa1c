"""Decoding of NodeMetrics and PodMetrics of metrics.k8s.io: what nodes and pods really use."""

from dataclasses import dataclass

from bursar.core.model.resources import ResourceList, add
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawResourceList, decode_resources
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.struct import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUsage:
    """What a node or a pod used in the last window of the metrics server."""

    namespace: str
    """Empty for a node."""
    name: str
    amounts: ResourceList


class _Container(Struct):
    usage: RawResourceList | None = None


class _Metrics(Struct):
    metadata: ObjectMeta | None = None
    usage: RawResourceList | None = None
    containers: list[_Container] | None = None


def decode_usage(body: bytes) -> MeasuredUsage:
    """Decode the usage of a node, or the sum over the containers of a pod. Raises `ValueError`."""
    metrics = decode_body(body, _Metrics)
    meta = metrics.metadata or ObjectMeta()
    amounts = decode_resources(metrics.usage, "usage")
    for index, container in enumerate(metrics.containers or ()):
        amounts = add(amounts, decode_resources(container.usage, f"containers[{index}].usage"))
    return MeasuredUsage(namespace=meta.namespace or "", name=required_name(meta), amounts=amounts)
