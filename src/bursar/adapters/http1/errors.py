"""Errors of the HTTP client. Their texts hold nothing that the other side sent."""

import os
import re
import ssl
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


class HttpError(Exception):
    """No response, or an unusable one. The text holds no secret."""


class ConnectError(HttpError):
    """No connection could be made."""


class UntrustedError(ConnectError):
    """The server's certificate could not be verified."""


class ConnectTimeoutError(ConnectError):
    """No connection within the time for it."""


class DisconnectedError(HttpError):
    """The connection was closed before any byte of the response arrived."""


def connect_error(error: OSError) -> ConnectError:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.lower().rstrip(".")
        return UntrustedError(f"the server's certificate is not trusted: {reason}")
    return ConnectError(f"no connection: {system_reason(error)}")


def system_reason(error: OSError) -> str:
    """The reason in the words of the operating system or of OpenSSL.

    Not `str(error)`: asyncio puts the address there and leaves the reason out.

    >>> system_reason(ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 443)"))
    'connection refused'
    """
    if isinstance(error, ssl.SSLError):
        # An SSLError that Python itself raises has no reason.
        return (getattr(error, "reason", None) or "tls failed").replace("_", " ").lower()
    number = error.errno
    if not number and (found := _NUMBER.search(str(error))):
        # asyncio joins the errors of several addresses into one text; take the first.
        number = int(found[1])
    if number:
        return os.strerror(number).lower()
    return "closed by the other side" if isinstance(error, ConnectionError) else "it failed"
