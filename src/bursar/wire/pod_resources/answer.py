"""Kubelet's answers, opened just as far as it takes to add devices to them.

Nothing of kubelet's is written anew, field by field: lines of devices stay the bytes they
were, and fields of a newer kubelet stay where they are. An answer to which nothing was
added is the very bytes that came in.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Additions, Entry, ReportedPod
from bursar.wire.pod_resources import outline_pb2 as outline
from bursar.wire.pod_resources import v1_pb2 as v1
from bursar.wire.pod_resources.lines import decode_line, encode_line
from bursar.wire.pod_resources.pods import (
    POD_BYTES_MAX,
    Pods,
    SeenPod,
    ToldPod,
    has_devices,
    open_pod,
)


class PodsMessage:
    """An answer of List, or of Get: that is the same message with one pod in it."""

    def __init__(self, body: bytes, pods: Pods) -> None:
        """Raise `ValueError` for bytes that are no such answer."""
        try:
            self._message = outline.Pods.FromString(body)
        except DecodeError:
            raise ValueError("not an answer about the resources of pods") from None
        self._body = body
        self._pods = pods
        self._bodies = list(self._message.pods)
        self._open: dict[int, outline.Pod] = {}
        self._seen = [self._see(index) for index in range(len(self._bodies))]
        self._enlarged: dict[int, bytes] = {}
        self._keeps_all = True

    def names(self) -> list[tuple[str, str]]:
        """Namespace and name of each pod; the place here is the index taken below."""
        return [seen.name for seen in self._seen]

    def reported(self, index: int) -> ReportedPod:
        """What kubelet says of a pod. Raises `ValueError` for lines that cannot be read."""
        return self._told(index).reported

    def add(self, index: int, additions: Additions) -> None:
        """Add to what kubelet says of a pod, instead of what was added before.

        Names of containers that kubelet did not list are passed over. Raises `ValueError` if
        lines are to be put in order and cannot be read.
        """
        seen = self._seen[index]
        if seen.additions is additions or seen.additions == additions:
            self._enlarged[index] = seen.enlarged
            return
        told, pod = self._told(index), self._opened(index)
        # It is changed by this, and no longer what kubelet said.
        del self._open[index]
        enlarged = self._enlarged[index] = self._pods.enlarge(pod, told, additions)
        if len(enlarged) <= POD_BYTES_MAX:
            seen.additions, seen.enlarged = additions, enlarged

    def keep_only_with_devices(self) -> None:
        """Leave out pods without a device, be it of a device plugin, of a claim, or added."""
        self._keeps_all = False

    def encode(self) -> bytes:
        if self._keeps_all and not self._enlarged:
            return self._body
        pods = [
            self._enlarged.get(index, body)
            for index, body in enumerate(self._bodies)
            if self._keeps_all or self._has_devices(index)
        ]
        # What is beside the pods stays, whatever it is.
        del self._message.pods[:]
        self._message.pods.extend(pods)
        return self._message.SerializeToString()

    def _see(self, index: int) -> SeenPod:
        body = self._bodies[index]
        return self._pods.find(body) or self._pods.meet(body, self._opened(index))

    def _told(self, index: int) -> ToldPod:
        seen = self._seen[index]
        if seen.told is None:
            seen.told = self._pods.told(self._opened(index))
        return seen.told

    def _opened(self, index: int) -> outline.Pod:
        pod = self._open.get(index)
        if pod is None:
            pod = self._open[index] = open_pod(self._bodies[index])
        return pod

    def _has_devices(self, index: int) -> bool:
        enlarged = self._enlarged.get(index)
        return self._seen[index].has_devices or (
            enlarged is not None and has_devices(open_pod(enlarged))
        )


class AllocatableMessage:
    """An answer of GetAllocatableResources."""

    def __init__(self, body: bytes) -> None:
        """Raise `ValueError` for bytes that are no such answer."""
        try:
            self._message = outline.Allocatable.FromString(body)
        except DecodeError:
            raise ValueError("not an answer about allocatable resources") from None
        self._body = body
        self._is_changed = False

    def entries(self) -> list[Entry]:
        """What kubelet lists. Raises `ValueError` for lines that cannot be read."""
        return [decode_line(line) for line in self._message.devices]

    def add(self, entries: Sequence[Entry]) -> None:
        self._message.devices.extend([encode_line(entry) for entry in entries])
        self._is_changed = self._is_changed or bool(entries)

    def encode(self) -> bytes:
        return self._message.SerializeToString() if self._is_changed else self._body


def decode_request(body: bytes) -> tuple[str, str]:
    """Namespace and name of the pod that a request of Get is about. Raises `ValueError`."""
    try:
        request = v1.GetPodResourcesRequest.FromString(body)
    except DecodeError:
        raise ValueError("not a request about the resources of a pod") from None
    return request.pod_namespace, request.pod_name
