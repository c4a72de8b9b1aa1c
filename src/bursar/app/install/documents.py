"""Parts of manifests that several installations share: names, roles, policies and webhooks."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.app.cluster.kinds import ADMISSION_GROUP, RBAC_GROUP
from bursar.app.cluster.ports import Json
from bursar.app.names import WEBHOOK
from bursar.core.model.namespace import NAME_LABEL
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.core.quota.targeting import KUBE_SYSTEM

ADMISSION: Final = f"{ADMISSION_GROUP}/v1"
PART_OF_BURSAR: Final = {"app.kubernetes.io/part-of": "bursar"}
ADMINISTRATORS: Final = "system:masters"
"""The group of users whom RBAC permits everything."""
DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Document = dict[str, Json]

MEMORY_VARIABLES: Final[Mapping[str, str]] = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}
"""The environment of every process. More arenas would keep freed memory of threads that ended, or
of each thread of gRPC. The threshold is glibc's default; if it is not set, glibc raises it after
the first large object, and keeps as much freed memory. `benchmarks` start processes with it too."""


def memory_environment() -> list[Json]:
    """`MEMORY_VARIABLES` as the `env` of a container."""
    return [{"name": name, "value": value} for name, value in MEMORY_VARIABLES.items()]


def document(
    api_version: str, kind: str, name: str, *, namespace: str = "", labels: Mapping[str, str]
) -> Document:
    place = {"namespace": namespace} if namespace else {}
    metadata: Document = {"name": name, **place, "labels": dict(labels)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def require_namespace(name: str) -> None:
    """Raises `ValueError`. In a CEL expression a name with a quote would be an injection."""
    if not DNS_LABEL.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a namespace")


def require_image(name: str) -> None:
    """Raises `ValueError`."""
    if not name or name != name.strip():
        raise ValueError(f"{name!r} is not the name of an image")


# ------------------------------------------------------------------ access


def permission(
    verbs: Sequence[str], *resources: str, group: str = "", names: Sequence[str] = ()
) -> Document:
    """A rule of a Role or ClusterRole."""
    found: Document = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**found, "resourceNames": list(names)} if names else found


OBSERVE: Final = ("list", "watch")
"""The verbs that an informer needs: it never reads a single object."""
METRICS_READER: Final = "bursar-metrics-reader"


def metrics_review_rules() -> tuple[Document, Document]:
    """Rights to ask the API server which user reads metrics, and whether the user may."""
    return (
        permission(("create",), "tokenreviews", group="authentication.k8s.io"),
        permission(("create",), "subjectaccessreviews", group="authorization.k8s.io"),
    )


def granted(
    name: str,
    rules: Iterable[Document],
    *,
    account: str,
    home: str,
    namespace: str = "",
    labels: Mapping[str, str],
) -> tuple[Document, Document]:
    """A Role, or without a namespace a ClusterRole, and its binding to a service account."""
    prefix = "" if namespace else "Cluster"
    role, binding = (
        document(f"{RBAC_GROUP}/v1", f"{prefix}{kind}", name, namespace=namespace, labels=labels)
        for kind in ("Role", "RoleBinding")
    )
    role["rules"] = list(rules)
    binding["roleRef"] = {"apiGroup": RBAC_GROUP, "kind": f"{prefix}Role", "name": name}
    binding["subjects"] = [{"kind": "ServiceAccount", "namespace": home, "name": account}]
    return role, binding


# ------------------------------------------------------------------ admission


def no_annotations() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of `bursar webhook` for the API server."""

    ca_bundle: bytes = b""
    """CA certificates in PEM. If empty, the field is left out, for a CA injector to fill in."""
    url: str = ""
    """`https://host:port` of a server outside the cluster. If empty, the Service is used."""
    annotations: Mapping[str, str] = field(default_factory=no_annotations)
    """Annotations of the webhook configurations, by which a CA injector recognises them."""

    def annotate(self, configuration: Document) -> Document:
        """The configuration with the annotations. Without any it stays as it is."""
        if self.annotations:
            metadata = configuration["metadata"]
            assert isinstance(metadata, dict)
            metadata["annotations"] = dict(self.annotations)
        return configuration

    def client_config(self, namespace: str, path: str) -> Document:
        bundle: Document = {}
        if self.ca_bundle:
            bundle = {"caBundle": base64.b64encode(self.ca_bundle).decode("ascii")}
        if self.url:
            return {"url": f"{self.url.rstrip('/')}{path}", **bundle}
        service: Document = {"namespace": namespace, "name": WEBHOOK, "path": path, "port": 443}
        return {"service": service, **bundle}


def rule(
    operations: Sequence[str],
    *resources: str,
    group: str = "",
    version: str = "",
    scope: str = "Namespaced",
) -> Document:
    """The requests that a policy or a webhook gets. Default of `version`: that of AAQ's kinds."""
    return {
        "apiGroups": [group],
        "apiVersions": [version or ("v1alpha1" if group else "v1")],
        "operations": list(operations),
        "resources": list(resources),
        "scope": scope,
    }


def webhook(name: str, target: Document, client: Document) -> Document:
    """A webhook whose failure denies the request. The caller adds its timeout."""
    return {
        "name": name,
        "rules": [target],
        "clientConfig": client,
        "admissionReviewVersions": ["v1", "v1beta1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
    }


def validation(expression: str, message: str) -> Document:
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def admission_policy(
    sort: str, name: str, spec: Document, where: Document, *, labels: Mapping[str, str]
) -> tuple[Document, Document]:
    """A Validating or Mutating policy, and the binding that says where it applies."""
    kind = f"{sort}AdmissionPolicy"
    actions: Document = {"validationActions": ["Deny"]} if sort == "Validating" else {}
    policy = document(ADMISSION, kind, name, labels=labels)
    binding = document(ADMISSION, f"{kind}Binding", name, labels=labels)
    policy["spec"] = {**spec, "failurePolicy": "Fail"}
    binding["spec"] = {"policyName": name, **actions, **where}
    return policy, binding


def spared_namespaces(home: str) -> LabelExpression:
    """Select all namespaces except Bursar's own and kube-system."""
    return LabelExpression(
        key=NAME_LABEL,
        operator="NotIn",
        values=tuple(sorted({home, KUBE_SYSTEM})),
    )


def selector_document(selector: LabelSelector) -> Document:
    found: Document = {}
    if selector.match_labels:
        found["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        found["matchExpressions"] = [_expression(each) for each in selector.match_expressions]
    return found


def _expression(wanted: LabelExpression) -> Document:
    found: Document = {"key": wanted.key, "operator": wanted.operator}
    return {**found, "values": list(wanted.values)} if wanted.values else found


# ------------------------------------------------------------------ definitions


def wanted_definitions(
    definitions: Sequence[Document], *, has_cluster_quota: bool
) -> tuple[Document, ...]:
    """The definitions without those of cluster quotas, unless these are allowed."""
    return tuple(each for each in definitions if has_cluster_quota or not is_cluster_quota(each))


def is_cluster_quota(definition: Document) -> bool:
    metadata = definition.get("metadata")
    return isinstance(metadata, Mapping) and "clusterresourcequotas" in str(metadata.get("name"))
