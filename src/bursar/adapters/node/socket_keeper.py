"""Keeps the agent's server on the path of its socket, and detects another program there.

The program that answers on the path keeps it. If no program answers, the agent takes the path: the
file was removed, or the program that made it has ended. If another program answers, for example
koordlet's own proxy, its socket is never replaced, neither at the start nor later. Otherwise both
would replace each other's socket without end. The agent logs it and is not ready, and takes
the path when the other program has ended.

Two agents never compete. Each holds a lock while it listens, so in a rolling update the new agent
starts when the old one has ended, and finds a socket on which no program answers.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.adapters.node.server import PodResourcesServer
from bursar.adapters.node.socket_file import Identity, SocketPlace, identity
from bursar.app.cluster.ports import Clock
from bursar.app.log import Log

LOG: Final = Log("agent")
CONNECT_SECONDS: Final = 5.0
ADVICE: Final = (
    "another program answers here and is left alone; end it (koordlet's own proxy: "
    "-feature-gates=PodResourcesProxy=false), or choose another --socket"
)
ANSWERING: Final = "answering on the socket"
ANSWERING_AGAIN: Final = "the server has ended by itself; answering again"


class SocketOwner(Enum):
    """The program that answers on the path."""

    AGENT = "agent"
    NONE = "none"
    ANOTHER = "another"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRules:
    every_s: float = 0.25
    """How often the path is checked."""


class SocketKeeper:
    """Starts the server on its path, and again if the socket was removed or the server ended."""

    def __init__(
        self,
        server: PodResourcesServer,
        place: SocketPlace,
        *,
        clock: Clock,
        rules: KeeperRules | None = None,
    ) -> None:
        self.owner = SocketOwner.NONE
        """The result of the last check."""
        self._server = server
        self._place = place
        self._clock = clock
        self._rules = rules or KeeperRules()

    async def run(self) -> None:
        """Check the path until cancelled. The caller holds the lock. Raises `SocketFileError`.

        The caller stops the server afterwards.
        """
        try:
            while True:
                await self._check()
                await self._clock.sleep(self._rules.every_s)
        finally:
            self.owner = SocketOwner.NONE

    async def _check(self) -> None:
        path, before = self._place.path, self.owner
        self.owner = await socket_owner(path, own=self._server.published)
        if self.owner is SocketOwner.NONE:
            await self._server.start(self._place)
            self.owner = SocketOwner.AGENT
            # gRPC's server (as of 1.85) ends silently after a call whose path is not text. Also,
            # another program may remove the file.
            is_again = before is SocketOwner.AGENT
            LOG.info(ANSWERING_AGAIN if is_again else ANSWERING, path=path)
        elif self.owner is SocketOwner.ANOTHER:
            # The log repeats a warning only at a bounded rate.
            LOG.warning(ADVICE, path=path)
        elif before is SocketOwner.ANOTHER:
            LOG.info(ANSWERING, path=path)


async def socket_owner(path: str, *, own: Identity | None) -> SocketOwner:
    """The program that answers on the path. `own` is the socket of the agent, if it listens."""
    if not await _is_listening(path):
        return SocketOwner.NONE
    there = identity(path)
    if there is None:
        return SocketOwner.NONE
    return SocketOwner.AGENT if there == own else SocketOwner.ANOTHER


async def _is_listening(path: str) -> bool:
    """Whether a program listens; a program that is too busy to accept listens, too."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except (OSError, TimeoutError):
        return True
    writer.transport.abort()
    return True
