"""Bursar's objects for certificates."""

from typing import Final

from bursar.app.cluster.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from bursar.app.names import GATING_WEBHOOKS, PEER_POD_WEBHOOKS, PROTECTION_WEBHOOKS

TLS_SECRET: Final = "bursar-tls"  # noqa: S105 - the name of a Secret
"""The Secret of the serving pair: type `kubernetes.io/tls`, with `ca.crt`."""
CA_SECRET: Final = "bursar-ca"  # noqa: S105 - the name of a Secret
"""The Secret of the CA that signs the serving pair."""
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""The keys of a Secret of type `kubernetes.io/tls`, and the files of a folder made of it."""
CONFIGURATIONS: Final = (
    (MUTATING_WEBHOOKS, GATING_WEBHOOKS),
    (VALIDATING_WEBHOOKS, PROTECTION_WEBHOOKS),
    (MUTATING_WEBHOOKS, PEER_POD_WEBHOOKS),
)
"""The configurations that `bursar manifests` prints, by resource and name."""
