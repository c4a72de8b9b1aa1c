"""Bursar's objects for certificates."""

from typing import Final

from bursar.app.cluster.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

TLS_SECRET: Final = "bursar-tls"  # noqa: S105 - the name of a Secret
"""The Secret of the serving pair: type `kubernetes.io/tls`, with `ca.crt`."""
CA_SECRET: Final = "bursar-ca"  # noqa: S105 - the name of a Secret
"""The Secret of the CA that signs the serving pair."""
CONFIGURATIONS: Final = (
    (MUTATING_WEBHOOKS, "gating-mutator"),
    (VALIDATING_WEBHOOKS, "aaq-validator"),
    (MUTATING_WEBHOOKS, "peer-pods-webhook-mutating-webhook-configuration"),
)
"""The configurations that `bursar manifests` prints, by resource and name."""
