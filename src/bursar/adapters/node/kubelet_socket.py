"""A client of kubelet's PodResources socket. Messages are bytes.

When kubelet restarts it replaces its socket, and gRPC connects to the new one by its path. The
reconnect back-off is short: while gRPC backs off, every call fails at once with the old error.
"""

import os
from dataclasses import dataclass
from typing import Final, Self, TypeAlias
from urllib.parse import quote

import grpc

from bursar.app.devices.ports import CallError, Method, Version

WINDOW_BYTES: Final = 4 * 2**20
FRAME_BYTES: Final = 2**20
READ_BYTES: Final = 2**16

_Call: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"


def address(path: str) -> str:
    """The gRPC target of a unix socket."""
    return "unix:" + quote(os.fsencode(path))


def full_name(version: Version, method: Method) -> str:
    return f"/{version.value}.PodResourcesLister/{method.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    answer_bytes_max: int = 64 * 2**20
    """Maximum size of a response. Multus accepts 16 MiB."""
    call_s: float = 10.0
    """Timeout of a call whose client sets no deadline."""
    connect_ms: int = 5_000
    """Timeout of one attempt to connect. A busy node may take seconds."""
    retry_ms: int = 100
    """Reconnect back-off after a failed connection."""
    retry_ms_max: int = 500


class KubeletSocket:
    """A `Kubelet`. An async context manager; the socket need not exist yet."""

    def __init__(self, path: str, *, limits: SocketLimits | None = None) -> None:
        self._path = path
        self._limits = limits or SocketLimits()
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[tuple[Version, Method], _Call] = {}

    async def __aenter__(self) -> Self:
        limits = self._limits
        self._channel = grpc.aio.insecure_channel(
            address(self._path),
            options=(
                # By default the percent-encoded path is sent, which some servers refuse.
                ("grpc.default_authority", "localhost"),
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),
                # The clients retry. gRPC's retries would cost time in every call.
                ("grpc.enable_retries", 0),
                # A large window, so that kubelet sends a long response without waiting.
                ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
                ("grpc.http2.max_frame_size", FRAME_BYTES),
                ("grpc.experimental.tcp_min_read_chunk_size", READ_BYTES),
                ("grpc.max_receive_message_length", limits.answer_bytes_max),
                ("grpc.initial_reconnect_backoff_ms", limits.retry_ms),
                # How long one attempt to connect may take, whatever its name says.
                ("grpc.min_reconnect_backoff_ms", limits.connect_ms),
                ("grpc.max_reconnect_backoff_ms", limits.retry_ms_max),
            ),
        )
        self._calls = {
            (version, method): self._channel.unary_unary(full_name(version, method))
            for version in Version
            for method in Method
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._channel is not None
        await self._channel.close()

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        seconds = self._limits.call_s if within_s is None else within_s
        try:
            return await self._calls[version, method](request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise CallError(error.code().value[0], error.details() or "") from error
