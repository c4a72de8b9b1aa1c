"""AAQ's objects for certificates."""

from typing import Final

TLS_SECRET: Final = "aaq-server-cert"  # noqa: S105 - the name of a Secret
CA_SECRET: Final = "aaq-server"  # noqa: S105 - the name of a Secret
BUNDLE: Final = "aaq-server-signer-bundle"
"""The ConfigMap with all CAs to trust."""
