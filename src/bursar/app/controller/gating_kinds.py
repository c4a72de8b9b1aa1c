"""Which objects decide where pods are gated."""

from typing import Final

from bursar.app.cluster.ports import Resource
from bursar.app.names import (
    GATING_POLICY,
    GATING_WEBHOOKS,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
)

_ADMISSION: Final = "admissionregistration.k8s.io"


def _configuration(kind: str) -> Resource:
    return Resource(_ADMISSION, "v1", f"{kind.lower()}s", kind, is_namespaced=False)


CONFIGURATIONS: Final = (
    (_configuration("MutatingAdmissionPolicyBinding"), GATING_POLICY),
    (_configuration("ValidatingAdmissionPolicyBinding"), PROTECTION_POLICY),
    (_configuration("MutatingWebhookConfiguration"), GATING_WEBHOOKS),
    (_configuration("ValidatingWebhookConfiguration"), PROTECTION_WEBHOOKS),
)
"""The objects that say in which namespaces pods are gated, and gates are protected."""
