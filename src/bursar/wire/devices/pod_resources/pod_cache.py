"""One pod of kubelet's response: what kubelet reports, and the same pod with devices added.

Kubelet is called again and again, and most pods are in its response as before: byte for byte, or
with their lines in another order, because kubelet does not sort them. The result of decoding such
bytes, and such lines, is cached.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Additions, PodKey, ReportedContainer, ReportedPod
from bursar.core.sharing import Generations
from bursar.wire.devices.pod_resources import outline_pb2 as outline
from bursar.wire.devices.pod_resources.lines import decode_line, encode_line

LINES_MAX: Final = 512
"""Pods whose lines are cached, at least; twice that at most. A node may have 250 pods."""

BODIES_MAX: Final = 256
"""Pods whose bytes are cached, at least; twice that at most. A pod whose lines change places
takes one entry for each order."""

POD_BYTES_MAX: Final = 8192
"""Longer pods are decoded each time, so that the cache has a bound."""


_Lines: TypeAlias = tuple[str, str, tuple[tuple[str, frozenset[bytes]], ...]]
"""Namespace, name, and the lines of each container, in any order."""


@dataclass(slots=True)
class CachedLines:
    """The decoded lines of a pod."""

    reported: ReportedPod
    additions: Additions | None = None
    """The additions that `added` was encoded from."""
    added: dict[str, list[bytes]] = field(default_factory=dict)
    """The encoded lines of `additions`, by container."""


@dataclass(slots=True)
class CachedPod:
    """What is known of a pod's bytes. Lines are decoded on demand."""

    key: PodKey
    has_devices: bool
    lines: CachedLines | None = None
    additions: Additions | None = None
    """The additions that `enlarged` was encoded with."""
    enlarged: bytes = b""
    """The pod's bytes with `additions`."""


class PodCache:
    """Decodes and enlarges pods of one version of the API."""

    def __init__(self, *, has_topology: bool) -> None:
        self._has_topology = has_topology
        self._bodies: Generations[bytes, CachedPod] = Generations(BODIES_MAX)
        self._lines: Generations[_Lines, CachedLines] = Generations(LINES_MAX)

    def find(self, body: bytes) -> CachedPod | None:
        return self._bodies.find(body)

    def add(self, body: bytes, pod: outline.Pod) -> CachedPod:
        """Cache a pod that was decoded for the first time."""
        cached = CachedPod(key=(pod.namespace, pod.name), has_devices=has_devices(pod))
        if len(body) <= POD_BYTES_MAX:
            self._bodies.keep(body, cached)
        return cached

    def lines(self, pod: outline.Pod) -> CachedLines:
        """The pod's lines. Raises `ValueError` for lines that cannot be decoded."""
        by_container = tuple([(each.name, frozenset(each.devices)) for each in pod.containers])
        key: _Lines = pod.namespace, pod.name, by_container
        cached = self._lines.find(key)
        if cached is None:
            cached = CachedLines(_reported(pod))
            if sum(len(line) for _, lines in by_container for line in lines) <= POD_BYTES_MAX:
                self._lines.keep(key, cached)
        return cached

    def enlarge(self, pod: outline.Pod, cached: CachedLines, additions: Additions) -> bytes:
        """Add lines to `pod` itself, and encode it.

        Additions to containers that the pod does not have are ignored. Raises `ValueError` if the
        lines must be sorted and cannot be decoded.
        """
        if cached.additions is not additions:
            cached.added = {
                name: [encode_line(entry, has_topology=self._has_topology) for entry in entries]
                for name, entries in additions.entries.items()
            }
            cached.additions = additions
        for container in pod.containers:
            added = cached.added.get(container.name)
            if added is None:
                continue
            container.devices.extend(added)
            if additions.sorts:
                ordered = sorted(container.devices, key=_resource)
                del container.devices[:]
                container.devices.extend(ordered)
        return pod.SerializeToString()


def _reported(pod: outline.Pod) -> ReportedPod:
    containers = [
        ReportedContainer(name=each.name, entries=tuple(map(decode_line, each.devices)))
        for each in pod.containers
    ]
    return ReportedPod(namespace=pod.namespace, name=pod.name, containers=tuple(containers))


def _resource(line: bytes) -> bytes:
    # Go compares strings by their bytes.
    return decode_line(line).resource.encode()


def open_pod(body: bytes) -> outline.Pod:
    """Decode the outline of a pod. Raises `ValueError`."""
    try:
        return outline.Pod.FromString(body)
    except DecodeError:
        raise ValueError("not the resources of a pod") from None


def has_devices(pod: outline.Pod) -> bool:
    """Whether the pod has devices of a device plugin or of a ResourceClaim."""
    return any(each.devices or each.dynamic_resources for each in pod.containers)
