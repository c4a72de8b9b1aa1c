"""Kubelet's answer of List, kept in a file or fresh from a socket: what it says of pods."""

from contextlib import closing
from dataclasses import dataclass
from typing import Final

from bursar.adapters.files import sources
from bursar.adapters.files.manifests import ManifestError
from bursar.adapters.files.sources import SourceError
from bursar.core.devices.allocation import ReportedPod
from bursar.core.devices.register import DynamicDevice
from bursar.wire.pod_resources.claimed import decode_claimed, decode_claimed_json
from bursar.wire.pod_resources.json_form import (
    BYTES_MAX,
    decode_pods,
    decode_pods_json,
    encode_pods_json,
)
from bursar.wire.structs.fields import printable

__all__ = ["KubeletAnswer", "ManifestError", "decode_answer", "encode_pods_json", "read_dump"]

NAME_LENGTH_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class KubeletAnswer:
    pods: tuple[ReportedPod, ...]
    claimed: tuple[DynamicDevice, ...]
    """What claims gave, by the same answer."""


def decode_answer(body: bytes) -> KubeletAnswer:
    """What came over a socket. Raises `ValueError`."""
    return KubeletAnswer(decode_pods(body), decode_claimed(body))


def read_dump(path: str) -> KubeletAnswer:
    """What `bursar devices --socket PATH -o pod-resources` or grpcurl wrote.

    Raises `ManifestError`.
    """
    name = printable(path, NAME_LENGTH_MAX)
    try:
        with closing(sources.chunks_of_file(path, bytes_max=BYTES_MAX)) as chunks:
            text = b"".join(chunks)
        return KubeletAnswer(decode_pods_json(text), decode_claimed_json(text))
    except SourceError as error:
        raise ManifestError(f"{name}: {error.problem}") from None
    except ValueError as error:
        raise ManifestError(f"{name}: {error}") from None
