"""The response to one request, read while it arrives."""

import asyncio
from collections.abc import Callable
from typing import Final

from bursar.adapters.http1.errors import HttpError

PIECE_COST: Final = 64
"""Approximate memory of a piece of the body besides its bytes; pieces may be tiny."""
SMALL_PIECE_BYTES: Final = 2**12


class Response:
    """Await `wait_for_head` before reading `status`, `headers` or the body."""

    def __init__(self, resume: Callable[[], None], abort: Callable[[], None]) -> None:
        """`resume` continues reading from the socket; `abort` closes the connection."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """Values by lower-case name; the values of a repeated name are joined by a comma."""
        self.has_head = False
        self.is_complete = False
        self.unread_cost = 0
        """Memory taken by pieces of the body that were received and not yet read."""
        self._resume = resume
        self._abort = abort
        self._pieces: list[bytes] = []
        self._fault: tuple[type[HttpError], str] | None = None
        self._change: asyncio.Future[None] | None = None

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection marks the end of the body."""
        is_chunked = self.headers.get("transfer-encoding", "").lower().endswith("chunked")
        return not is_chunked and "content-length" not in self.headers

    async def wait_for_head(self) -> None:
        """Wait for status and headers. Raises `HttpError`."""
        while not self.has_head:
            await self._wait()

    async def next_piece(self) -> bytes:
        """Return what was received since the last read; empty at the end. Raises `HttpError`."""
        pieces = await self._next_pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read(self, bytes_max: int) -> bytes:
        """Return the body. Of a body over `bytes_max`, return a part that is also over it."""
        pieces: list[bytes] = []
        size = 0
        while size <= bytes_max and (more := await self._next_pieces()):
            added = sum(map(len, more))
            size += added
            if pieces and len(pieces[-1]) < SMALL_PIECE_BYTES:
                more.insert(0, pieces.pop())
            # Large pieces are joined once, at the end. Tiny ones are joined now: each costs memory.
            pieces += more if added > len(more) * SMALL_PIECE_BYTES else [b"".join(more)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Stop reading. If the response is incomplete, its connection is aborted.

        Aborted, because a TLS shutdown would outlive the caller.
        """
        if not self.is_complete:
            self._abort()

    async def _next_pieces(self) -> list[bytes]:
        while not self._pieces:
            if self.is_complete:
                return []
            await self._wait()
        pieces, self._pieces = self._pieces, []
        self.unread_cost = 0
        self._resume()
        return pieces

    async def _wait(self) -> None:
        if self._fault is not None:
            # The exception is made here: a stored one would keep its traceback's frames alive.
            kind, text = self._fault
            raise kind(text)
        self._change = asyncio.get_running_loop().create_future()
        try:
            await self._change
        finally:
            self._change = None

    # -------------------------------------------------------------- called by the connection

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.unread_cost += len(piece) + PIECE_COST

    def fail(self, kind: type[HttpError], text: str) -> None:
        self._fault = (kind, text)

    def wake(self) -> None:
        """Wake the task that waits for this response."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
