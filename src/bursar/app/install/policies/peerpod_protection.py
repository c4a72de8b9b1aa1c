"""Policies that make the size annotations of peer pods immutable.

The runtime creates a VM of the annotated size after the pod got its node, and quotas charge the
recorded amounts. A tenant can update its own pods. Without the policies it could request a larger
VM between creation and start, and lower its charge afterwards.

The annotations of an existing pod can be changed in three ways: by an update of the pod, by an
update of its status, and by a Binding, whose annotations the API server copies to the pod. The
policies deny all three for every user, because the rewrite happens at creation.
"""

from collections.abc import Sequence
from typing import Final

from bursar.app.install.documents import (
    PART_OF_BURSAR,
    Document,
    admission_policy,
    rule,
    validation,
)
from bursar.core.model.names import CPU, MEMORY
from bursar.core.peerpods.names import (
    GPUS_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
    MEMORY_ANNOTATION,
    RECORD_ANNOTATION,
    VCPUS_ANNOTATION,
)

KEEP: Final = "keep-peerpod.bursar.io"
BIND: Final = "bind-peerpod.bursar.io"
RECORD: Final = "check-peerpod-record.bursar.io"

GPU_MODEL_ANNOTATION: Final = "io.katacontainers.config.hypervisor.default_gpu_model"
"""The GPU model of the VM. The author of the pod sets it; it is immutable after creation."""

PROTECTED: Final = (
    RECORD_ANNOTATION,
    VCPUS_ANNOTATION,
    MEMORY_ANNOTATION,
    GPUS_ANNOTATION,
    GPU_MODEL_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
)

MAY_NOT_CHANGE: Final = (
    "The annotations that decide about the VM of a peer pod, and its record, cannot be changed "
    "after creation; delete the pod and create another one. Changed"
)
MAY_NOT_BIND: Final = "A Binding may not bring annotations that are about the VM of a peer pod"
ONLY_ON_PEER_PODS: Final = (
    f"annotation {RECORD_ANNOTATION} is not for users, and means nothing on this pod, "
    "whose runtime class has no peer pods: remove it"
)
ONLY_WHAT_WAS_REMOVED: Final = (
    f"annotation {RECORD_ANNOTATION} is not for users: it says what was removed from a pod, but "
    "nothing was removed from this one: remove the annotation"
)

_KEYS: Final = "[" + ", ".join(f"'{key}'" for key in PROTECTED) + "]"
_IN_CONTAINERS: Final = (
    "(object.spec.containers + object.spec.?initContainers.orValue([])).all(container, {})"
)


def protection_documents(
    runtime_classes: Sequence[str], vm_resource: str, where: Document
) -> tuple[Document, ...]:
    """The policies for clusters where the webhook rewrites peer pods."""
    # Policies run after the webhook, which has removed a record from pods that request no VM.
    consistent = [
        validation(has_class("object", runtime_classes), ONLY_ON_PEER_PODS),
        validation(f"{_asks_for_vm(vm_resource)} && {_NOTHING_LEFT}", ONLY_WHAT_WAS_REMOVED),
    ]
    return _documents(runtime_classes, consistent, where)


def protection_documents_without_webhook(
    runtime_classes: Sequence[str], where: Document
) -> tuple[Document, ...]:
    """The policies for clusters without the webhook, where every record is forged."""
    never = [validation("false", ONLY_WHAT_WAS_REMOVED)]
    return _documents(runtime_classes, never, where)


def _documents(
    runtime_classes: Sequence[str], at_creation: Sequence[Document], where: Document
) -> tuple[Document, ...]:
    specs: dict[str, Document] = {
        KEEP: _keeping(has_class("oldObject", runtime_classes)),
        BIND: _binding(),
        RECORD: _creation(at_creation),
    }
    return tuple(
        each
        for name, spec in specs.items()
        for each in admission_policy("Validating", name, spec, where, labels=PART_OF_BURSAR)
    )


# ------------------------------------------------------------------ expressions


def has_class(pod: str, runtime_classes: Sequence[str]) -> str:
    """CEL: the pod has one of these runtime classes."""
    listed = ", ".join(f"'{name}'" for name in runtime_classes)
    return f"{pod}.spec.?runtimeClassName.orValue('') in [{listed}]"


def _asks_for_vm(vm_resource: str) -> str:
    sides = " && ".join(
        f"container.?resources.?{side}[?'{vm_resource}'].orValue('') == '1'"
        for side in ("requests", "limits")
    )
    return f"object.spec.containers.exists(container, {sides})"


def _lacks_sizes(holder: str) -> str:
    """CEL: there are no amounts of CPU and memory. Other resources may stay on the worker."""
    return " && ".join(
        f"!('{name}' in {holder}.?resources.?{side}.orValue({{}}))"
        for side in ("requests", "limits")
        for name in (CPU, MEMORY)
    )


_NOTHING_LEFT: Final = (
    f"{_IN_CONTAINERS.format(_lacks_sizes('container'))} && {_lacks_sizes('object.spec')}"
)
_IS_DIFFERENT: Final = "object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]"
_HAS_RECORD: Final = f"'{RECORD_ANNOTATION}' in object.metadata.?annotations.orValue({{}})"
_BRINGS_ANY: Final = f"{_KEYS}.exists(key, key in object.metadata.?annotations.orValue({{}}))"


# ------------------------------------------------------------------ policies


def _keeping(is_peer_pod: str) -> Document:
    """Deny changes of the annotations, also by subresources that ignore metadata today."""
    different = f"{_KEYS}.filter(key, {_IS_DIFFERENT})"
    check: Document = {
        "expression": f"{different}.size() == 0",
        "message": MAY_NOT_CHANGE,
        "messageExpression": f"'{MAY_NOT_CHANGE}: ' + {different}.join(', ')",
        "reason": "Forbidden",
    }
    resources = ("pods", "pods/status", "pods/resize", "pods/ephemeralcontainers")
    return {
        "matchConstraints": {"resourceRules": [rule(["UPDATE"], *resources)]},
        "matchConditions": [{"name": "peer-pod", "expression": is_peer_pod}],
        "validations": [check],
    }


def _binding() -> Document:
    """Deny these annotations in every Binding, which does not have the pod's runtime class."""
    return {
        "matchConstraints": {"resourceRules": [rule(["CREATE"], "pods/binding", "bindings")]},
        "matchConditions": [{"name": "brings-annotations", "expression": _BRINGS_ANY}],
        "validations": [validation("false", MAY_NOT_BIND)],
    }


def _creation(validations: Sequence[Document]) -> Document:
    return {
        "matchConstraints": {"resourceRules": [rule(["CREATE"], "pods")]},
        "matchConditions": [{"name": "has-record", "expression": _HAS_RECORD}],
        "validations": list(validations),
    }
