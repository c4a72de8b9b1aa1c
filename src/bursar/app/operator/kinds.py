"""The kinds of object that an installation has, in the order in which they are deleted."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bursar.app.cluster.kinds import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import Key, Resource
from bursar.app.install.documents import Document

ADMISSION_GROUP: Final = "admissionregistration.k8s.io"
RBAC_GROUP: Final = "rbac.authorization.k8s.io"


def _admission(kind: str, plural: str) -> Resource:
    return Resource(ADMISSION_GROUP, "v1", plural, kind, is_namespaced=False)


def _rbac(kind: str, *, is_namespaced: bool) -> Resource:
    return Resource(RBAC_GROUP, "v1", f"{kind.lower()}s", kind, is_namespaced=is_namespaced)


MUTATING_POLICIES: Final = _admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies")
MUTATING_BINDINGS: Final = _admission(
    "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"
)
VALIDATING_POLICIES: Final = _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
VALIDATING_BINDINGS: Final = _admission(
    "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
SERVICES: Final = Resource("", "v1", "services", "Service")
BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
CLUSTER_ROLES: Final = _rbac("ClusterRole", is_namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _rbac("ClusterRoleBinding", is_namespaced=False)
ROLES: Final = _rbac("Role", is_namespaced=True)
ROLE_BINDINGS: Final = _rbac("RoleBinding", is_namespaced=True)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    is_namespaced=False,
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False
)

DELETED: Final = (
    # What gates or refuses pods goes first, while processes and rights are still there.
    MUTATING_WEBHOOKS,
    MUTATING_BINDINGS,
    VALIDATING_WEBHOOKS,
    VALIDATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_POLICIES,
    # Then the processes, so that none works without its rights.
    DEPLOYMENTS,
    BUDGETS,
    SERVICES,
    NETWORK_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    RESOURCE_QUOTAS,
    # The Lease and the Secrets of certificates go with the controller's account.
    SERVICE_ACCOUNTS,
)
"""Kinds whose objects go with the AAQ object, in this order."""
KEPT: Final = (DEFINITIONS, NAMESPACES)
"""Kinds whose objects stay: with a definition go all quotas of tenants, and the operator itself
lives in the namespace."""
OWNED: Final = (*DELETED, *KEPT)
RECENT: Final = frozenset({MUTATING_POLICIES, MUTATING_BINDINGS})
"""Kinds that API servers before Kubernetes 1.36 do not have."""

_BY_KIND: Final[Mapping[tuple[str, str], Resource]] = {
    (each.api_version, each.kind): each for each in OWNED
}


class Target(NamedTuple):
    """An object of the installation, by resource and name."""

    resource: Resource
    key: Key

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key.name}"


def target_of(document: Document) -> Target:
    """The object that a document is about."""
    resource = _BY_KIND[str(document["apiVersion"]), str(document["kind"])]
    metadata = document["metadata"]
    assert isinstance(metadata, Mapping)
    return Target(resource, Key(str(metadata.get("namespace") or ""), str(metadata["name"])))
