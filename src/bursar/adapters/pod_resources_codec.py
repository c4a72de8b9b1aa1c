"""Kubelet's pod-resources messages behind the port that the proxy speaks."""

from collections.abc import Container, Sequence

from bursar.app.devices.ports import Planner, Version
from bursar.core.devices.allocation import PodKey
from bursar.wire.pod_resources.answer import AllocatableMessage, PodsMessage, decode_request
from bursar.wire.pod_resources.pods import Pods


class ProtobufPods:
    def __init__(self, message: PodsMessage) -> None:
        self._message = message
        self._keys = message.names()

    def keys(self) -> Sequence[PodKey]:
        return self._keys

    def add(self, wanted: Container[PodKey], planner: Planner) -> None:
        """A pod of which kubelet's lines cannot be read stays as it is, like those not wanted."""
        message = self._message
        for index, key in enumerate(self._keys):
            if key not in wanted:
                continue
            try:
                reported = message.reported(index)
            except ValueError:
                continue
            additions = planner(reported)
            if additions is not None:
                message.add(index, additions)

    def keep_only_with_devices(self) -> None:
        self._message.keep_only_with_devices()

    def encode(self) -> bytes:
        return self._message.encode()


class ProtobufCodec:
    """`Codec` for both versions. One for the whole process: it remembers what it has read."""

    def __init__(self) -> None:
        self._pods = {version: Pods(has_topology=version is Version.V1) for version in Version}

    def pods(self, version: Version, body: bytes) -> ProtobufPods:
        return ProtobufPods(PodsMessage(body, self._pods[version]))

    def pod(self, body: bytes) -> ProtobufPods:
        return ProtobufPods(PodsMessage(body, self._pods[Version.V1]))

    def asked_for(self, request: bytes) -> PodKey:
        return decode_request(request)

    def allocatable(self, body: bytes) -> AllocatableMessage:
        return AllocatableMessage(body)
