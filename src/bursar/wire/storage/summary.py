"""The kubelet's `/stats/summary`, as far as it is about disks.

A size is an unsigned number of 64 bits. One that is missing, negative or too large is not known.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from bursar.core.storage.pressure import Filesystem
from bursar.core.storage.summary import PodSummary, Summary
from bursar.core.storage.usage import ContainerUse
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.struct import Struct

PODS_MAX: Final = 10_000
SIZE_MAX: Final = 2**63 - 1


class _Filesystem(Struct):
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None


class _Container(Struct):
    name: str | None = None
    rootfs: _Filesystem | None = None
    logs: _Filesystem | None = None


class _Volume(Struct):
    name: str | None = None
    used_bytes: int | None = None


class _Reference(Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class _Pod(Struct):
    pod_ref: _Reference | None = None
    containers: list[_Container] | None = None
    volume: list[_Volume] | None = None
    ephemeral_storage: _Filesystem | None = msgspec.field(name="ephemeral-storage", default=None)


class _Runtime(Struct):
    image_fs: _Filesystem | None = None


class _Node(Struct):
    node_name: str | None = None
    fs: _Filesystem | None = None
    runtime: _Runtime | None = None


class _Summary(Struct):
    node: _Node | None = None
    pods: list[_Pod] | None = None


def decode_summary(body: bytes) -> Summary:
    """Decode the answer of `/stats/summary`. Raises `ValueError`."""
    raw = decode_body(body, _Summary)
    pods = raw.pods or []
    if raw.node is None or len(pods) > PODS_MAX:
        raise ValueError("not a summary of a node")
    runtime = raw.node.runtime
    return Summary(
        node=raw.node.node_name or "",
        pods={pod.uid: pod for pod in map(_pod, pods) if pod.uid},
        nodefs=_filesystem(raw.node.fs),
        imagefs=None if runtime is None else _filesystem(runtime.image_fs),
    )


def _pod(raw: _Pod) -> PodSummary:
    ref = raw.pod_ref or _Reference()
    return PodSummary(
        namespace=ref.namespace or "",
        name=ref.name or "",
        uid=ref.uid or "",
        containers={
            each.name or "": ContainerUse(writable=_used(each.rootfs), logs=_used(each.logs))
            for each in raw.containers or ()
        },
        volumes=dict(_volumes(raw.volume or ())),
        ephemeral=_used(raw.ephemeral_storage),
    )


def _volumes(raw: Iterable[_Volume]) -> Iterable[tuple[str, int]]:
    for each in raw:
        size = _size(each.used_bytes)
        if each.name and size is not None:
            yield each.name, size


def _filesystem(raw: _Filesystem | None) -> Filesystem | None:
    if raw is None:
        return None
    capacity, available = _size(raw.capacity_bytes), _size(raw.available_bytes)
    if capacity is None or available is None:
        return None
    return Filesystem(
        capacity=capacity,
        available=available,
        inodes=_size(raw.inodes) or 0,
        inodes_free=_size(raw.inodes_free) or 0,
    )


def _used(raw: _Filesystem | None) -> int | None:
    return None if raw is None else _size(raw.used_bytes)


def _size(number: int | None) -> int | None:
    return None if number is None or not 0 <= number <= SIZE_MAX else number
