"""An event loop for commands: it does not wait for a name server that does not answer."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Literal, TypeAlias

V4: TypeAlias = Literal[socket.AddressFamily.AF_INET]
V6: TypeAlias = Literal[socket.AddressFamily.AF_INET6]
Addresses: TypeAlias = list[
    tuple[V4, socket.SocketKind, int, str, tuple[str, int]]
    | tuple[V6, socket.SocketKind, int, str, tuple[str, int, int, int] | tuple[int, bytes]]
]
"""The type of `getaddrinfo`'s result, as the stubs of Python's library have it."""


class CommandLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, with each name resolved in a daemon thread.

    asyncio resolves names in an executor, whose threads are joined before the process ends. A name
    server that does not answer would delay the end of a command by the resolver's timeout, often
    ten seconds or more.
    """

    def __init__(self, resolve: Callable[..., Addresses] = socket.getaddrinfo) -> None:
        super().__init__()
        self._resolve = resolve

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Addresses:
        answer: asyncio.Future[Addresses] = self.create_future()

        def settle(set_outcome: Callable[[], None]) -> None:
            if not answer.done():
                set_outcome()

        def resolve() -> None:
            try:
                found = self._resolve(host, port, family, type, proto, flags)
            except (OSError, UnicodeError, OverflowError) as error:
                failure = error
                outcome = lambda: answer.set_exception(failure)  # noqa: E731 - one of two
            else:
                outcome = lambda: answer.set_result(found)  # noqa: E731 - one of two
            # The loop is closed if the command did not wait for the answer.
            with suppress(RuntimeError):
                self.call_soon_threadsafe(settle, outcome)

        Thread(target=resolve, name="resolver", daemon=True).start()
        return await answer
