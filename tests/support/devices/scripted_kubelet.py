"""A kubelet made up of functions, behind a real gRPC server on a real unix socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.node.server import PodResourcesServer, ServingLimits
from bursar.adapters.node.socket_file import SocketPlace, lock_socket
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.ports import CallError, Kubelet, Method, Version


class Echo:
    """Answers with what was asked; knows the deadlines it was given, and who left."""

    def __init__(self) -> None:
        self.error: CallError | None = None
        self.hold: asyncio.Event | None = None
        self.left = 0
        self.under_way = asyncio.Event()
        self.within_s: list[float | None] = []
        self.padding = b""

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        self.within_s.append(within_s)
        self.under_way.set()
        if self.error is not None:
            raise self.error
        if self.hold is not None:
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.left += 1
                raise
        return f"{version.value} {method.value}:".encode() + request + self.padding


@asynccontextmanager
async def serving(
    kubelet: Kubelet,
    socket: Path,
    *,
    counts: CallCounts | None = None,
    limits: ServingLimits | None = None,
) -> AsyncIterator[PodResourcesServer]:
    server = PodResourcesServer(
        kubelet, clock=SYSTEM_CLOCK, counts=counts or CallCounts(), limits=limits
    )
    place = SocketPlace(path=str(socket))
    with lock_socket(place):
        await server.start(place)
        try:
            yield server
        finally:
            await server.stop()
