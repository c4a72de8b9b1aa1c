"""TLS on one server connection: ciphertext in, plaintext out, and back.

asyncio has TLS of its own. It allocates 256 KiB for each connection and tells the protocol of a
connection only after the handshake, so handshakes that never finish could not be counted.
"""

import contextlib
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias, cast

RECORD_BYTES: Final = 2**14
"""The largest plaintext of one TLS record."""

FindContext: TypeAlias = Callable[[], ssl.SSLContext]
"""Returns the context for the handshake that begins now."""


class TlsChannel:
    """The server's end of a TLS connection, without the socket."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "is_ended", "is_established")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False
        """Whether the handshake is complete."""
        self.is_ended = False
        """Whether the client has said that it sends no more."""

    def receive(self, ciphertext: bytes | memoryview) -> bytes:
        """Return the plaintext that is complete now. Raises `ssl.SSLError`.

        Call `take_output` afterwards, also if it raises: TLS may have something to say.
        """
        self._incoming.write(ciphertext)
        pieces: list[bytes] = []
        try:
            if not self.is_established:
                self._tls.do_handshake()
                self.is_established = True
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(RECORD_BYTES)
                if not piece:
                    self.is_ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def client_names(self) -> tuple[str, ...] | None:
        """Common name and alternative names of the client's verified certificate.

        None if it has shown none, or one with a name that Python cannot decode. A resumed session
        does not count: its certificate was verified by CAs that may have changed.
        """
        try:
            shown = self._tls.getpeercert()
        except ValueError:
            return None
        if not shown or self._tls.session_reused:
            return None
        subject = cast("tuple[tuple[tuple[str, str], ...], ...]", shown.get("subject", ()))
        others = cast("tuple[tuple[str, str], ...]", shown.get("subjectAltName", ()))
        common = [text for part in subject for key, text in part if key == "commonName"]
        return (*common, *(text for _, text in others))

    def send(self, plaintext: bytes) -> bytes:
        """Return the plaintext as TLS records. Raises `ssl.SSLError`."""
        # OpenSSL refuses to write nothing.
        if plaintext:
            self._tls.write(plaintext)
        return self._outgoing.read()

    def take_output(self) -> bytes:
        """Return bytes of TLS itself that must be sent: handshake, alerts, key updates."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def end(self) -> bytes:
        """Return the record that tells the client that nothing more is sent."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        return self._outgoing.read()
