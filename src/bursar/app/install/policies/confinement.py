"""Policies that limit Bursar's service accounts and protect managed quotas.

RBAC grants a verb on a whole object. The controller may patch pods, but needs only to remove the
quota gate. The webhook may create ResourceQuotas, but does so only with dry-run. If a token of one
of these accounts is stolen, the policies leave no more than that. The extender may bind pods, and
the API server copies labels and annotations of a Binding to the pod.

RBAC cannot limit a creation to names, either. With any Secret in Bursar's namespace the controller
could get tokens of the other accounts there. With any EndpointSlice the extender, which has the key
of the serving certificate, could answer the API server in place of the webhook.

A managed ResourceQuota enforces a part of a tenant's limits, so a tenant must not change it,
whatever its role says about ResourceQuotas. A user who may change the quota itself may do so.

The same holds for OpenShift's ClusterResourceQuotas. Without OpenShift no request matches the rules
about them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from bursar.app.admission.pods import Installation
from bursar.app.certificates import aaq_names
from bursar.app.certificates.names import CA_SECRET, TLS_SECRET
from bursar.app.extender.kinds import ENDPOINT_SLICES, STORAGE_CAPACITIES
from bursar.app.extender.names import EXTENDER, SIGNAL
from bursar.app.install.documents import (
    ADMINISTRATORS,
    Document,
    admission_policy,
    rule,
    selector_document,
    validation,
)
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.app.quota.kinds import (
    APPLICATION_QUOTAS,
    CLUSTER_QUOTAS,
    CLUSTER_RESOURCE_QUOTAS,
    GROUP,
    LABEL,
    LABEL_VALUE,
)
from bursar.app.quota.managed.names import CLUSTER_MANAGED_SUFFIX, MANAGED_SUFFIX
from bursar.core.model.namespace import NAME_LABEL
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.core.peerpods.capacity import MARK_ANNOTATION
from bursar.core.quota.quota import GATE

CONFINE_PODS: Final = "confine-controller.bursar.io"
CONFINE_QUOTAS: Final = "confine-controller-quotas.bursar.io"
CONFINE_SECRETS: Final = "confine-controller-secrets.bursar.io"
CONFINE_NODES: Final = "confine-controller-nodes.bursar.io"
CONFINE_WEBHOOK: Final = "confine-webhook.bursar.io"
CONFINE_OPERATOR: Final = "confine-operator.bursar.io"
CONFINE_OPERATOR_QUOTAS: Final = "confine-operator-quotas.bursar.io"
CONFINE_OPERATOR_SECRETS: Final = "confine-operator-secrets.bursar.io"
CONFINE_EXTENDER: Final = "confine-extender.bursar.io"
CONFINE_EXTENDER_OBJECTS: Final = "confine-extender-objects.bursar.io"
PROTECT_MANAGED: Final = "protect-managed-quotas.bursar.io"
PROTECT_CLUSTER_MANAGED: Final = "protect-managed-cluster-quotas.bursar.io"

ONLY_THE_GATE: Final = (
    f"{CONTROLLER} may only remove the scheduling gate {GATE} from a pod and change nothing else; "
    "another webhook that changes pods at every update may be the cause"
)
ONLY_MANAGED: Final = f"{CONTROLLER} may write only quotas whose names end with"
CRITICAL_PODS: Final = "bursar-critical-pods"
"""The ResourceQuota that lets Bursar's own pods have a PriorityClass of the system."""
ONLY_CRITICAL_PODS: Final = f"may write no quota but {CRITICAL_PODS} in its own namespace"
ONLY_DRY_RUN: Final = f"{WEBHOOK} may create quotas only with dry-run"
ONLY_CERTIFICATES: Final = (
    "may create only the Secrets of certificates: Kubernetes writes the token of another account "
    "into a Secret that asks for it"
)
ONLY_ITS_SERVICE: Final = (
    f"may write only the EndpointSlice {EXTENDER} of its Service, and the CSIStorageCapacity "
    f"{SIGNAL} of a StorageClass that does not exist"
)
ONLY_EXTENDED: Final = (
    f"{CONTROLLER} may change only the capacity of extended resources in the status of a node, and "
    f"the annotation {MARK_ANNOTATION}"
)
ONLY_THE_NODE: Final = (
    "may only choose the node of a pod: its Bindings have no annotations, and no labels except "
    "those that the API server takes from the node"
)
MAY_NOT_WRITE_MANAGED: Final = (
    f"Bursar keeps this ResourceQuota for an {APPLICATION_QUOTAS.kind}: change that quota instead"
)
MAY_NOT_WRITE_CLUSTER_MANAGED: Final = (
    f"Bursar keeps this {CLUSTER_RESOURCE_QUOTAS.kind} for an {CLUSTER_QUOTAS.kind}: "
    "change that quota instead"
)

