"""Bytes, frames and incomplete calls that a hostile client might send to a gRPC server.

All of it comes from one `Random`, so that a seed tells everything.
"""

import struct
from collections.abc import Callable  # noqa: TC003 - as everywhere here
from random import Random

from support.devices.socket_clients import ALLOCATABLE, ALPHA_LIST, GET, LIST

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 0x1, 0x4
PATHS = [LIST, GET, ALLOCATABLE, ALPHA_LIST, "/v1.PodResourcesLister/Nothing", "/", "", "/\x7f"]
NO_TEXT = "/\xff"
"""A path that no server of Python's gRPC survives; not among those that are sent at random."""


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def literal(name: str, value: str) -> bytes:
    """A header as HPACK has it, neither indexed nor compressed."""
    return b"\x00" + b"".join(_text(each.encode("latin-1")) for each in (name, value))


def _text(body: bytes) -> bytes:
    assert len(body) < 127, "one byte for the length"
    return bytes([len(body)]) + body


def call_headers(path: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(literal(name, value) for name, value in fields.items())


class HostileFrames:
    """Each conversation is a list of pieces to send; how many frames are in it is counted."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.frames = 0
        self._kinds: list[Callable[[], list[bytes]]] = [
            self._noise,
            self._random_frames,
            self._random_frames,
            self._bad_lengths,
            self._calls,
            self._calls,
            self._half_calls,
            self._resets,
            self._floods,
            self._continuations,
        ]

    def conversation(self) -> list[bytes]:
        pieces = self._random.choice(self._kinds)()
        self.frames += len(pieces)
        return pieces

    def _noise(self) -> list[bytes]:
        return [self._random.randbytes(self._random.choice([0, 1, 24, 1000, 70_000]))]

    def _opening(self) -> list[bytes]:
        return [PREFACE + frame(SETTINGS, 0, 0, b"")]

    def _random_frames(self) -> list[bytes]:
        return self._opening() + [
            frame(
                self._random.choice([*range(10), 0x20, 0xFF]),
                self._random.randrange(256),
                self._random.choice([0, 1, 2, 3, 2**31 - 1, self._random.randrange(2**31)]),
                self._random.randbytes(self._random.choice([0, 1, 4, 5, 6, 8, 300])),
            )
            for _ in range(self._random.randint(1, 30))
        ]

    def _bad_lengths(self) -> list[bytes]:
        """A frame that says it is longer than it is, or than anybody may send."""
        length = self._random.choice([1, 16385, 2**24 - 1])
        head = struct.pack(">I", length)[1:] + struct.pack(">BBI", self._random.randrange(10), 0, 1)
        return [*self._opening(), head + self._random.randbytes(40)]

    def _calls(self) -> list[bytes]:
        """Well made up to the message, in which anything may stand."""
        pieces = self._opening()
        for number in range(self._random.randint(1, 20)):
            stream, path = 2 * number + 1, self._random.choice(PATHS)
            body = self._random.randbytes(self._random.choice([0, 1, 10, 2000]))
            length = self._random.choice([len(body), len(body) + 5, 0, 2**32 - 1])
            message = struct.pack(">BI", self._random.choice([0, 0, 1, 255]), length) + body
            pieces += [
                frame(HEADERS, END_HEADERS, stream, call_headers(path)),
                frame(DATA, END_STREAM, stream, message),
            ]
        return pieces

    def _half_calls(self) -> list[bytes]:
        """Calls of which the message never comes."""
        return self._opening() + [
            frame(HEADERS, END_HEADERS, 2 * number + 1, call_headers(self._random.choice(PATHS)))
            for number in range(self._random.randint(1, 50))
        ]

    def _resets(self) -> list[bytes]:
        """Calls that are taken back at once."""
        pieces = self._opening()
        for stream in range(1, 2 * self._random.randint(1, 50), 2):
            call = frame(HEADERS, END_HEADERS, stream, call_headers(LIST))
            message = frame(DATA, END_STREAM, stream, bytes(5))
            pieces.append(call + message + frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))
        return pieces

    def _floods(self) -> list[bytes]:
        kind, body = self._random.choice(
            [
                (PING, bytes(8)),
                (SETTINGS, b""),
                (WINDOW, struct.pack(">I", 1)),
                (PRIORITY, bytes(5)),
            ]
        )
        stream = 1 if kind == PRIORITY else 0
        return self._opening() + [frame(kind, 0, stream, body)] * self._random.randint(10, 300)

    def _continuations(self) -> list[bytes]:
        """Headers without an end."""
        more = frame(CONTINUATION, 0, 1, literal("x-more", "y" * 100))
        start = frame(HEADERS, 0, 1, call_headers(LIST))
        return [*self._opening(), start, *[more] * self._random.randint(1, 200)]
