"""Manifests that gate pods: admission policies or webhooks.

Both are made from the same settings. *Policies* are CEL expressions that the API server evaluates:
no process of Bursar takes part in the creation of a pod, so none can delay or prevent it.
*Webhooks* call `bursar webhook`, which also checks resizes and new quotas. CEL cannot do that.

Both apply to pods of the selected namespaces only. If a namespace leaves the selection, its gates
are no longer protected, and the controller removes them.

The functions return plain data for `kubectl apply` and do not access a cluster.
"""

from dataclasses import dataclass
from typing import Final

from bursar.app.admission.pods import (
    MAY_NOT_NAME_A_NODE,
    MAY_NOT_REMOVE,
    ONLY_ONE_AAQ,
    Installation,
    queue_is_full,
)
from bursar.app.cluster.ports import Resource
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.app.install.documents import (
    ADMISSION,
    Document,
    Endpoint,
    admission_policy,
    document,
    require_namespace,
    rule,
    selector_document,
    spared_namespaces,
    validation,
    webhook,
)
from bursar.app.install.policies.quota_policy import quota_policy_documents
from bursar.app.names import (
    CONTROLLER,
    FULL_QUEUES_ANNOTATION,
    GATING_ACTIVE,
    GATING_ANNOTATION,
    GATING_POLICY,
    GATING_WEBHOOK,
    GATING_WEBHOOKS,
    OWN_NAMESPACE,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
    REMOVAL_WEBHOOK,
    RESIZE_WEBHOOK,
    WAITING_PODS_POLICY,
    WEBHOOK,
)
from bursar.app.quota.kinds import AAQS, APPLICATION_QUOTAS, CLUSTER_QUOTAS, GROUP
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector, selector_of
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL, KUBE_SYSTEM

MAY_NOT_GROW: Final = (
    "requests and limits of a running pod may only shrink here: without a webhook a resize "
    "cannot be checked against the quotas; replace the pod instead"
)
MAY_NOT_CHANGE_SCOPE: Final = (
    "activeDeadlineSeconds cannot be added to a pod that has passed the quota gate: the pod would "
    "move to another quota, which was not checked; create the pod with it. The scope is used by "
)
DEADLINE_SCOPES: Final = ("NotTerminating", "Terminating")
"""Scopes that select pods by a field that can be added to a running pod."""

SERVE_PATH: Final = "/serve-path"
GATING_TIMEOUT_S: Final = 5
"""Timeout of webhooks that make no calls of their own. Clients wait for the creation of a pod."""
ASKING_TIMEOUT_S: Final = 10
"""Timeout of webhooks that call the API server or the controller."""

