"""Why no answer came, in plain words and without anything that the other side sent."""

import os
import re
import ssl
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


class HttpError(Exception):
    """No answer, or none that can be used. Its text may be shown to anybody."""


class UntrustedError(HttpError):
    """Whoever answers could not prove to be the one we look for."""


class ConnectTimeoutError(HttpError):
    """No connection within the time for it."""


class DisconnectedError(HttpError):
    """The connection was closed before anything of an answer came."""


def connecting_error(error: OSError) -> HttpError:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.lower()
        return UntrustedError(f"the server's certificate is not trusted: {reason}")
    return HttpError(f"no connection: {system_reason(error)}")


def system_reason(error: OSError) -> str:
    """The reason in the words of the system or of TLS.

    Not the error's own text: asyncio puts the address there and leaves the reason out.

    >>> system_reason(ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 443)"))
    'connection refused'
    """
    if isinstance(error, ssl.SSLError):
        # One that was made by Python itself has none.
        return (getattr(error, "reason", None) or "tls failed").replace("_", " ").lower()
    number = error.errno
    if not number and (found := _NUMBER.search(str(error))):
        # Of several addresses, each of which failed in its own way, the first is told.
        number = int(found[1])
    if number:
        return os.strerror(number).lower()
    return "closed by the other side" if isinstance(error, ConnectionError) else "it failed"
