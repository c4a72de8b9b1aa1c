"""Manifests with which cert-manager makes the certificate of controller and webhook.

It is the alternative to `bursar controller --keep-certificates`. The Secret is the same, so that
the processes do not know which of the two makes it.
"""

from typing import Final

from bursar.app.certificates.names import TLS_SECRET
from bursar.app.extender.names import EXTENDER
from bursar.app.install.documents import Document, document, require_namespace
from bursar.app.install.workloads import labels_of
from bursar.app.names import CONTROLLER, WEBHOOK

GROUP: Final = "cert-manager.io/v1"
SELF_SIGNED: Final = "bursar-self-signed"
AUTHORITY: Final = "bursar-cert-manager-ca"
SERVING: Final = "bursar-serving"
INJECTION: Final = "cert-manager.io/inject-ca-from"
"""Annotation of a webhook configuration: the Certificate whose CA goes into its `caBundle`."""

_KEY: Final[Document] = {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}


def cert_manager_documents(namespace: str) -> tuple[Document, ...]:
    """A CA of this installation alone, and the certificate that it signs."""
    require_namespace(namespace)
    self_signed = _issuer(namespace, SELF_SIGNED, {"selfSigned": {}})
    authority = _certificate(
        namespace,
        AUTHORITY,
        SELF_SIGNED,
        {"isCA": True, "commonName": "bursar", "secretName": AUTHORITY, "duration": "8760h"},
    )
    issuer = _issuer(namespace, AUTHORITY, {"ca": {"secretName": AUTHORITY}})
    serving = _certificate(
        namespace,
        SERVING,
        AUTHORITY,
        {
            "secretName": TLS_SECRET,
            "duration": "720h",
            "dnsNames": [
                f"{service}.{namespace}.{rest}"
                for service in (WEBHOOK, CONTROLLER, EXTENDER)
                for rest in ("svc", "svc.cluster.local")
            ],
            "usages": ["digital signature", "server auth"],
        },
    )
    return self_signed, authority, issuer, serving


def injection(namespace: str) -> dict[str, str]:
    """The annotation that a webhook configuration needs."""
    return {INJECTION: f"{namespace}/{SERVING}"}


def _issuer(namespace: str, name: str, spec: Document) -> Document:
    labels = labels_of("certificates")
    found = document(GROUP, "Issuer", name, namespace=namespace, labels=labels)
    found["spec"] = spec
    return found


def _certificate(namespace: str, name: str, issuer: str, spec: Document) -> Document:
    labels = labels_of("certificates")
    found = document(GROUP, "Certificate", name, namespace=namespace, labels=labels)
    found["spec"] = {**spec, "issuerRef": {"name": issuer, "kind": "Issuer"}, "privateKey": _KEY}
    return found