_BY_DEFAULT: Final = LabelSelector(
    match_expressions=(LabelExpression(key=GATING_LABEL, operator="Exists"),)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatingSettings:
    """Settings of the gate. Raises `ValueError` for an invalid namespace or selector."""

    namespace: str = OWN_NAMESPACE
    """The namespace of Bursar. Its pods and those of kube-system are never gated."""
    namespace_selector: LabelSelector | None = None
    """Selects the gated namespaces. None: those with `GATING_LABEL`. An empty selector: all."""
    allow_cluster_quota: bool = True
    has_cluster_resource_quotas: bool = False
    """For policies only: the API server serves OpenShift's ClusterResourceQuota, so cluster-wide
    quotas may limit what a gate cannot enforce. A webhook finds out by itself."""
    allow_growth: bool = False
    """For policies only: do not deny resizes that make a running pod larger."""
    configuration_exists: bool = False
    """For webhooks only: an AAQ object exists, so the creation of another is denied."""

    def __post_init__(self) -> None:
        require_namespace(self.namespace)
        selector_of(self.gated_namespaces)

    @property
    def controller_user(self) -> str:
        return Installation(self.namespace).controller_user

    @property
    def selected_namespaces(self) -> LabelSelector:
        """The selector as it was chosen. Webhooks have it as it is, as AAQ's do."""
        return _BY_DEFAULT if self.namespace_selector is None else self.namespace_selector

    @property
    def gated_namespaces(self) -> LabelSelector:
        """The selected namespaces without those that are never gated, for policies."""
        wanted = self.selected_namespaces
        never = spared_namespaces(self.namespace)
        return LabelSelector(
            match_labels=wanted.match_labels,
            match_expressions=(*wanted.match_expressions, never),
        )


# ------------------------------------------------------------------ expressions


def _gated(pod: str) -> str:
    return f"{pod}.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{GATE}')"


_UNGATED: Final = {"name": "gate-missing", "expression": f"!{_gated('object')}"}
_GATE_REMOVED: Final = {
    "name": "gate-removed",
    "expression": f"{_gated('oldObject')} && !{_gated('object')}",
}
_RELEASED: Final = {"name": "pod-released", "expression": f"!{_gated('oldObject')}"}
# A mirror pod represents a static pod, which the kubelet runs in any case.
_NO_MIRROR: Final = {
    "name": "no-mirror-of-a-static-pod",
    "expression": (
        "!('system:nodes' in request.userInfo.groups && "
        "'kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"
    ),
}


# A leader writes the annotation when it is able to release pods (`app/controller/gate_activation`).
_ACTIVATED: Final = {
    "name": "controller-is-ready",
    "expression": (
        f"params.metadata.?annotations[?'{GATING_ANNOTATION}'].orValue('') == '{GATING_ACTIVE}'"
    ),
}


def _elsewhere(settings: GatingSettings) -> Document:
    """For webhooks: exclude the namespaces that are never gated.

    The selector of a webhook is the one that was chosen and nothing else, because AAQ's users
    compare it with the selector of their AAQ object.
    """
    spared = ", ".join(f"'{name}'" for name in (settings.namespace, KUBE_SYSTEM))
    return {"name": "no-spared-namespace", "expression": f"!(request.namespace in [{spared}])"}


def _is_bound(pod: str) -> str:
    return f"{pod}.spec.?nodeName.orValue('') != ''"


def _within(now: str, was: str) -> str:
    """CEL: no request and no limit is new or larger than before."""
    return " && ".join(
        f"{now}.?resources.?{side}.orValue({{}}).all(name, "
        f"name in {was}.?resources.?{side}.orValue({{}}) && "
        f"quantity({now}.resources.{side}[name])"
        f".compareTo(quantity({was}.resources.{side}[name])) <= 0)"
        for side in ("requests", "limits")
    )


# ------------------------------------------------------------------ policies


def policy_documents(settings: GatingSettings) -> tuple[Document, ...]:
    """Gating by policies. Protection comes first, so that no gate is ever unprotected."""
    quotas = quota_policy_documents(
        has_cluster_quota=settings.allow_cluster_quota,
        is_delegated=settings.has_cluster_resource_quotas,
    )
    pairs = [_protection(settings), _bound_pods(settings), single_configuration_documents()]
    pairs.append(waiting_pods_documents(settings))
    if not settings.allow_growth:
        pairs.append(_growth(settings))
    gating = _gating(settings)
    flat = (document for pair in pairs for document in pair)
    return (*quotas, *flat, *scope_policy_documents(settings), *gating)


def scope_policy_documents(settings: GatingSettings) -> tuple[Document, ...]:
    """Policies that keep released pods in the scope in which their quotas were asked.

    They are needed with webhooks, too. The only field by which a pod can change its scope after its
    creation is `activeDeadlineSeconds`, which can be added. Kubernetes does not check its own
    quotas then, and counts the pod under the other quota afterwards.
    """
    pairs = [_scope(settings, APPLICATION_QUOTAS, "params.spec")]
    if settings.allow_cluster_quota:
        # A quota of other namespaces counts as well: labels of namespaces may change.
        pairs.append(_scope(settings, CLUSTER_QUOTAS, "params.spec.quota"))
    return tuple(document for pair in pairs for document in pair)


_POD_CREATION: Final = rule(["CREATE"], "pods")
_POD_UPDATE: Final = rule(["UPDATE"], "pods")
_POD_RESIZE: Final = rule(["UPDATE"], "pods/resize")
_CONFIGURATION: Final = rule(["CREATE"], "aaqs", group=GROUP, scope="Cluster")

Pair = tuple[Document, Document]


def _gating(settings: GatingSettings) -> Pair:
    # Gates are merged by name, so that other gates stay. A JSONPatch whose value is a list of
    # typed objects makes the API server of Kubernetes 1.36 panic.
    typed = f"Object.spec.schedulingGates{{name: '{GATE}'}}"
    gate = f"Object{{spec: Object.spec{{schedulingGates: [{typed}]}}}}"
    spec: Document = {
        # The API server caches service accounts in any case, so this parameter costs it nothing.
        "paramKind": {"apiVersion": "v1", "kind": "ServiceAccount"},
        "matchConstraints": {"resourceRules": [_POD_CREATION]},
        "matchConditions": [
            _UNGATED,
            _ACTIVATED,
            # Another policy denies these pods. With a gate, validation would fail before it.
            {"name": "no-node-yet", "expression": f"!({_is_bound('object')})"},
        ],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gate}}
        ],
        # A webhook that runs later may replace the list of gates.
        "reinvocationPolicy": "IfNeeded",
    }
    return _policy("Mutating", GATING_POLICY, spec, _by_account(settings))


def _by_account(settings: GatingSettings) -> Document:
    """A binding to the gated namespaces, with the controller's service account as parameter."""
    account: Document = {
        "name": CONTROLLER,
        "namespace": settings.namespace,
        # Without the account no user could remove the gate.
        "parameterNotFoundAction": "Allow",
    }
    return {**_in_gated_namespaces(settings), "paramRef": account}