_SYSTEM: Final = "system:serviceaccount:kube-system:"
_WRITERS: Final = (
    f"{_SYSTEM}generic-garbage-collector",
    f"{_SYSTEM}namespace-controller",
    f"{_SYSTEM}resourcequota-controller",
    # If the controller manager uses one identity for all its controllers.
    "system:kube-controller-manager",
)
_SPEC_FIELDS: Final = (
    "containers",
    "initContainers",
    "ephemeralContainers",
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "tolerations",
    "nodeSelector",
    "affinity",
)
"""Fields that Kubernetes lets an update of a pod change, besides the gates."""
_TOPOLOGY: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""Labels that the API server writes into a Binding. It replaces those that the request had."""
_CERTIFICATES: Final = (CA_SECRET, TLS_SECRET, aaq_names.CA_SECRET, aaq_names.TLS_SECRET)
"""The Secrets that a controller makes, with and without `--aaq-certificates`."""
_NODE_FIELDS: Final = (
    "metadata.?labels",
    "metadata.?ownerReferences",
    "metadata.?finalizers",
    "status.?phase",
    "status.?conditions",
    "status.?addresses",
    "status.?daemonEndpoints",
    "status.?nodeInfo",
    "status.?images",
    "status.?volumesInUse",
    "status.?volumesAttached",
    "status.?config",
    "status.?runtimeHandlers",
    "status.?features",
    "status.?declaredFeatures",
)
"""Fields that an update of a node's status can change, besides annotations and amounts."""
_META_FIELDS: Final = ("labels", "annotations", "ownerReferences", "finalizers")


def confinement_documents(home: str, *, has_cluster_quota: bool = True) -> tuple[Document, ...]:
    """The policies for an installation in this namespace. They apply in the whole cluster."""
    controller = Installation(home).controller_user
    writes = [rule(_EVERY_WRITE, "resourcequotas")]
    if has_cluster_quota:
        writes.append(_cluster_quota_writes())
    specs: dict[str, Document] = {
        CONFINE_PODS: _pods(controller),
        CONFINE_QUOTAS: _quotas(controller, writes),
        CONFINE_WEBHOOK: _trials(f"system:serviceaccount:{home}:{WEBHOOK}", writes),
        PROTECT_MANAGED: _managed(controller),
    }
    if has_cluster_quota:
        specs[PROTECT_CLUSTER_MANAGED] = _cluster_managed(controller)
    return (*_documents(specs), *_documents({CONFINE_SECRETS: _secrets(controller)}, home))


def _documents(specs: Mapping[str, Document], namespace: str = "") -> Iterator[Document]:
    """The policies by name. They apply in that namespace, or without one in the whole cluster."""
    where: Document = {}
    if namespace:
        there = LabelExpression(key=NAME_LABEL, operator="In", values=(namespace,))
        selector = LabelSelector(match_expressions=(there,))
        where = {"matchResources": {"namespaceSelector": selector_document(selector)}}
    for name, spec in specs.items():
        yield from admission_policy("Validating", name, spec, where, labels={GROUP: ""})


def node_confinement_documents(home: str) -> tuple[Document, ...]:
    """The policy for a controller that manages the capacity of nodes."""
    kept = [f"object.{field} == oldObject.{field}" for field in _NODE_FIELDS]
    parts = {
        "metadata.?annotations": f"key == '{MARK_ANNOTATION}'",
        "status.?capacity": "key.contains('/')",
        "status.?allocatable": "key.contains('/')",
    }
    kept += [_is_kept_except(each, may_change) for each, may_change in parts.items()]
    spec: Document = {
        "matchConstraints": {"resourceRules": [_NODE_STATUS]},
        "matchConditions": [_is_user(Installation(home).controller_user)],
        "validations": [validation(each, ONLY_EXTENDED) for each in kept],
    }
    return tuple(_documents({CONFINE_NODES: spec}))


