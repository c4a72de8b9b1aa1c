"""Kubelet's answer of List as JSON, as grpcurl and others print it.

Names may be spelled `podResources` or `pod_resources`, and numbers of 64 bits may be texts.
"""

import json
from collections.abc import Iterable
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Entry, ReportedContainer, ReportedPod
from bursar.wire.pod_resources import v1_pb2 as v1
from bursar.wire.structs.fields import printable

BYTES_MAX: Final = 64 * 2**20
PROBLEM_LENGTH_MAX: Final = 256

_NAMES: Final = {"podResources", "pod_resources"}


def decode_pods_json(text: bytes) -> tuple[ReportedPod, ...]:
    """Read a dump. Raises `ValueError` with one line that is safe to print."""
    if len(text) > BYTES_MAX:
        raise ValueError(f"longer than {BYTES_MAX} bytes")
    answer = v1.ListPodResourcesResponse()
    try:
        document: object = json.loads(text.decode())
        if not isinstance(document, dict) or (document and not _NAMES & document.keys()):
            raise ValueError("an object with podResources is expected")  # noqa: TRY301 - told like any other mistake in it
        json_format.ParseDict(document, answer, ignore_unknown_fields=True)
    except (ValueError, json_format.ParseError, RecursionError) as error:
        reason = printable(str(error), PROBLEM_LENGTH_MAX)
        raise ValueError(f"not kubelet's answer about pods as JSON: {reason}") from None
    return _reported(answer)


def decode_pods(body: bytes) -> tuple[ReportedPod, ...]:
    """The same from what goes over the socket. Raises `ValueError`."""
    try:
        return _reported(v1.ListPodResourcesResponse.FromString(body))
    except DecodeError:
        raise ValueError("not an answer about the resources of pods") from None


def encode_pods_json(body: bytes) -> str:
    """An answer from the socket as text, whole but for fields nobody knows. Raises `ValueError`."""
    try:
        answer = v1.ListPodResourcesResponse.FromString(body)
    except DecodeError:
        raise ValueError("not an answer about the resources of pods") from None
    return json_format.MessageToJson(answer)


def _reported(answer: v1.ListPodResourcesResponse) -> tuple[ReportedPod, ...]:
    return tuple(
        ReportedPod(
            namespace=pod.namespace,
            name=pod.name,
            containers=tuple(
                ReportedContainer(name=each.name, entries=tuple(_entries(each.devices)))
                for each in pod.containers
            ),
        )
        for pod in answer.pod_resources
    )


def _entries(lines: Iterable[v1.ContainerDevices]) -> Iterable[Entry]:
    for line in lines:
        nodes = line.topology.nodes
        yield Entry(
            resource=line.resource_name,
            devices=tuple(line.device_ids),
            numa=nodes[0].ID if nodes else None,
        )