def waiting_pods_documents(settings: GatingSettings) -> Pair:
    """Refuse new pods of namespaces in which too many wait. Webhooks need this policy as well.

    A webhook is not called for a pod that has the gate from its author. This policy sees all pods.
    The leader writes the annotation (`app/controller/queue_limit.py`).
    """
    listed = f"params.metadata.?annotations[?'{FULL_QUEUES_ANNOTATION}'].orValue('')"
    text = queue_is_full("{namespace}", "{most}").replace("'", "\\'")
    text = text.replace("{namespace}", "' + request.namespace + '")
    text = text.replace("{most}", f"' + {listed}.split(',')[0] + '")
    full = {
        **validation(
            f"!{listed}.contains(',' + request.namespace + ',')",
            "too many pods of this namespace wait for quotas",
        ),
        "messageExpression": f"'{text}'".removeprefix("'' + "),
    }
    spec: Document = {
        "paramKind": {"apiVersion": "v1", "kind": "ServiceAccount"},
        "matchConstraints": {"resourceRules": [_POD_CREATION]},
        "matchConditions": [_NO_MIRROR, _ACTIVATED],
        "validations": [full],
    }
    return _policy("Validating", WAITING_PODS_POLICY, spec, _by_account(settings))


def _protection(settings: GatingSettings) -> Pair:
    spec: Document = {
        "matchConstraints": {"resourceRules": [_POD_UPDATE]},
        "matchConditions": [_GATE_REMOVED],
        "validations": [
            validation(f"request.userInfo.username == '{settings.controller_user}'", MAY_NOT_REMOVE)
        ],
    }
    return _policy("Validating", PROTECTION_POLICY, spec, _in_gated_namespaces(settings))


def _bound_pods(settings: GatingSettings) -> Pair:
    spec: Document = {
        "matchConstraints": {"resourceRules": [_POD_CREATION]},
        "matchConditions": [
            {"name": "node-chosen", "expression": _is_bound("object")},
            _NO_MIRROR,
        ],
        "validations": [validation("false", MAY_NOT_NAME_A_NODE)],
    }
    return _policy(
        "Validating", "refuse-bound-pods.bursar.io", spec, _in_gated_namespaces(settings)
    )


def single_configuration_documents() -> Pair:
    """Deny a second AAQ object.

    The policy takes AAQ objects as parameters: without one there is no parameter, and nothing is
    denied. While an API server does not know the parameters, just after the definition was created
    or after a restart, it allows the object: otherwise it would refuse the first AAQ object of a
    user who applies both files at once. The operator installs nothing for a second object anyway.
    """
    spec: Document = {
        "paramKind": {"apiVersion": AAQS.api_version, "kind": AAQS.kind},
        "matchConstraints": {"resourceRules": [_CONFIGURATION]},
        "validations": [validation("params == null", ONLY_ONE_AAQ.message)],
    }
    every: Document = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    policy, binding = _policy("Validating", "single-aaq.bursar.io", spec, every)
    policy["spec"] = {**spec, "failurePolicy": "Ignore"}
    return policy, binding


def _growth(settings: GatingSettings) -> Pair:
    """Deny resizes that make a pod larger. A gated pod is exempt: it is charged at its release."""
    containers = "{0}.spec.containers + {0}.spec.?initContainers.orValue([])"
    spec: Document = {
        "matchConstraints": {"resourceRules": [_POD_RESIZE]},
        "matchConditions": [_RELEASED],
        "variables": [
            {"name": "before", "expression": containers.format("oldObject")},
            {"name": "after", "expression": containers.format("object")},
        ],
        "validations": [
            validation(
                "variables.after.all(now, variables.before.exists(was, was.name == now.name && "
                f"{_within('now', 'was')}))",
                MAY_NOT_GROW,
            ),
            validation(_within("object.spec", "oldObject.spec"), MAY_NOT_GROW),
        ],
    }
    return _policy("Validating", "refuse-growth.bursar.io", spec, _in_gated_namespaces(settings))


