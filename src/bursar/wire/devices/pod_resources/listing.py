"""Kubelet's List response decoded completely, from the socket or from a JSON file.

The JSON is that of `bursar devices -o pod-resources` and of grpcurl. Names may be spelled
`podResources` or `pod_resources`, and 64-bit numbers may be strings.
"""

import json
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import ReportedContainer, ReportedPod
from bursar.core.devices.rows import ClaimDevice, Listing
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from bursar.wire.devices.pod_resources.lines import entry_of
from bursar.wire.structs.fields import printable

BYTES_MAX: Final = 64 * 2**20
PROBLEM_LENGTH_MAX: Final = 256

_NAMES: Final = {"podResources", "pod_resources"}


def decode_listing(body: bytes) -> Listing:
    """Decode the protobuf message. Raises `ValueError`."""
    return _listing(_response(body))


def decode_listing_json(text: bytes) -> Listing:
    """Decode the JSON form. Raises `ValueError` with one line that is safe to print."""
    if len(text) > BYTES_MAX:
        raise ValueError(f"longer than {BYTES_MAX} bytes")
    response = v1.ListPodResourcesResponse()
    try:
        document: object = json.loads(text.decode())
        if not isinstance(document, dict) or (document and not _NAMES & document.keys()):
            raise ValueError("an object with podResources is expected")  # noqa: TRY301 - reported like any other mistake
        json_format.ParseDict(document, response, ignore_unknown_fields=True)
    except (ValueError, json_format.ParseError, RecursionError) as error:
        reason = printable(str(error), PROBLEM_LENGTH_MAX)
        raise ValueError(f"not kubelet's answer about pods as JSON: {reason}") from None
    return _listing(response)


def listing_as_json(body: bytes) -> str:
    """The protobuf message as JSON, without unknown fields. Raises `ValueError`."""
    return json_format.MessageToJson(_response(body))


def _response(body: bytes) -> v1.ListPodResourcesResponse:
    try:
        return v1.ListPodResourcesResponse.FromString(body)
    except DecodeError:
        raise ValueError("not an answer about the resources of pods") from None


def _listing(response: v1.ListPodResourcesResponse) -> Listing:
    pods = tuple(
        ReportedPod(
            namespace=pod.namespace,
            name=pod.name,
            containers=tuple(
                ReportedContainer(name=each.name, entries=tuple(map(entry_of, each.devices)))
                for each in pod.containers
            ),
        )
        for pod in response.pod_resources
    )
    claimed = tuple(
        ClaimDevice(
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name,
            driver=device.driver_name,
            pool=device.pool_name,
            device=device.device_name,
        )
        for pod in response.pod_resources
        for container in pod.containers
        for claim in container.dynamic_resources
        for device in claim.claim_resources
    )
    return Listing(pods, claimed)
