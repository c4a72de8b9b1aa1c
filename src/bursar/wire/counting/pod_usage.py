"""Messages of the sidecar protocol: requests from kept pods, and checked answers.

A repeated field of a protobuf message is its records one after the other. So the pods of a
namespace are encoded once, and every request about one of them is a short beginning and a copy of
these bytes. AAQ encodes every pod of the namespace anew for every request.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec
from google.protobuf.message import DecodeError

from bursar.core.counting.pod_body import PodBody
from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.core.model.resources import ResourceList
from bursar.wire.counting.pod_body import without_gates
from bursar.wire.counting.protocol import evaluate_pb2 as pb
from bursar.wire.structs.fields import FieldError, Scalar, decode_resources, printable

EVALUATE: Final = "/evaluate.PodUsage/PodUsageFunc"
HEALTH_CHECK: Final = "/evaluate.PodUsage/HealthCheck"
MESSAGE_BYTES_MAX: Final = 64 * 2**20
"""Maximum size of a request and of an answer."""
NAMESPACE_BYTES_MAX: Final = MESSAGE_BYTES_MAX - 4 * 2**20
"""The pods of a namespace in one request, which holds the pod in question besides."""
ENCODED_BYTES_MAX: Final = 128 * 2**20
"""Encoded pods that are kept for the next request. Of others only the compressed body is kept."""
AMOUNTS_BYTES_MAX: Final = 64 * 2**10
"""Maximum size of a resource list, which has about 40 bytes for each name."""
NAME_LENGTH_MAX: Final = 317
"""Maximum length of a resource name: a domain of 253, a slash and a name of 63 characters."""
ERROR_LENGTH_MAX: Final = 200

_POD: Final = b"\x0a"
"""Field 1 of PodUsageRequest, and of Pod: its JSON."""
_PODS_STATE: Final = b"\x12"
"""Field 2 of PodUsageRequest."""
_Amounts: TypeAlias = dict[str, Scalar]
_AMOUNTS: Final = msgspec.json.Decoder(_Amounts | None)
_LABEL: Final = str.maketrans(
    "", "", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/"
)


class BadAnswerError(ValueError):
    """An answer that cannot be used. The text says why."""


class SidecarSaysError(ValueError):
    """The sidecar reports an error of its own."""


# ------------------------------------------------------------------ requests


class _Encoded(NamedTuple):
    generation: int
    records: dict[str, tuple[PodBody, bytes]]
    joined: bytes


class PodUsageRequests:
    """Encodes requests, and keeps the encoded pods of recent namespaces."""

    def __init__(
        self,
        bytes_max: int = ENCODED_BYTES_MAX,
        namespace_bytes_max: int = NAMESPACE_BYTES_MAX,
    ) -> None:
        self._bytes_max, self._namespace_bytes_max = bytes_max, namespace_bytes_max
        self._encoded: OrderedDict[str, _Encoded] = OrderedDict()
        self._bytes = 0

    def prepare(self, namespace: str, generation: int, pods: Iterable[tuple[str, PodBody]]) -> int:
        """Encode the pods of a namespace unless that is done, and return how many bytes they are.

        `pods` are read only if the generation is not known yet. Pods of more than
        `namespace_bytes_max` are not encoded, because no request about them can be sent, and
        unpacking them could take all memory.
        """
        known = self._encoded.pop(namespace, None)
        if known is not None:
            self._bytes -= 2 * len(known.joined)
        if known is None or known.generation != generation:
            listed = list(pods)
            size = sum(body.size for _, body in listed)
            if size > self._namespace_bytes_max:
                return size
            known = _encode(generation, listed, {} if known is None else known.records)
        self._keep(namespace, known)
        return len(known.joined)

    def encode(self, pod: PodBody, namespace: str = "") -> bytes:
        """The request about a pod, with the pods of the namespace that was prepared."""
        pods = self._encoded.get(namespace)
        beginning = _record(_POD, without_gates(pod.json()))
        return beginning if pods is None else beginning + pods.joined

    def _keep(self, namespace: str, encoded: _Encoded) -> None:
        # The records and their sum.
        size = 2 * len(encoded.joined)
        if not 0 < size <= self._bytes_max:
            return
        self._encoded[namespace] = encoded
        self._bytes += size
        while self._bytes > self._bytes_max:
            _, oldest = self._encoded.popitem(last=False)
            self._bytes -= 2 * len(oldest.joined)


def _encode(
    generation: int,
    pods: Iterable[tuple[str, PodBody]],
    before: dict[str, tuple[PodBody, bytes]],
) -> _Encoded:
    records: dict[str, tuple[PodBody, bytes]] = {}
    for name, body in pods:
        known = before.get(name)
        if known is None or known[0] is not body:
            known = body, _record(_PODS_STATE, body.json())
        records[name] = known
    return _Encoded(generation, records, b"".join(record for _, record in records.values()))


def _record(field: bytes, json: bytes) -> bytes:
    """A field that holds a Pod."""
    pod = _POD + _varint(len(json)) + json
    return field + _varint(len(pod)) + pod


def _varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# ------------------------------------------------------------------ answers


def decode_answer(body: bytes) -> ResourceList | None:
    """What the sidecar charges; None if the pod is not one that it counts.

    Raises `BadAnswerError` or `SidecarSaysError`.
    """
    try:
        answer = pb.PodUsageResponse.FromString(body)
    except DecodeError:
        raise BadAnswerError("the answer is no PodUsageResponse") from None
    if not answer.HasField("error"):
        raise BadAnswerError("the answer has no `error`")
    if answer.error.error:
        raise SidecarSaysError(printable(answer.error.errorMessage, ERROR_LENGTH_MAX))
    if not answer.HasField("resourceList"):
        raise BadAnswerError("the answer has no `resourceList`")
    amounts = _amounts(answer.resourceList.resourceListJson)
    return amounts if answer.match else None


def _amounts(json: bytes) -> ResourceList:
    if len(json) > AMOUNTS_BYTES_MAX:
        raise BadAnswerError(
            f"its resource list has {len(json)} bytes; at most {AMOUNTS_BYTES_MAX} are accepted"
        )
    try:
        amounts = decode_resources(_AMOUNTS.decode(json), "resourceList")
    except FieldError as error:
        raise BadAnswerError(printable(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswerError(f"its resource list is not JSON of amounts: {error}") from None
    for name, amount in amounts.items():
        if not 0 < len(name) <= NAME_LENGTH_MAX or name.translate(_LABEL):
            raise BadAnswerError(f'"{printable(name)}" is not the name of a resource')
        if amount.is_negative or amount.whole_units > INT64_MAX:
            raise BadAnswerError(f"it charges {amount} of {name}, which no pod can cost")
    return amounts


def decode_health(body: bytes) -> bool:
    """Whether the sidecar says that it is healthy. Raises `BadAnswerError`."""
    try:
        return pb.HealthCheckResponse.FromString(body).healthy
    except DecodeError:
        raise BadAnswerError("the answer is no HealthCheckResponse") from None
