"""RBAC of Bursar: service accounts with the fewest permissions, and roles for tenants.

Permissions that only some installations need, such as those for the capacity of nodes, are
separate manifests.
"""

from collections.abc import Iterable
from typing import Final

from bursar.app.capacity.places import CAPACITY_CONFIG, PRESET_CONFIG
from bursar.app.cluster.kinds import RBAC_GROUP
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.counting.kinds import COUNTING_POLICIES, KUBEVIRTS, MIGRATIONS, VMIS
from bursar.app.install.admission import GatingSettings
from bursar.app.install.documents import (
    METRICS_READER,
    OBSERVE,
    Document,
    document,
    granted,
    metrics_review_rules,
    permission,
)
from bursar.app.install.policies.confinement import (
    CRITICAL_PODS,
    confinement_documents,
    node_confinement_documents,
)
from bursar.app.names import CONTROLLER, METRICS_PATH, PROMISES, WEBHOOK
from bursar.app.quota.kinds import CLUSTER_RESOURCE_QUOTAS, GROUP

CAPACITY: Final = f"{CONTROLLER}-capacity"
POD_SECURITY: Final = "pod-security.kubernetes.io"
READ: Final = ("get", "list", "watch")
KEEP: Final = ("create", "patch", "delete")
"""What a reconciler needs for objects of its own: it never replaces an object as a whole."""
WRITE: Final = ("create", "update", "patch", "delete")


def access_documents(settings: GatingSettings, *, has_agent: bool = False) -> tuple[Document, ...]:
    """The namespace, the two service accounts with their roles, and roles for users.

    The agent mounts folders of the host, which the Pod Security Standards allow only as
    `privileged`. All other pods satisfy `restricted`.

    The policies about the accounts express what RBAC cannot: to which fields a patch is limited,
    and that the admission server creates quotas only with dry-run.
    """
    level = "privileged" if has_agent else "restricted"
    labels = {GROUP: "", f"{POD_SECURITY}/enforce": level, f"{POD_SECURITY}/warn": level}
    namespace = document("v1", "Namespace", settings.namespace, labels=labels)
    leases = "coordination.k8s.io"
    election = [
        permission(("get", "patch"), "leases", group=leases, names=(CONTROLLER,)),
        permission(("create",), "leases", group=leases),
        permission(("get", "patch"), "configmaps", names=(PROMISES,)),
        permission(("create",), "configmaps"),
        # The annotation that switches the gate on; its uid, for the owner of Lease and Secrets.
        permission((*READ, "patch"), "serviceaccounts", names=(CONTROLLER,)),
    ]
    leader = [
        permission(("get",), "leases", group=leases, names=(CONTROLLER,)),
        permission(OBSERVE, "serviceaccounts", names=(CONTROLLER,)),
    ]
    trial = [permission(("create",), "resourcequotas"), *metrics_review_rules()]
    if settings.allow_cluster_quota:
        trial.append(_openshift(("create",)))
    return (
        namespace,
        _critical_pods(settings),
        *_account(settings, CONTROLLER, _controller_rules(settings), election),
        *_account(settings, WEBHOOK, trial, leader),
        *_tenant_roles(settings),
        *confinement_documents(settings.namespace, has_cluster_quota=settings.allow_cluster_quota),
        _metrics_reader(),
    )


def _metrics_reader() -> Document:
    """The role of Prometheus. It is not bound: the manifests do not know its service account."""
    role = document(f"{RBAC_GROUP}/v1", "ClusterRole", METRICS_READER, labels={GROUP: ""})
    role["rules"] = [{"nonResourceURLs": [METRICS_PATH], "verbs": ["get"]}]
    return role


def _critical_pods(settings: GatingSettings) -> Document:
    """Allows pods of the system's priority classes.

    Some clusters, such as GKE's, refuse them outside kube-system unless a ResourceQuota names them.
    """
    labels = {GROUP: ""}
    name, namespace = CRITICAL_PODS, settings.namespace
    found = document("v1", "ResourceQuota", name, namespace=namespace, labels=labels)
    classes: Document = {
        "scopeName": "PriorityClass",
        "operator": "In",
        "values": ["system-cluster-critical", "system-node-critical"],
    }
    # More than any cluster has nodes, for the agents.
    found["spec"] = {"hard": {"pods": "100k"}, "scopeSelector": {"matchExpressions": [classes]}}
    return found


