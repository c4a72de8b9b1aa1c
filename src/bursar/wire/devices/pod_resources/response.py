"""Kubelet's responses, decoded only as far as needed to add devices to them.

Kubelet's fields are never re-encoded: lines of devices keep their bytes, and fields of a newer
kubelet are kept. A response to which nothing is added is returned as the bytes that came in.
"""

from collections.abc import Callable, Container, Sequence

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Additions, Entry, PodKey, ReportedPod
from bursar.wire.devices.pod_resources import outline_pb2 as outline
from bursar.wire.devices.pod_resources.lines import decode_line, encode_line
from bursar.wire.devices.pod_resources.pod_cache import (
    POD_BYTES_MAX,
    CachedLines,
    CachedPod,
    PodCache,
    has_devices,
    open_pod,
)


class PodsResponse:
    """A response to List or to Get. Get's has the same form, with one pod."""

    def __init__(self, body: bytes, cache: PodCache) -> None:
        """Decode the outline of `body`. Raises `ValueError`."""
        try:
            self._message = outline.Pods.FromString(body)
        except DecodeError:
            raise ValueError("not an answer about the resources of pods") from None
        self._body = body
        self._cache = cache
        self._bodies = list(self._message.pods)
        self._open: dict[int, outline.Pod] = {}
        self._pods = [self._cached(index) for index in range(len(self._bodies))]
        self._enlarged: dict[int, bytes] = {}
        self._keeps_all = True
        self.keys: Sequence[PodKey] = [pod.key for pod in self._pods]
        """The pod at each index."""

    def add(
        self, wanted: Container[PodKey], plan: Callable[[ReportedPod], Additions | None]
    ) -> int:
        """Add to each pod in `wanted` what `plan` returns for it; None leaves the pod unchanged.

        Returns the number of added devices. The other pods are not decoded. A pod whose lines
        cannot be decoded is left unchanged.
        """
        count = 0
        for index, key in enumerate(self.keys):
            if key not in wanted:
                continue
            try:
                reported = self.reported(index)
            except ValueError:
                continue
            additions = plan(reported)
            if additions is not None:
                self.enlarge(index, additions)
                count += additions.device_count
        return count

    def reported(self, index: int) -> ReportedPod:
        """What kubelet reports of a pod. Raises `ValueError` for lines that cannot be decoded."""
        return self._lines(index).reported

    def enlarge(self, index: int, additions: Additions) -> None:
        """Add to a pod; replaces earlier additions.

        Additions to containers that kubelet did not list are ignored. Raises `ValueError` if the
        lines must be sorted and cannot be decoded.
        """
        cached = self._pods[index]
        if cached.additions is additions or cached.additions == additions:
            self._enlarged[index] = cached.enlarged
            return
        lines, pod = self._lines(index), self._opened(index)
        # `enlarge` changes the message, so it is no longer what kubelet sent.
        del self._open[index]
        enlarged = self._enlarged[index] = self._cache.enlarge(pod, lines, additions)
        if len(enlarged) <= POD_BYTES_MAX:
            cached.additions, cached.enlarged = additions, enlarged

    def keep_only_with_devices(self) -> None:
        """Leave out pods that have no devices: of device plugins, of ResourceClaims, or added."""
        self._keeps_all = False

    def encode(self) -> bytes:
        if self._keeps_all and not self._enlarged:
            return self._body
        pods = [
            self._enlarged.get(index, body)
            for index, body in enumerate(self._bodies)
            if self._keeps_all or self._has_devices(index)
        ]
        # All other fields of the message are kept, known or not.
        del self._message.pods[:]
        self._message.pods.extend(pods)
        return self._message.SerializeToString()

    def _cached(self, index: int) -> CachedPod:
        body = self._bodies[index]
        return self._cache.find(body) or self._cache.add(body, self._opened(index))

    def _lines(self, index: int) -> CachedLines:
        cached = self._pods[index]
        if cached.lines is None:
            cached.lines = self._cache.lines(self._opened(index))
        return cached.lines

    def _opened(self, index: int) -> outline.Pod:
        pod = self._open.get(index)
        if pod is None:
            pod = self._open[index] = open_pod(self._bodies[index])
        return pod

    def _has_devices(self, index: int) -> bool:
        enlarged = self._enlarged.get(index)
        return self._pods[index].has_devices or (
            enlarged is not None and has_devices(open_pod(enlarged))
        )


class AllocatableResponse:
    """A response to GetAllocatableResources."""

    def __init__(self, body: bytes) -> None:
        """Decode the outline of `body`. Raises `ValueError`."""
        try:
            self._message = outline.Allocatable.FromString(body)
        except DecodeError:
            raise ValueError("not an answer about allocatable resources") from None
        self._body = body
        self._is_changed = False

    def entries(self) -> list[Entry]:
        """The devices that kubelet lists. Raises `ValueError` for lines that cannot be decoded."""
        return [decode_line(line) for line in self._message.devices]

    def add(self, entries: Sequence[Entry]) -> None:
        self._message.devices.extend([encode_line(entry) for entry in entries])
        self._is_changed = self._is_changed or bool(entries)

    def encode(self) -> bytes:
        return self._message.SerializeToString() if self._is_changed else self._body
