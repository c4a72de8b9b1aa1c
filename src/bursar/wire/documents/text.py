"""The text of a manifest source: decoded piece by piece, bounded, and kept to be read again.

A source may be a pipe, which can be read only once. But the line of a bad field is looked for only
after the field was found to be bad. So the pieces read so far are kept. Nothing is read before a
reader needs it: if an input is refused early, the rest of it costs neither time nor memory.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

SOURCE_BYTES_MAX: Final = 256 * 2**20
"""Largest source accepted. What `kubectl get pods -o json` prints of 20,000 pods is some 160 MB."""

SCALAR_LENGTH_MAX: Final = 2**20
"""Longest single text accepted. The API server takes no object larger than 1.5 MiB."""

DEPTH_MAX: Final = 100
"""Deepest nesting of lists and objects accepted. A Pod in a List reaches about 15."""

VALUES_MAX: Final = 10_000_000
"""Most keys and values in one source. What kubectl prints of 20,000 pods has six million."""

PIECE_BYTES_MAX: Final = 2**16

_UTF8_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CONTROL_BYTES: Final = bytes(byte for byte in range(0x20) if byte not in b"\t\n\r")


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a source, counted from 1 as editors do."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"

    def is_after(self, other: "Place") -> bool:
        return (self.line, self.column) > (other.line, other.column)


START: Final = Place(1, 1)


class DocumentError(ValueError):
    """A source that cannot be read as documents: what is wrong, where, and in which field."""

    def __init__(self, problem: str, place: Place, field: str = "") -> None:
        super().__init__(f"{place}: {field}: {problem}" if field else f"{place}: {problem}")
        self.problem = problem
        self.place = place
        self.field = field


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks no longer than a piece may be."""
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES_MAX):
            yield chunk[start : start + PIECE_BYTES_MAX]


class Text:
    """The decoded text of one source, in pieces; any number of readers may go through it."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = _cut(chunks)
        self._pieces: list[str] = []
        self._incomplete = b""
        self._bytes_read = 0
        self._is_complete = False

    def pieces(self, offset: int = 0) -> Iterator[str]:
        """The text from a character on, in pieces that are never empty."""
        number = 0
        while number < len(self._pieces) or self._read():
            piece = self._pieces[number]
            number += 1
            if len(piece) > offset:
                yield piece[offset:]
            offset = max(offset - len(piece), 0)

    def place(self, offset: int) -> Place:
        """Line and column of a character, given its number from the start of the source."""
        line, column = 1, 1
        for piece in self._pieces:
            part = piece[:offset]
            breaks = part.count("\n")
            line += breaks
            column = len(part) - part.rfind("\n") if breaks else column + len(part)
            offset -= len(part)
        return Place(line, column)

    def end(self) -> Place:
        """The place after the last character read so far."""
        return self.place(sum(len(piece) for piece in self._pieces))

    def _read(self) -> bool:
        """Add a piece; false at the end of the source."""
        while not self._is_complete:
            chunk = next(self._chunks, b"")
            self._is_complete = not chunk
            self._bytes_read += len(chunk)
            if self._bytes_read > SOURCE_BYTES_MAX:
                raise DocumentError(f"larger than {SOURCE_BYTES_MAX} bytes", self.end())
            piece = self._decode(self._incomplete + chunk)
            if piece:
                self._pieces.append(piece)
                return True
        return False

    def _decode(self, data: bytes) -> str:
        if not self._pieces:
            data = self._without_mark(data)
        try:
            piece = data.decode()
            self._incomplete = b""
        except UnicodeDecodeError as error:
            is_cut = error.reason == "unexpected end of data" and not self._is_complete
            piece = data[: error.start].decode()
            self._incomplete = data[error.start :]
            if not is_cut:
                self._refuse_byte(piece)
        if len(data.translate(None, _CONTROL_BYTES)) != len(data):
            self._refuse_control_character(piece)
        return piece

    def _refuse_control_character(self, piece: str) -> None:
        found = _CONTROL_CHARACTER.search(piece)
        assert found is not None, "there is one among the bytes"
        character = ord(found.group())
        self._pieces.append(piece[: found.start()])
        raise DocumentError(f"control character U+{character:04X}", self.end())

    def _without_mark(self, data: bytes) -> bytes:
        if data.startswith(_UTF16_BOMS):
            raise DocumentError("the text is UTF-16; manifests are written in UTF-8", START)
        return data.removeprefix(_UTF8_BOM)

    def _refuse_byte(self, piece: str) -> None:
        self._pieces.append(piece)
        offset = self._bytes_read - len(self._incomplete)
        byte = self._incomplete[0]
        raise DocumentError(f"byte 0x{byte:02x} at offset {offset} is not UTF-8", self.end())
