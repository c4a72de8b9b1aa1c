"""Policies that limit Bursar's service accounts and protect managed ResourceQuotas.

RBAC grants a verb on a whole object. The controller may patch pods, but needs only to remove the
quota gate. The webhook may create ResourceQuotas, but does so only with dry-run. If a token of one
of these accounts is stolen, the policies leave no more than that.

A managed ResourceQuota enforces a part of a tenant's limits, so a tenant must not change it,
whatever its role says about ResourceQuotas. A user who may change the quota itself may do so.
"""

from typing import Final

from bursar.app.admission.pods import Installation
from bursar.app.install.documents import Document, admission_policy, rule, validation
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.app.quota.kinds import APPLICATION_QUOTAS, GROUP
from bursar.app.quota.managed_names import MANAGED_SUFFIX
from bursar.app.quota.status_document import LABEL, LABEL_VALUE
from bursar.core.quota.quota import GATE

CONFINE_PODS: Final = "confine-controller.bursar.io"
CONFINE_QUOTAS: Final = "confine-controller-quotas.bursar.io"
CONFINE_WEBHOOK: Final = "confine-webhook.bursar.io"
CONFINE_OPERATOR: Final = "confine-operator.bursar.io"
PROTECT_MANAGED: Final = "protect-managed-quotas.bursar.io"

ONLY_THE_GATE: Final = (
    f"{CONTROLLER} may only remove the scheduling gate {GATE} from a pod and change nothing else; "
    "another webhook that changes pods at every update may be the cause"
)
ONLY_MANAGED: Final = f"{CONTROLLER} may write only ResourceQuotas whose names end with"
ONLY_DRY_RUN: Final = f"{WEBHOOK} may create ResourceQuotas only with dry-run"
MAY_NOT_WRITE_MANAGED: Final = (
    f"Bursar keeps this ResourceQuota for an {APPLICATION_QUOTAS.kind}: change that quota instead"
)

_SYSTEM: Final = "system:serviceaccount:kube-system:"
_WRITERS: Final = (
    f"{_SYSTEM}generic-garbage-collector",
    f"{_SYSTEM}namespace-controller",
    f"{_SYSTEM}resourcequota-controller",
    # If the controller manager uses one identity for all its controllers.
    "system:kube-controller-manager",
)
_ADMINISTRATORS: Final = "system:masters"
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
_META_FIELDS: Final = ("labels", "annotations", "ownerReferences", "finalizers")


def confinement_documents(home: str) -> tuple[Document, ...]:
    """The policies for an installation in this namespace. They apply in the whole cluster."""
    controller = Installation(home).controller_user
    specs: dict[str, Document] = {
        CONFINE_PODS: _pods(controller),
        CONFINE_QUOTAS: _quotas(controller),
        CONFINE_WEBHOOK: _trials(f"system:serviceaccount:{home}:{WEBHOOK}"),
        PROTECT_MANAGED: _managed(controller),
    }
    return tuple(
        each
        for name, spec in specs.items()
        for each in admission_policy("Validating", name, spec, {}, labels={GROUP: ""})
    )


def operator_confinement_documents(home: str, account: str) -> tuple[Document, ...]:
    """The policy for the operator. Of pods, it may change no more than the controller may."""
    spec = _pods(f"system:serviceaccount:{home}:{account}", account)
    return admission_policy("Validating", CONFINE_OPERATOR, spec, {}, labels={GROUP: ""})


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


def _quotas(controller: str) -> Document:
    is_managed = f"request.name.endsWith('{MANAGED_SUFFIX}')"
    return {
        "matchConstraints": {"resourceRules": [rule(_EVERY_WRITE, "resourcequotas")]},
        "matchConditions": [_is_user(controller)],
        "validations": [validation(is_managed, f"{ONLY_MANAGED} {MANAGED_SUFFIX}")],
    }


def _trials(webhook: str) -> Document:
    is_trial = "request.operation == 'CREATE' && request.?dryRun.orValue(false)"
    return {
        "matchConstraints": {"resourceRules": [rule(_EVERY_WRITE, "resourcequotas")]},
        "matchConditions": [_is_user(webhook)],
        "validations": [validation(is_trial, ONLY_DRY_RUN)],
    }


def _managed(controller: str) -> Document:
    labelled = "({0} != null && {0}.metadata.?labels[?'" + LABEL + "'].orValue('') == '{1}')"
    either = " || ".join(labelled.format(each, LABEL_VALUE) for each in ("object", "oldObject"))
    users = ", ".join(f"'{user}'" for user in (controller, *_WRITERS))
    others = (
        f"!(request.userInfo.username in [{users}]) && "
        f"!('{_ADMINISTRATORS}' in request.userInfo.groups)"
    )
    may_change_quota = (
        f"authorizer.group('{APPLICATION_QUOTAS.group}').resource('{APPLICATION_QUOTAS.plural}')"
        ".namespace(request.namespace).check('update').allowed()"
    )
    resources = ("resourcequotas", "resourcequotas/status")
    return {
        "matchConstraints": {"resourceRules": [rule(_EVERY_WRITE, *resources)]},
        "matchConditions": [
            {"name": "managed", "expression": either},
            {"name": "no-keeper", "expression": others},
        ],
        "validations": [validation(may_change_quota, MAY_NOT_WRITE_MANAGED)],
    }