def _is_kept_except(field: str, may_change: str) -> str:
    """CEL: a map of texts is as it was, except under keys for which `may_change` holds."""
    before, after = f"oldObject.{field}.orValue({{}})", f"object.{field}.orValue({{}})"
    return (
        f"{before}.all(key, {may_change} || {after}[?key] == {before}[?key]) && "
        f"{after}.all(key, {may_change} || key in {before})"
    )


def operator_confinement_documents(home: str, account: str) -> tuple[Document, ...]:
    """The policies for the operator. Of pods, it may change no more than the controller may.

    It has the controller's right to write quotas to be able to grant it, and for one quota of the
    installation.
    """
    user = f"system:serviceaccount:{home}:{account}"
    is_ours = f"request.namespace == '{home}' && request.name == '{CRITICAL_PODS}'"
    quotas: Document = {
        "matchConstraints": {
            "resourceRules": [rule(_EVERY_WRITE, "resourcequotas"), _cluster_quota_writes()]
        },
        "matchConditions": [_is_user(user)],
        "validations": [validation(is_ours, f"{account} {ONLY_CRITICAL_PODS}")],
    }
    specs = {CONFINE_OPERATOR: _pods(user, account), CONFINE_OPERATOR_QUOTAS: quotas}
    secrets = {CONFINE_OPERATOR_SECRETS: _secrets(user, account)}
    return (*_documents(specs), *_documents(secrets, home))


def extender_confinement_documents(home: str) -> tuple[Document, ...]:
    """The policies for the extender.

    The labels and annotations of a pod stay as they are, and of the kinds that it may create in its
    own namespace, it writes its own objects only.
    """
    is_extender = _is_user(f"system:serviceaccount:{home}:{EXTENDER}")
    labels = ", ".join(f"'{label}'" for label in _TOPOLOGY)
    bare = (
        "object.metadata.?annotations.orValue({}).size() == 0 && "
        f"object.metadata.?labels.orValue({{}}).all(label, label in [{labels}])"
    )
    bindings: Document = {
        "matchConstraints": {"resourceRules": [rule(["CREATE"], "pods/binding", "bindings")]},
        "matchConditions": [is_extender],
        "validations": [validation(bare, f"{EXTENDER} {ONLY_THE_NODE}")],
    }
    service = "object.metadata.?labels[?'kubernetes.io/service-name'].orValue('')"
    is_own = (
        f"request.resource.resource == '{ENDPOINT_SLICES.plural}' "
        f"? request.name == '{EXTENDER}' && {service} == '{EXTENDER}' "
        f": request.name == '{SIGNAL}' && object.storageClassName == '{SIGNAL}'"
    )
    writes = [
        rule(("CREATE", "UPDATE"), kind.plural, group=kind.group, version=kind.version)
        for kind in (ENDPOINT_SLICES, STORAGE_CAPACITIES)
    ]
    objects: Document = {
        "matchConstraints": {"resourceRules": writes},
        "matchConditions": [is_extender],
        "validations": [validation(is_own, f"{EXTENDER} {ONLY_ITS_SERVICE}")],
    }
    return (
        *_documents({CONFINE_EXTENDER: bindings}),
        *_documents({CONFINE_EXTENDER_OBJECTS: objects}, home),
    )


_NODE_STATUS: Final = rule(["UPDATE"], "nodes/status", scope="Cluster")
_EVERY_WRITE: Final = ("CREATE", "UPDATE", "DELETE")


def _is_user(user: str) -> Document:
    return {"name": "this-account", "expression": f"request.userInfo.username == '{user}'"}


def _pods(user: str, account: str = CONTROLLER) -> Document:
    """Subresources are left out: the account has no right to them, and kubelets write status often.

    Each policy about a resource costs the API server time for every write to it.
    """
    gates = "{0}.spec.?schedulingGates.orValue([]).map(gate, gate.name)"
    before, after = gates.format("oldObject"), gates.format("object")
    kept = [f"object.spec.?{field} == oldObject.spec.?{field}" for field in _SPEC_FIELDS]
    kept += [f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in _META_FIELDS]
    message = ONLY_THE_GATE.replace(CONTROLLER, account, 1)
    is_update = "request.operation == 'UPDATE'"
    loses_gate = f"{after} == {before}.filter(name, name != '{GATE}') && {after} != {before}"
    return {
        "matchConstraints": {"resourceRules": [rule(_EVERY_WRITE, "pods")]},
        "matchConditions": [_is_user(user)],
        "validations": [
            validation(is_update, message),
            validation(f"{is_update} && {loses_gate}", message),
            validation(f"{is_update} && {' && '.join(kept)}", message),
        ],
    }


