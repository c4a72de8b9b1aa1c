"""Policies that keep tenants from forging launcher pods and the status of VMs.

Quotas charge a launcher pod by its VM. What makes a pod a launcher, labels and an owner
reference, can be written by everybody who may create or update pods. The policies leave that to
the service accounts in KubeVirt's namespace. Removing the label is a change as well: it would
take a VM out of a quota of VMs.

KubeVirt's own webhook undoes changes of a VM's status by others, but not a status that comes
with a new VM.
"""

from dataclasses import dataclass
from typing import Final

from bursar.app.counting.kinds import VMIS
from bursar.app.install.admission import GatingSettings
from bursar.app.install.defaults import KUBEVIRT_NAMESPACE
from bursar.app.install.documents import (
    PART_OF_BURSAR,
    Document,
    admission_policy,
    require_namespace,
    rule,
    selector_document,
    validation,
)
from bursar.core.kubevirt.names import (
    APP_LABEL,
    LAUNCHER,
    MIGRATION_NAME_ANNOTATION,
    MIGRATION_UID_LABEL,
    VMI_KIND,
)

CREATE: Final = "create-launchers.bursar.io"
KEEP: Final = "keep-launchers.bursar.io"
STATUS: Final = "create-vmi-status.bursar.io"
GARBAGE_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"

ONLY_KUBEVIRT_CREATES: Final = (
    f"only KubeVirt may create a pod with the label {APP_LABEL}={LAUNCHER} that a {VMI_KIND} owns, "
    "because quotas charge it as a VM: remove the label"
)
ONLY_KUBEVIRT_CHANGES: Final = (
    f"only KubeVirt may change the labels {APP_LABEL} and {MIGRATION_UID_LABEL}, the annotation "
    f"{MIGRATION_NAME_ANNOTATION} and the owner of a pod that runs a VM, or give them to a pod"
)
NO_STATUS_YET: Final = (
    "a new VirtualMachineInstance has no memory, CPUs or migration in its status yet: "
    "remove the status"
)
_STATUS_FIELDS: Final = ("memory", "currentCPUTopology", "migrationState")


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherProtection:
    """Raises `ValueError` for an invalid namespace."""

    gating: GatingSettings
    kubevirt_namespace: str = KUBEVIRT_NAMESPACE

    def __post_init__(self) -> None:
        require_namespace(self.kubevirt_namespace)


def launcher_protection_documents(protection: LauncherProtection) -> tuple[Document, ...]:
    """Policies for the gated namespaces."""
    selected = selector_document(protection.gating.gated_namespaces)
    where: Document = {"matchResources": {"namespaceSelector": selected}}
    kubevirt = _is_from(protection.kubevirt_namespace)
    specs: dict[str, Document] = {
        CREATE: _creation(kubevirt),
        KEEP: _keeping(kubevirt),
        STATUS: _status(kubevirt),
    }
    return tuple(
        each
        for name, spec in specs.items()
        for each in admission_policy("Validating", name, spec, where, labels=PART_OF_BURSAR)
    )


# ------------------------------------------------------------------ expressions


def _is_from(namespace: str) -> str:
    """CEL: the request comes from a service account of that namespace."""
    return f"'system:serviceaccounts:{namespace}' in request.userInfo.groups"


def _is_launcher(pod: str) -> str:
    """CEL: the pod has the label and an owner that together make a launcher."""
    return (
        f"{pod}.metadata.?labels[?'{APP_LABEL}'].orValue('') == '{LAUNCHER}' && "
        f"{pod}.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == '{VMI_KIND}')"
    )


def _is_kept(field: str) -> str:
    return f"object.metadata.?{field} == oldObject.metadata.?{field}"


# ------------------------------------------------------------------ policies


def _creation(kubevirt: str) -> Document:
    return {
        "matchConstraints": {"resourceRules": [rule(["CREATE"], "pods")]},
        "matchConditions": [{"name": "launcher", "expression": _is_launcher("object")}],
        "validations": [validation(kubevirt, ONLY_KUBEVIRT_CREATES)],
    }


def _keeping(kubevirt: str) -> Document:
    """Deny changes, also by the status subresource, which may change labels and annotations."""
    kept = " && ".join(
        _is_kept(field)
        for field in (
            f"labels[?'{APP_LABEL}']",
            f"labels[?'{MIGRATION_UID_LABEL}']",
            f"annotations[?'{MIGRATION_NAME_ANNOTATION}']",
            "ownerReferences",
        )
    )
    either = f"({_is_launcher('object')}) || ({_is_launcher('oldObject')})"
    others = f"!({kubevirt}) && request.userInfo.username != '{GARBAGE_COLLECTOR}'"
    return {
        "matchConstraints": {"resourceRules": [rule(["UPDATE"], "pods", "pods/status")]},
        "matchConditions": [
            {"name": "launcher", "expression": either},
            {"name": "not-kubevirt", "expression": others},
        ],
        "validations": [validation(kept, ONLY_KUBEVIRT_CHANGES)],
    }


def _status(kubevirt: str) -> Document:
    absent = " && ".join(f"!has(object.status.{field})" for field in _STATUS_FIELDS)
    constrained = {**rule(["CREATE"], VMIS.plural, group=VMIS.group), "apiVersions": ["v1"]}
    return {
        "matchConstraints": {"resourceRules": [constrained]},
        "matchConditions": [
            {"name": "has-status", "expression": "has(object.status)"},
            {"name": "not-kubevirt", "expression": f"!({kubevirt})"},
        ],
        "validations": [validation(absent, NO_STATUS_YET)],
    }
