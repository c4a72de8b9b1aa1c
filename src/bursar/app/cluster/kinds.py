"""The built-in resources of Kubernetes that Bursar uses."""

from typing import Final

from bursar.app.cluster.ports import Resource

ADMISSION_GROUP: Final = "admissionregistration.k8s.io"
RBAC_GROUP: Final = "rbac.authorization.k8s.io"

_CLUSTER_SCOPED: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PriorityClass",
        "RuntimeClass",
        "SubjectAccessReview",
        "TokenReview",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of a built-in kind, with its plural as Kubernetes forms it.

    >>> str(resource_of("networking.k8s.io/v1", "NetworkPolicy"))
    'networkpolicies.networking.k8s.io'
    >>> resource_of("node.k8s.io/v1", "RuntimeClass").plural
    'runtimeclasses'
    """
    group, _, version = api_version.rpartition("/")
    is_namespaced = kind not in _CLUSTER_SCOPED
    return Resource(group, version, _plural(kind.lower()), kind, is_namespaced)


def _plural(singular: str) -> str:
    if singular.endswith("y"):
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith("s") else f"{singular}s"


def _admission(kind: str) -> Resource:
    return resource_of(f"{ADMISSION_GROUP}/v1", kind)


def _rbac(kind: str) -> Resource:
    return resource_of(f"{RBAC_GROUP}/v1", kind)


PODS: Final = resource_of("v1", "Pod")
RESIZE: Final = "resize"
"""The subresource of pods that changes the resources of running containers."""
NODES: Final = resource_of("v1", "Node")
NAMESPACES: Final = resource_of("v1", "Namespace")
CONFIG_MAPS: Final = resource_of("v1", "ConfigMap")
SECRETS: Final = resource_of("v1", "Secret")
SERVICES: Final = resource_of("v1", "Service")
SERVICE_ACCOUNTS: Final = resource_of("v1", "ServiceAccount")
RESOURCE_QUOTAS: Final = resource_of("v1", "ResourceQuota")
LIMIT_RANGES: Final = resource_of("v1", "LimitRange")
BINDINGS: Final = resource_of("v1", "Binding")
"""Bindings can only be created. A binding assigns a pod to a node and is not stored."""
EVENTS: Final = resource_of("events.k8s.io/v1", "Event")
LEASES: Final = resource_of("coordination.k8s.io/v1", "Lease")
PRIORITY_CLASSES: Final = resource_of("scheduling.k8s.io/v1", "PriorityClass")
RUNTIME_CLASSES: Final = resource_of("node.k8s.io/v1", "RuntimeClass")
DEPLOYMENTS: Final = resource_of("apps/v1", "Deployment")
REPLICA_SETS: Final = resource_of("apps/v1", "ReplicaSet")
STATEFUL_SETS: Final = resource_of("apps/v1", "StatefulSet")
DAEMON_SETS: Final = resource_of("apps/v1", "DaemonSet")
JOBS: Final = resource_of("batch/v1", "Job")
CRON_JOBS: Final = resource_of("batch/v1", "CronJob")
BUDGETS: Final = resource_of("policy/v1", "PodDisruptionBudget")
NETWORK_POLICIES: Final = resource_of("networking.k8s.io/v1", "NetworkPolicy")
CRDS: Final = resource_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
ACCESS_REVIEWS: Final = resource_of("authorization.k8s.io/v1", "SubjectAccessReview")
TOKEN_REVIEWS: Final = resource_of("authentication.k8s.io/v1", "TokenReview")

CLUSTER_ROLES: Final = _rbac("ClusterRole")
CLUSTER_ROLE_BINDINGS: Final = _rbac("ClusterRoleBinding")
ROLES: Final = _rbac("Role")
ROLE_BINDINGS: Final = _rbac("RoleBinding")

MUTATING_WEBHOOKS: Final = _admission("MutatingWebhookConfiguration")
VALIDATING_WEBHOOKS: Final = _admission("ValidatingWebhookConfiguration")
MUTATING_POLICIES: Final = _admission("MutatingAdmissionPolicy")
MUTATING_BINDINGS: Final = _admission("MutatingAdmissionPolicyBinding")
VALIDATING_POLICIES: Final = _admission("ValidatingAdmissionPolicy")
VALIDATING_BINDINGS: Final = _admission("ValidatingAdmissionPolicyBinding")
