"""The kinds of object that an installation has, in the order in which they are deleted."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bursar.app.cluster.kinds import (
    BUDGETS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import Key, Resource
from bursar.app.install.documents import Document

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
KEPT: Final = (CRDS, NAMESPACES)
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
