"""Which objects decide where pods are gated."""

from typing import Final

from bursar.app.cluster.kinds import (
    MUTATING_BINDINGS,
    MUTATING_WEBHOOKS,
    VALIDATING_BINDINGS,
    VALIDATING_WEBHOOKS,
)
from bursar.app.names import (
    GATING_POLICY,
    GATING_WEBHOOKS,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
)

CONFIGURATIONS: Final = (
    (MUTATING_BINDINGS, GATING_POLICY),
    (VALIDATING_BINDINGS, PROTECTION_POLICY),
    (MUTATING_WEBHOOKS, GATING_WEBHOOKS),
    (VALIDATING_WEBHOOKS, PROTECTION_WEBHOOKS),
)
"""The objects that say in which namespaces pods are gated, and gates are protected."""
