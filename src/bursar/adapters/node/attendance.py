"""Being found where clients ask, and noticing when it is somebody else whom they find.

The rule: whoever answers there keeps the place. Where nobody answers, we do: the file was removed,
or whoever made it has ended, be it we or somebody else. Where another program answers, koordlet's
own proxy for one, its socket is never replaced, neither at the start nor later: the two would put
their sockets over each other's without end, and clients would be told now this, now that. It is
said, we are not ready, and once the other one has left we are there.

Agents do not meet like that. Each holds a lock for as long as it listens, so in a rolling update
the new one comes when the old one has ended, and finds a socket that nobody answers on.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.adapters.node.server import PodResourcesServer
from bursar.adapters.node.socket_file import Identity, SocketPlace, identity
from bursar.app.cluster.ports import Clock

CONNECT_SECONDS: Final = 5.0
ADVICE: Final = (
    "another program answers here and is left alone; end it (koordlet's own proxy: "
    "-feature-gates=PodResourcesProxy=false), or choose another --socket"
)


class Found(Enum):
    """Whom clients find."""

    US = "us"
    NOBODY = "nobody"
    ANOTHER = "another"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookingRules:
    every_s: float = 0.25
    remind_s: float = 60.0
    """How often it is said that somebody else is there."""


class Attendance:
    """Keeps a server where clients look for it."""

    def __init__(
        self,
        server: PodResourcesServer,
        place: SocketPlace,
        *,
        clock: Clock,
        say: Callable[[str], None],
        rules: LookingRules | None = None,
    ) -> None:
        self.found = Found.NOBODY
        """Whom clients found when we last looked."""
        self._server = server
        self._place = place
        self._clock = clock
        self._say = say
        self._rules = rules or LookingRules()
        self._said_s: float | None = None

    async def run(self) -> None:
        """Listen and look, until cancelled. The caller holds the place. Raises `SocketFileError`.

        The server is the caller's to stop.
        """
        try:
            while True:
                await self._look()
                await self._clock.sleep(self._rules.every_s)
        finally:
            self.found = Found.NOBODY

    async def _look(self) -> None:
        path, was = self._place.path, self.found
        self.found = await whom_clients_find(path, ours=self._server.published)
        if self.found is Found.NOBODY:
            await self._server.start(self._place)
            self.found = Found.US
            # A call whose path is no text ends gRPC's server (as of 1.85), which tells nobody;
            # and whoever tidies up may remove the file.
            is_again = was is Found.US
            again = "the server has ended by itself; answering again"
            self._say(again if is_again else f"answering on {path}")
        elif self.found is Found.ANOTHER:
            self._remind(is_news=was is not Found.ANOTHER)
        elif was is Found.ANOTHER:
            self._say(f"answering on {path}")

    def _remind(self, *, is_news: bool) -> None:
        now = self._clock.monotonic()
        if is_news or self._said_s is None or now - self._said_s >= self._rules.remind_s:
            self._said_s = now
            self._say(f"{self._place.path}: {ADVICE}")


async def whom_clients_find(path: str, *, ours: Identity | None) -> Found:
    """Somebody who is too busy to take us is there all the same."""
    if not await _is_listening(path):
        return Found.NOBODY
    there = identity(path)
    if there is None:
        return Found.NOBODY
    return Found.US if there == ours else Found.ANOTHER


async def _is_listening(path: str) -> bool:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except (OSError, TimeoutError):
        return True
    writer.transport.abort()
    return True
