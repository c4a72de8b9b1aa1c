"""What kubelet's answer of List says that ResourceClaims gave to containers."""

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from bursar.core.devices.register import DynamicDevice
from bursar.wire.pod_resources import v1_pb2 as v1


def decode_claimed(body: bytes) -> tuple[DynamicDevice, ...]:
    """From what goes over the socket. Raises `ValueError`."""
    try:
        return _claimed(v1.ListPodResourcesResponse.FromString(body))
    except DecodeError:
        raise ValueError("not an answer about the resources of pods") from None


def decode_claimed_json(text: bytes) -> tuple[DynamicDevice, ...]:
    """From a dump. Raises `ValueError`."""
    answer = v1.ListPodResourcesResponse()
    try:
        json_format.Parse(text.decode(), answer, ignore_unknown_fields=True)
    except (json_format.ParseError, RecursionError):
        raise ValueError("not kubelet's answer about pods as JSON") from None
    return _claimed(answer)


def _claimed(answer: v1.ListPodResourcesResponse) -> tuple[DynamicDevice, ...]:
    return tuple(
        DynamicDevice(
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name,
            driver=device.driver_name,
            pool=device.pool_name,
            device=device.device_name,
        )
        for pod in answer.pod_resources
        for container in pod.containers
        for claim in container.dynamic_resources
        for device in claim.claim_resources
    )
