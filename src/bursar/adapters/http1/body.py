"""Response bodies, decompressed within a bound."""

import zlib
from typing import Final

from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.response import Response

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_CORRUPT: Final = "the answer cannot be decompressed"


async def read_body(response: Response, bytes_max: int) -> bytes:
    """Return the body. Of a body over `bytes_max`, return a part that is also over it.

    The bound applies to the decompressed size. Raises `HttpError`.
    """
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return await response.read(bytes_max)
    if encoding != "gzip":
        raise HttpError("the answer has an encoding that was not requested")
    return await _decompressed(response, bytes_max)


async def _decompressed(response: Response, bytes_max: int) -> bytes:
    decompressor = zlib.decompressobj(_GZIP_WINDOW)
    pieces: list[bytes] = []
    remaining = bytes_max + 1
    try:
        while remaining and (packed := await response.next_piece()):
            if decompressor.eof:
                raise HttpError(_CORRUPT)
            piece = decompressor.decompress(packed, remaining)
            pieces.append(piece)
            remaining -= len(piece)
    except zlib.error:
        raise HttpError(_CORRUPT) from None
    if remaining and (not decompressor.eof or decompressor.unused_data):
        raise HttpError(_CORRUPT)
    return b"".join(pieces)
