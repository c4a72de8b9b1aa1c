"""A TLS handshake in memory: whether clients would accept a certificate, and until when."""

import ssl
from datetime import UTC, datetime
from typing import Final

NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which Python has no name. The clock of this machine
may be wrong, so that it does not decide whether a certificate is valid yet."""
ROUNDS_MAX: Final = 8


def try_handshake(server: ssl.SSLContext, authorities: str) -> datetime:
    """Present the server's certificate to a client that trusts these CAs (PEM).

    Returns when the certificate expires. Raises `ssl.SSLError` or `ValueError` if the client
    refuses it, or if the CAs cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # As in Go, a trusted certificate need not be a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(NO_CHECK_TIME)
    context.load_verify_locations(cadata=authorities)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server)
    sides = [client, server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(ROUNDS_MAX):
        sides = [side for side in sides if not _is_done(side)]
        if not sides:
            break
    shown = client.getpeercert() or {}
    end = ssl.cert_time_to_seconds(str(shown.get("notAfter")))
    return datetime.fromtimestamp(end, UTC)


def _is_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