def _secrets(user: str, account: str = CONTROLLER) -> Document:
    """The type of a Secret is immutable, so updates are left out."""
    known = ", ".join(f"'{name}'" for name in _CERTIFICATES)
    is_certificate = (
        f"request.name in [{known}] && object.?type.orValue('') in ['Opaque', 'kubernetes.io/tls']"
    )
    return {
        "matchConstraints": {"resourceRules": [rule(["CREATE"], "secrets")]},
        "matchConditions": [_is_user(user)],
        "validations": [validation(is_certificate, f"{account} {ONLY_CERTIFICATES}")],
    }


def _quotas(controller: str, writes: list[Document]) -> Document:
    suffix = f"({_IS_OPENSHIFTS} ? '{CLUSTER_MANAGED_SUFFIX}' : '{MANAGED_SUFFIX}')"
    names = f"{MANAGED_SUFFIX} or {CLUSTER_MANAGED_SUFFIX}"
    return {
        "matchConstraints": {"resourceRules": writes},
        "matchConditions": [_is_user(controller)],
        "validations": [validation(f"request.name.endsWith({suffix})", f"{ONLY_MANAGED} {names}")],
    }


_IS_OPENSHIFTS: Final = f"request.resource.group == '{CLUSTER_RESOURCE_QUOTAS.group}'"


def _cluster_quota_writes() -> Document:
    """Subresources are left out: OpenShift writes the status, as a user that is not known here."""
    kind = CLUSTER_RESOURCE_QUOTAS
    group, version = kind.group, kind.version
    return rule(_EVERY_WRITE, kind.plural, group=group, version=version, scope="Cluster")


def _trials(webhook: str, writes: list[Document]) -> Document:
    is_trial = "request.operation == 'CREATE' && request.?dryRun.orValue(false)"
    return {
        "matchConstraints": {"resourceRules": writes},
        "matchConditions": [_is_user(webhook)],
        "validations": [validation(is_trial, ONLY_DRY_RUN)],
    }


def _managed(controller: str) -> Document:
    may_change_quota = (
        f"authorizer.group('{APPLICATION_QUOTAS.group}').resource('{APPLICATION_QUOTAS.plural}')"
        ".namespace(request.namespace).check('update').allowed()"
    )
    resources = ("resourcequotas", "resourcequotas/status")
    return {
        "matchConstraints": {"resourceRules": [rule(_EVERY_WRITE, *resources)]},
        "matchConditions": _by_others(controller, MANAGED_SUFFIX),
        "validations": [validation(may_change_quota, MAY_NOT_WRITE_MANAGED)],
    }


def _cluster_managed(controller: str) -> Document:
    may_change_quota = (
        f"authorizer.group('{CLUSTER_QUOTAS.group}').resource('{CLUSTER_QUOTAS.plural}')"
        ".check('update').allowed()"
    )
    return {
        "matchConstraints": {"resourceRules": [_cluster_quota_writes()]},
        "matchConditions": _by_others(controller, CLUSTER_MANAGED_SUFFIX),
        "validations": [validation(may_change_quota, MAY_NOT_WRITE_CLUSTER_MANAGED)],
    }


def _by_others(controller: str, suffix: str) -> list[Document]:
    """Match objects with our label or a name that ends in `suffix`, written by other users.

    The controllers that must write them are not matched, nor are cluster administrators. Names
    count as well: with a finalizer on an object of that name, a tenant could keep the name taken.
    """
    # The request of a deletion of all objects has no name.
    ours = (
        f"({{0}} != null && ({{0}}.metadata.?name.orValue('').endsWith('{suffix}') || "
        f"{{0}}.metadata.?labels[?'{LABEL}'].orValue('') == '{LABEL_VALUE}'))"
    )
    either = " || ".join(ours.format(each) for each in ("object", "oldObject"))
    users = ", ".join(f"'{user}'" for user in (controller, *_WRITERS))
    others = (
        f"!(request.userInfo.username in [{users}]) && "
        f"!('{ADMINISTRATORS}' in request.userInfo.groups)"
    )
    return [
        {"name": "managed", "expression": either},
        {"name": "no-keeper", "expression": others},
    ]
