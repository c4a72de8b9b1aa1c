"""A kept gRPC connection to one sidecar. Messages are bytes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import grpc

from bursar.app.counting.sidecars.ports import SidecarError, SidecarFailure
from bursar.wire.counting.pod_usage import (
    EVALUATE,
    HEALTH_CHECK,
    MESSAGE_BYTES_MAX,
    BadAnswerError,
    decode_health,
)
from bursar.wire.structs.fields import printable

WINDOW_BYTES: Final = 4 * 2**20
DETAIL_LENGTH_MAX: Final = 200
LIMIT_ADVICE: Final = (
    "a message is larger than it accepts; servers in Go accept 4 MiB unless they set "
    "grpc.MaxRecvMsgSize; or use --sidecar-scope pod"
)

_Call: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    evaluate_s: float = 10.0
    """Timeout of a question."""
    health_s: float = 3.0
    """Timeout of a health check, with the connection it may need."""


class SidecarConnection:
    """A `Sidecar`. It connects with the first call."""

    def __init__(self, path: Path, limits: CallLimits) -> None:
        self._limits = limits
        self._channel = grpc.aio.insecure_channel(
            "unix:" + quote(os.fsencode(path)),
            options=(
                # By default the percent-encoded path is sent, which some servers refuse.
                ("grpc.default_authority", "localhost"),
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_retries", 0),
                ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
                ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
                ("grpc.initial_reconnect_backoff_ms", 100),
                # How long one attempt to connect may take, whatever its name says.
                ("grpc.min_reconnect_backoff_ms", 5_000),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ),
        )
        self._evaluate: _Call = self._channel.unary_unary(EVALUATE)
        self._check: _Call = self._channel.unary_unary(HEALTH_CHECK)

    async def evaluate(self, request: bytes) -> bytes:
        seconds = self._limits.evaluate_s
        try:
            answer: bytes = await self._evaluate(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise _explained(error, seconds) from error
        return answer

    async def is_healthy(self) -> bool:
        seconds = self._limits.health_s
        try:
            return decode_health(await self._check(b"", timeout=seconds))
        except grpc.aio.AioRpcError as error:
            raise _explained(error, seconds) from error
        except BadAnswerError as error:
            raise SidecarError(SidecarFailure.BAD_ANSWER, str(error)) from None

    async def close(self) -> None:
        await self._channel.close()


def _explained(error: grpc.aio.AioRpcError, seconds: float) -> SidecarError:
    detail = printable(error.details() or "", DETAIL_LENGTH_MAX)
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            text = f"no answer within {seconds:g} s"
            return SidecarError(SidecarFailure.TIMEOUT, text)
        case grpc.StatusCode.UNAVAILABLE:
            return SidecarError(SidecarFailure.UNREACHABLE, "it cannot be reached")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            text = f"{LIMIT_ADVICE} ({detail})"
            return SidecarError(SidecarFailure.TOO_LARGE, text)
        case code:
            text = f"the call failed: {code.name}: {detail}"
            return SidecarError(SidecarFailure.SAYS_ERROR, text)
