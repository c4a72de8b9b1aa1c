"""The state of a move: what is installed in the cluster, of AAQ and of Bursar.

Every state of a move is read from the cluster, so that a command that was killed goes on where it
was. `TenantState` has what the objects of tenants say about a move.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.app.cluster.ports import Key, Resource
from bursar.app.migration.installation import Installation, Manifest
from bursar.app.names import RESIZE_WEBHOOK
from bursar.app.quota.kinds import AAQS, GROUP
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.quota import QuotaObject
from bursar.wire.aaq_installation import (
    AaqFacts,
    DeploymentFacts,
    JobQueueFacts,
    Metadata,
    WebhookFacts,
)

OPERATOR_CONFIG: Final = "aaq-config"
"""The ConfigMap without which AAQ's operator takes a deployed AAQ object for an error."""
BURSARS_CONDITION: Final = "no-mirror-of-a-static-pod"
"""A match condition of Bursar's webhook that gates pods."""
NAME: Final = "app.kubernetes.io/name"
"""The label that tells Bursar's objects from AAQ's of the same name. `part-of` cannot: both take
its value from the AAQ object."""
REPLICAS_ANNOTATION: Final = "bursar.io/replicas-before-migration"
"""Annotation of AAQ's operator: how many replicas it had before the move."""
LOCKS: Final = (
    "application-aware-resource-quota-lock",
    "application-aware-cluster-resource-quota-lock",
)
SHARED_GATE: Final = ("bursar-gate-missing", "bursar-other-namespace", "bursar-no-dry-run")
"""The match conditions that a move adds to AAQ's webhook that gates pods."""


class Probe(Enum):
    """What becomes of a pod that is created with dry-run in a gated namespace."""

    NOT_TRIED = "not tried"
    NOWHERE = "there is no gated namespace"
    GATED = "it gets the gate"
    PASSED = "it is created without the gate, or refused because it has none"
    REFUSED = "it is refused for another reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedObject:
    """An object that Kubernetes deletes when the AAQ object is deleted."""

    resource: Resource
    metadata: Metadata

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is installed."""

    home: str
    """The namespace of AAQ, and of Bursar."""
    installation: Installation | None = None
    """What to install; None if the user has named no manifests."""
    aaq: AaqFacts | None = None
    operator: DeploymentFacts | None = None
    controller: DeploymentFacts | None = None
    """The Deployment `aaq-controller`, of AAQ or of Bursar."""
    server: DeploymentFacts | None = None
    """The Deployment `aaq-server`, of AAQ or of Bursar."""
    service: Metadata | None = None
    """The Service `aaq-server`, of AAQ or of Bursar."""
    operator_pods: int = 0
    controller_pods: int = 0
    """Pods of AAQ's controller."""
    server_pods: int = 0
    """Pods of AAQ's server."""
    bursar_pods: int = 0
    """Pods of Bursar's controller."""
    mutating: WebhookFacts | None = None
    validating: WebhookFacts | None = None
    owned: tuple[OwnedObject, ...] = ()
    has_guard: bool = False
    is_active: bool = False
    """Bursar's controller has switched the gate on."""
    probe: Probe = Probe.NOT_TRIED
    probe_problem: str = ""
    has_policies: bool = True
    """The API server serves MutatingAdmissionPolicies as v1."""
    has_operator_config: bool = True
    present: tuple[Manifest, ...] = ()
    """The objects of the installation that exist in the cluster."""
    job_queues: tuple[JobQueueFacts, ...] = ()
    gated_namespaces: tuple[str, ...] = ()
    """The namespaces in which AAQ gates pods, without those that are being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantState:
    """What tenants have."""

    quotas: Sequence[QuotaObject] = ()
    """Of all kinds, managed quotas included."""
    namespaces: Sequence[NamespaceObject] = ()
    gated: Sequence[PodRow] = ()
    """The pods behind the quota gate."""
    has_cluster_resource_quotas: bool = False
    """Whether the API server serves OpenShift's ClusterResourceQuota."""
    problems: Sequence[str] = ()
    """Objects that could not be read."""


def is_bursars(metadata: Metadata) -> bool:
    return metadata.labels.get(NAME) == "bursar"


def are_bursars(webhooks: WebhookFacts) -> bool:
    """Whether a webhook configuration is Bursar's. AAQ's has the same name and label."""
    has_condition = any(BURSARS_CONDITION in names for names in webhooks.conditions)
    return has_condition or RESIZE_WEBHOOK in webhooks.webhooks


def is_owned_by_aaq(metadata: Metadata) -> bool:
    return any((each.group, each.kind) == (GROUP, AAQS.kind) for each in metadata.owners)