def _controller_rules(settings: GatingSettings) -> list[Document]:
    rules = [
        permission((*OBSERVE, "patch"), "pods"),
        permission(OBSERVE, "namespaces"),
        permission((*OBSERVE, *KEEP), "resourcequotas"),
        permission(OBSERVE, "applicationawareresourcequotas", group=GROUP),
        permission(("patch",), "applicationawareresourcequotas/status", group=GROUP),
        permission(("create", "patch"), "events", group="events.k8s.io"),
        # The controller also reviews the webhook's token, which comes with questions about resizes.
        *metrics_review_rules(),
        # The objects that say in which namespaces pods are gated. The controller compares them with
        # its own selector.
        *(
            permission(("get",), resource.plural, group=resource.group, names=(name,))
            for resource, name in CONFIGURATIONS
        ),
        # Without KubeVirt these kinds do not exist, and the rule permits nothing.
        permission(OBSERVE, VMIS.plural, MIGRATIONS.plural, KUBEVIRTS.plural, group=VMIS.group),
        permission(OBSERVE, COUNTING_POLICIES.plural, group=COUNTING_POLICIES.group),
        permission(("patch",), f"{COUNTING_POLICIES.plural}/status", group=COUNTING_POLICIES.group),
    ]
    if settings.allow_cluster_quota:
        cluster = "applicationawareclusterresourcequotas"
        rules += [
            permission(OBSERVE, cluster, group=GROUP),
            permission(("patch",), f"{cluster}/status", group=GROUP),
            permission(
                (*OBSERVE, *KEEP), "applicationawareappliedclusterresourcequotas", group=GROUP
            ),
            _openshift((*OBSERVE, *KEEP)),
        ]
    return rules


def _openshift(verbs: tuple[str, ...]) -> Document:
    """A rule about ClusterResourceQuotas. Without OpenShift it permits nothing.

    The kind may come later, so the rule is always there. The policies leave only managed ones.
    """
    kind = CLUSTER_RESOURCE_QUOTAS
    return permission(verbs, kind.plural, group=kind.group)


def _tenant_roles(settings: GatingSettings) -> tuple[Document, Document]:
    """A role that lets viewers of a namespace read its quotas, and a role to write them.

    The second role is not bound or aggregated: administrators decide who can write quotas. The
    role `admin` of Kubernetes cannot write ResourceQuotas either, because a tenant that can change
    its own quota is not limited by it.
    """
    seen = ["applicationawareresourcequotas"]
    if settings.allow_cluster_quota:
        seen.append("applicationawareappliedclusterresourcequotas")
    # `edit` and `admin` include `view`.
    labels = {GROUP: "", f"{RBAC_GROUP}/aggregate-to-view": "true"}
    viewer = document(f"{RBAC_GROUP}/v1", "ClusterRole", "aaq-quota-viewer", labels=labels)
    viewer["rules"] = [permission(READ, *seen, group=GROUP)]
    editor = document(f"{RBAC_GROUP}/v1", "ClusterRole", "aaq-quota-editor", labels={GROUP: ""})
    editor["rules"] = [permission((*READ, *WRITE), seen[0], group=GROUP)]
    return viewer, editor


def _account(
    settings: GatingSettings, name: str, everywhere: list[Document], at_home: list[Document]
) -> Iterable[Document]:
    home = settings.namespace
    yield document("v1", "ServiceAccount", name, namespace=home, labels={GROUP: ""})
    yield from _granted(settings, name, "", everywhere, account=name)
    yield from _granted(settings, name, home, at_home, account=name)


def _granted(
    settings: GatingSettings,
    name: str,
    namespace: str,
    rules: list[Document],
    *,
    account: str = CONTROLLER,
) -> Iterable[Document]:
    home, labels = settings.namespace, {GROUP: ""}
    return granted(name, rules, account=account, home=home, namespace=namespace, labels=labels)


def capacity_documents(settings: GatingSettings, preset_namespace: str) -> tuple[Document, ...]:
    """The additional permissions of a controller that manages the capacity of nodes.

    The status of a node has more than amounts, and its update may change labels too. So a policy
    says what the controller may change.
    """
    everywhere = [
        permission(OBSERVE, "nodes"),
        # Capacity and its annotation are written in one patch of the status.
        permission(("patch",), "nodes/status"),
    ]
    places = {settings.namespace: CAPACITY_CONFIG, preset_namespace: PRESET_CONFIG}
    if settings.namespace == preset_namespace:
        both = [permission(OBSERVE, "configmaps", names=(CAPACITY_CONFIG, PRESET_CONFIG))]
        grants = [(settings.namespace, both)]
    else:
        grants = [
            (place, [permission(OBSERVE, "configmaps", names=(n,))]) for place, n in places.items()
        ]
    return (
        *node_confinement_documents(settings.namespace),
        *_granted(settings, CAPACITY, "", everywhere),
        *(each for place, rules in grants for each in _granted(settings, CAPACITY, place, rules)),
    )
