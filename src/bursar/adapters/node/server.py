"""The agent's PodResources socket: a gRPC server in front of a `Kubelet`; every call is counted.

Messages are bytes. Calls of services or methods that kubelet does not have are refused with the
error of kubelet's own server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import grpc

from bursar.adapters.node.kubelet_socket import address, full_name
from bursar.adapters.node.socket_file import Identity, SocketFileError, SocketPlace, publish
from bursar.app.cluster.ports import Clock
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.ports import CallError, Kubelet, Method, Version

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
DEADLINE_EXCEEDED: Final = 4
SERVICES: Final = {f"{version.value}.PodResourcesLister" for version in Version}
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
CODE_NAMES: Final = {number: code.name for number, code in _CODES.items()}
"""Names of gRPC status codes."""

_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    request_bytes_max: int = 4 * 2**20
    """Maximum size of a request; kubelet's limit."""
    calls_max: int = 1000
    """Maximum concurrent calls; more are refused."""
    finish_s: float = 5.0
    """How long `stop` waits for calls in progress."""


class PodResourcesServer:
    """A gRPC server on a unix socket. A second `start` makes a new socket in place of the first."""

    def __init__(
        self,
        kubelet: Kubelet,
        *,
        clock: Clock,
        counts: CallCounts,
        limits: ServingLimits | None = None,
    ) -> None:
        self._clock = clock
        self._counts = counts
        self._limits = limits or ServingLimits()
        self._server: grpc.aio.Server | None = None
        self.published: Identity | None = None
        """The file of the socket on which the server listens."""
        self._handlers = self._routes(kubelet)

    async def start(self, place: SocketPlace) -> None:
        """Listen. The caller holds the lock (`lock_socket`). Raises `SocketFileError`."""
        self._server = server = grpc.aio.server(
            handlers=(_Router(self._handlers),),
            maximum_concurrent_rpcs=self._limits.calls_max,
            options=(
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", self._limits.request_bytes_max),
            ),
        )

        def listen(path: str) -> None:
            try:
                server.add_insecure_port(address(path))
            except RuntimeError as error:
                raise SocketFileError(f"{place.path}: cannot listen: {error}") from error

        self.published = publish(place, listen)
        await server.start()

    async def stop(self) -> None:
        """Refuse new calls, complete those in progress, and close. The socket file stays."""
        if self._server is not None:
            await self._server.stop(self._limits.finish_s)

    def _routes(self, kubelet: Kubelet) -> dict[str, _Handler]:
        served = (*((Version.V1, method) for method in Method), (Version.V1ALPHA1, Method.LIST))
        return {
            full_name(version, method): grpc.unary_unary_rpc_method_handler(
                self._counted(kubelet, version, method)
            )
            for version, method in served
        }

    def _counted(
        self, kubelet: Kubelet, version: Version, method: Method
    ) -> Callable[[bytes, _Context], Awaitable[bytes]]:
        async def serve(request: bytes, context: _Context) -> bytes:
            began, within_s = self._clock.monotonic(), context.time_remaining()
            code, size = UNKNOWN, 0
            self._counts.under_way += 1
            try:
                reply = await kubelet.call(version, method, request, within_s)
                code, size = OK, len(reply)
            except CallError as error:
                code = error.code
                await context.abort(_CODES.get(code, grpc.StatusCode.UNKNOWN), error.text)
            except asyncio.CancelledError:
                code = cancelled_code(within_s, context.time_remaining())
                raise
            finally:
                self._counts.under_way -= 1
                nanos = round((self._clock.monotonic() - began) * 1e9)
                self._counts.end(version, method, code, nanos=nanos, size=size)
            return reply

        return serve


class _Router(grpc.GenericRpcHandler):
    def __init__(self, handlers: dict[str, _Handler]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> _Handler:
        name: str = handler_call_details.method
        return self._handlers.get(name) or _refusal(name)


def cancelled_code(within_s: float | None, left_s: float | None) -> int:
    """The gRPC code of a call that was cancelled.

    A client cancels the call at its deadline, often before the server notices the deadline. gRPC
    rounds a deadline up by less than a fiftieth when it is sent.
    """
    if within_s is None or left_s is None:
        return CANCELLED
    return DEADLINE_EXCEEDED if left_s <= within_s / 50 + 0.01 else CANCELLED


def _refusal(name: str) -> _Handler:
    service, slash, method = name.removeprefix("/").rpartition("/")
    if not slash:
        text = f'malformed method name: "{name}"'
    elif service in SERVICES:
        text = f"unknown method {method} for service {service}"
    else:
        text = f"unknown service {service}"

    async def refuse(_: AsyncIterator[bytes], context: _Context) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)

    # Refused whether or not a message follows.
    return grpc.stream_stream_rpc_method_handler(refuse)
