"""What comes back for one request, for whoever waits for it."""

import asyncio
from collections.abc import Callable
from typing import Final

from bursar.adapters.http1.errors import HttpError

PIECE_COST: Final = 64
"""What a piece takes beside its bytes, about; chunks may be tiny."""
SMALL_PIECE_BYTES: Final = 2**12


class Answer:
    """Await `head` before anything else is looked at."""

    def __init__(self, resume: Callable[[], None], abort: Callable[[], None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """By names in small letters; what was sent twice is joined by a comma."""
        self.is_headed = False
        self.is_complete = False
        self.unread_cost = 0
        """Memory that is taken by what nobody has read yet."""
        self._resume = resume
        self._abort = abort
        self._pieces: list[bytes] = []
        self._fault: tuple[type[HttpError], str] | None = None
        self._news: asyncio.Future[None] | None = None

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection says where the body ends."""
        is_chunked = self.headers.get("transfer-encoding", "").lower().endswith("chunked")
        return not is_chunked and "content-length" not in self.headers

    async def head(self) -> None:
        """Wait for status and headers. Raises `HttpError`."""
        while not self.is_headed:
            await self._wait()

    async def next_piece(self) -> bytes:
        """What of the body came meanwhile, or comes next; empty at its end. Raises `HttpError`."""
        pieces = await self._next_pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read(self, bytes_max: int) -> bytes:
        """The body; of one that is too large, a little more than may be taken."""
        pieces: list[bytes] = []
        size = 0
        while size <= bytes_max and (more := await self._next_pieces()):
            added = sum(map(len, more))
            size += added
            if pieces and len(pieces[-1]) < SMALL_PIECE_BYTES:
                more.insert(0, pieces.pop())
            # A large body in few pieces is joined once, in the end; tiny ones must not pile up.
            pieces += more if added > len(more) * SMALL_PIECE_BYTES else [b"".join(more)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def drop(self) -> None:
        """Nobody reads on. The connection of an answer that is not complete ends with it.

        At once, and not by a farewell that would go on after everything else has ended.
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
            # Made here: one that is kept would hold, by its traceback, all that holds it.
            kind, words = self._fault
            raise kind(words)
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    # -------------------------------------------------------------- told by the connection

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.unread_cost += len(piece) + PIECE_COST

    def fail(self, kind: type[HttpError], words: str) -> None:
        self._fault = (kind, words)

    def tell(self) -> None:
        """Wake who waits."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
