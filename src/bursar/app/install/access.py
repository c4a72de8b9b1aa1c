"""RBAC of Bursar: service accounts with the fewest permissions, and roles for tenants.

Permissions that only some installations need, such as those for the capacity of nodes, are
separate manifests.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from bursar.app.capacity.places import CAPACITY_CONFIG, PRESET_CONFIG
from bursar.app.install.admission import RBAC, Document, GatingSettings, document
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.app.quota.kinds import GROUP

CAPACITY: Final = f"{CONTROLLER}-capacity"
READ: Final = ("get", "list", "watch")
WRITE: Final = ("create", "update", "patch", "delete")


def access_documents(settings: GatingSettings) -> tuple[Document, ...]:
    """The namespace, the two service accounts with their roles, and roles for tenants.

    The admission server creates ResourceQuotas only with dry-run, which RBAC cannot express.
    """
    namespace = document("v1", "Namespace", settings.namespace, labels={GROUP: ""})
    leases = "coordination.k8s.io"
    election = [
        _may(("get", "patch"), "leases", group=leases, names=(CONTROLLER,)),
        _may(("create",), "leases", group=leases),
    ]
    leader = [_may(("get",), "leases", group=leases, names=(CONTROLLER,))]
    trial = [_may(("create",), "resourcequotas")]
    return (
        namespace,
        *_account(settings, CONTROLLER, _controller_rules(settings), election),
        *_account(settings, WEBHOOK, trial, leader),
        *_tenant_roles(settings),
    )


def _controller_rules(settings: GatingSettings) -> list[Document]:
    rules = [
        _may((*READ, "patch"), "pods"),
        _may(("list", "watch"), "namespaces"),
        _may(("list", "watch", "create", "patch", "delete"), "resourcequotas"),
        _may(("list", "watch"), "applicationawareresourcequotas", group=GROUP),
        _may(("patch",), "applicationawareresourcequotas/status", group=GROUP),
        _may(("create", "patch"), "events", group="events.k8s.io"),
        _may(("create",), "tokenreviews", group="authentication.k8s.io"),
    ]
    if settings.allow_cluster_quota:
        cluster = "applicationawareclusterresourcequotas"
        rules += [
            _may(("list", "watch"), cluster, group=GROUP),
            _may(("patch",), f"{cluster}/status", group=GROUP),
            _may((*READ, *WRITE), "applicationawareappliedclusterresourcequotas", group=GROUP),
        ]
    return rules


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
    labels = {GROUP: "", f"{RBAC}/aggregate-to-view": "true"}
    viewer = document(f"{RBAC}/v1", "ClusterRole", "aaq-quota-viewer", labels=labels)
    viewer["rules"] = [_may(READ, *seen, group=GROUP)]
    editor = document(f"{RBAC}/v1", "ClusterRole", "aaq-quota-editor", labels={GROUP: ""})
    editor["rules"] = [_may((*READ, *WRITE), seen[0], group=GROUP)]
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
    """A Role or ClusterRole with these rules, and its binding."""
    prefix, labels = "" if namespace else "Cluster", {GROUP: ""}
    role = document(f"{RBAC}/v1", f"{prefix}Role", name, namespace=namespace, labels=labels)
    role["rules"] = rules
    binding = document(
        f"{RBAC}/v1", f"{prefix}RoleBinding", name, namespace=namespace, labels=labels
    )
    binding["roleRef"] = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name}
    binding["subjects"] = [
        {"kind": "ServiceAccount", "namespace": settings.namespace, "name": account}
    ]
    return role, binding


def _may(
    verbs: Sequence[str], *resources: str, group: str = "", names: Sequence[str] = ()
) -> Document:
    rule: Document = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule


def capacity_documents(settings: GatingSettings, preset_namespace: str) -> tuple[Document, ...]:
    """The additional permissions of a controller that manages the capacity of nodes."""
    everywhere = [
        _may(READ, "nodes"),
        # Capacity and its annotation are written in one patch of the status.
        _may(("patch",), "nodes/status"),
    ]
    places = {settings.namespace: CAPACITY_CONFIG, preset_namespace: PRESET_CONFIG}
    if settings.namespace == preset_namespace:
        both = [_may(READ, "configmaps", names=(CAPACITY_CONFIG, PRESET_CONFIG))]
        grants = [(settings.namespace, both)]
    else:
        grants = [(place, [_may(READ, "configmaps", names=(n,))]) for place, n in places.items()]
    return (
        *_granted(settings, CAPACITY, "", everywhere),
        *(each for place, rules in grants for each in _granted(settings, CAPACITY, place, rules)),
    )
