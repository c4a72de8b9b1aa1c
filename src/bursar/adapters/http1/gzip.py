"""Bodies as they were before they were compressed, and never larger than they may be."""

import zlib
from typing import Final

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.errors import HttpError

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


async def plain_body(answer: Answer, bytes_max: int) -> bytes:
    """The body; of one that is too large, a little more than may be taken. Raises `HttpError`.

    A small body must not become a large one behind the back of whoever counts bytes.
    """
    encoding = answer.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return await answer.read(bytes_max)
    if encoding != "gzip":
        raise HttpError("the answer is in an encoding that nobody asked for")
    return await _unpacked(answer, bytes_max)


async def _unpacked(answer: Answer, bytes_max: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    pieces: list[bytes] = []
    room = bytes_max + 1
    try:
        while room and (packed := await answer.next_piece()):
            if unpacker.eof:
                raise HttpError("the answer cannot be unpacked")
            piece = unpacker.decompress(packed, room)
            pieces.append(piece)
            room -= len(piece)
    except zlib.error:
        raise HttpError("the answer cannot be unpacked") from None
    if room and (not unpacker.eof or unpacker.unused_data):
        raise HttpError("the answer cannot be unpacked")
    return b"".join(pieces)
