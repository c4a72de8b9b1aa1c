"""A watch on the wire: one JSON object per line, in chunks of any size.

Little is read ahead. While the consumer is busy, the socket's buffers fill up and the server
waits: there is no other backpressure.
"""

import asyncio
from typing import Final

from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.response import Response
from bursar.adapters.kube.errors import Subject, error_of_status
from bursar.app.cluster.ports import EventKind, WatchEvent
from bursar.wire.cluster.status import (
    ERROR,
    EnvelopeError,
    decode_event,
    ends_initial_events,
    find_status,
)

_KINDS: Final = {kind.value: kind for kind in EventKind}


class LineTooLongError(ValueError):
    """A line that is longer than the limit."""


class LineSplitter:
    """Cuts chunks into lines; keeps an incomplete line until its rest arrives."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of the incomplete line."""
        return self._pending_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their line feeds. Raises `LineTooLongError`."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._pending:
            self._keep(lines[0])
            lines[0] = b"".join(self._pending)
            self._pending, self._pending_bytes = [], 0
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        self._pending.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes > self._bytes_max:
            raise LineTooLongError


async def next_chunk(response: Response, subject: Subject, *, idle_seconds: float) -> bytes:
    """Return the bytes since the last call; empty at the end of the stream.

    Raises `UnavailableError` if none arrive for `idle_seconds`.
    """
    try:
        async with asyncio.timeout(idle_seconds):
            return await response.next_piece()
    except TimeoutError:
        raise subject.unavailable(f"the watch was silent for {idle_seconds:g} s") from None
    except HttpError as error:
        raise subject.unavailable(str(error)) from None


def event_of_line(line: bytes, subject: Subject) -> WatchEvent:
    """Decode one event. An ERROR event is raised as the error that its `Status` describes."""
    try:
        type_, body, version = decode_event(line)
        # Check the type first: the Status of an ERROR event decodes as an object without fields.
        if type_ == ERROR:
            raise _error_of_event(body, subject)
        kind = _KINDS.get(type_)
        if kind is None or not version:
            raise subject.unavailable("the watch sent something that is not an object's change")
        ends_initial = kind is EventKind.BOOKMARK and ends_initial_events(body)
    except EnvelopeError as error:
        raise subject.unavailable(f"the watch sent a line that is {error}") from None
    return WatchEvent(kind=kind, body=body, resource_version=version, ends_initial=ends_initial)


def _error_of_event(body: bytes, subject: Subject) -> Exception:
    status = find_status(body)
    if status is None:
        return subject.unavailable("the watch ended with an error without a message")
    return error_of_status(subject, status)