def _scope(settings: GatingSettings, quotas: Resource, quota: str) -> Pair:
    """Deny a new deadline of a released pod if a quota of this kind has a scope that reads it.

    A cluster-wide quota may cover other tenants only, and the pod's owner may not read it. So it is
    not named.
    """
    listed = f"{quota}.?scopes.orValue([])"
    selected = f"{quota}.?scopeSelector.?matchExpressions.orValue([])"
    scopes = ", ".join(f"'{scope}'" for scope in DEADLINE_SCOPES)
    holder = "'quota ' + params.metadata.name"
    if not quotas.is_namespaced:
        holder = "'a cluster-wide quota'"
    check: Document = {
        "expression": (
            f"!{listed}.exists(scope, scope in [{scopes}]) && "
            f"!{selected}.exists(each, each.scopeName in [{scopes}])"
        ),
        "message": f"{MAY_NOT_CHANGE_SCOPE}a quota",
        "messageExpression": f"'{MAY_NOT_CHANGE_SCOPE}' + {holder}",
        "reason": "Forbidden",
    }
    added = "has(object.spec.activeDeadlineSeconds) && !has(oldObject.spec.activeDeadlineSeconds)"
    spec: Document = {
        "paramKind": {"apiVersion": quotas.api_version, "kind": quotas.kind},
        "matchConstraints": {"resourceRules": [_POD_UPDATE]},
        "matchConditions": [_RELEASED, {"name": "deadline-added", "expression": added}],
        "validations": [check],
    }
    # Without a namespace: the quotas of the pod's namespace, if the kind has namespaces.
    every: Document = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    sort = "scope" if quotas.is_namespaced else "cluster-scope"
    where = {**_in_gated_namespaces(settings), **every}
    return _policy("Validating", f"keep-{sort}.bursar.io", spec, where)


def _in_gated_namespaces(settings: GatingSettings) -> Document:
    return {"matchResources": {"namespaceSelector": selector_document(settings.gated_namespaces)}}


def _policy(sort: str, name: str, spec: Document, where: Document) -> Pair:
    return admission_policy(sort, name, spec, where, labels={GROUP: "aaq-policies"})


# ------------------------------------------------------------------ webhooks


def webhook_documents(
    settings: GatingSettings, endpoint: Endpoint | None = None
) -> tuple[Document, Document]:
    """The two webhook configurations, with AAQ's names.

    Their match conditions exclude requests that the webhook would allow anyway: pods that have the
    gate, updates that keep it, and requests of the controller.
    """
    endpoint = endpoint or Endpoint()
    client = endpoint.client_config(settings.namespace, SERVE_PATH)
    labels = {GROUP: WEBHOOK}
    mutating = document(ADMISSION, "MutatingWebhookConfiguration", GATING_WEBHOOKS, labels=labels)
    mutating["webhooks"] = [_gater(settings, client)]
    validating = document(
        ADMISSION, "ValidatingWebhookConfiguration", PROTECTION_WEBHOOKS, labels=labels
    )
    validating["webhooks"] = _validators(settings, client)
    return endpoint.annotate(mutating), endpoint.annotate(validating)


def _gater(settings: GatingSettings, client: Document) -> Document:
    return {
        **_webhook(GATING_WEBHOOK, _POD_CREATION, client),
        "namespaceSelector": selector_document(settings.selected_namespaces),
        "matchConditions": [_elsewhere(settings), _UNGATED, _NO_MIRROR],
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": GATING_TIMEOUT_S,
    }


def _validators(settings: GatingSettings, client: Document) -> list[Document]:
    namespaces, elsewhere = selector_document(settings.selected_namespaces), _elsewhere(settings)
    others = {
        "name": "not-the-controller",
        "expression": f"request.userInfo.username != '{settings.controller_user}'",
    }
    found: list[Document] = [
        _webhook("application.resource.quota.validator", _quotas("resource", "Namespaced"), client),
        {
            **_webhook(REMOVAL_WEBHOOK, _POD_UPDATE, client),
            "namespaceSelector": namespaces,
            "matchConditions": [elsewhere, _GATE_REMOVED, others],
            "timeoutSeconds": GATING_TIMEOUT_S,
        },
        {
            **_webhook(RESIZE_WEBHOOK, _POD_RESIZE, client),
            "namespaceSelector": namespaces,
            "matchConditions": [elsewhere, _RELEASED],
            # A granted resize is reserved in the books, except with dry-run.
            "sideEffects": "NoneOnDryRun",
        },
    ]
    policies = rule(
        ["CREATE", "UPDATE"],
        COUNTING_POLICIES.plural,
        group=COUNTING_POLICIES.group,
        scope="Cluster",
    )
    found.append(_webhook("counting.policy.validator", policies, client))
    if settings.configuration_exists:
        found.append(_webhook("aaq.cr.validator", _CONFIGURATION, client))
    if settings.allow_cluster_quota:
        quotas = _quotas("clusterresource", "Cluster")
        found.append(_webhook("cluster.apps.resource.quota.validator", quotas, client))
    return found


def _quotas(sort: str, scope: str) -> Document:
    operations = ["CREATE", "UPDATE"]
    return rule(operations, f"applicationaware{sort}quotas", group=GROUP, scope=scope)


def _webhook(name: str, target: Document, client: Document) -> Document:
    return {**webhook(name, target, client), "timeoutSeconds": ASKING_TIMEOUT_S}
