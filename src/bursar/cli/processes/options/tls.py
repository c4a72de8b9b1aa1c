"""Which TLS a process speaks. The agent, which has no certificate, does not load this."""

import os

from bursar.adapters.serving.tls.profile import TlsProfile, tls_profile
from bursar.app.names import TLS_SUITES, TLS_VERSION
from bursar.cli.errors.exit_codes import BadInputError


def tls_from_environment() -> TlsProfile:
    """The versions and suites that the environment names. Raises `BadInputError`."""
    try:
        return tls_profile(os.environ.get(TLS_VERSION, ""), os.environ.get(TLS_SUITES, ""))
    except ValueError as error:
        raise BadInputError(str(error)) from None
