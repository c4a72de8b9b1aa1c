"""Functions that all workload controllers share: templates, owners and pod state."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from bursar.adapters.memory.objects.metadata import SUFFIX_LETTERS
from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.conditions import is_true
from bursar.adapters.memory.simulation.workloads.effects import Create, Delete, Effect
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Resource

REVISION_LABEL: Final = "controller-revision-hash"
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def template_hash(template: Raw) -> str:
    """A short hash of the template, in upstream's alphabet but with other values."""
    number = _FNV_OFFSET
    for byte in json.dumps(template, sort_keys=True, separators=(",", ":")).encode():
        number = ((number ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(SUFFIX_LETTERS[ord(digit) % len(SUFFIX_LETTERS)] for digit in str(number))


def owner_reference(resource: Resource, owner: Raw) -> Raw:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(raw: Raw) -> Raw | None:
    """The owner reference that is marked as the controller."""
    references: list[Raw] = raw["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def new_pod(
    resource: Resource,
    owner: Raw,
    *,
    name: str = "",
    labels: dict[str, str] | None = None,
    spec: Raw | None = None,
) -> Create:
    """A pod from the owner's template, with the labels and fields that the kind adds."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    metadata: Raw = {
        "namespace": owner["metadata"].get("namespace", ""),
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": dict(meta.get("annotations") or {}),
        "ownerReferences": [owner_reference(resource, owner)],
    }
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = owner["metadata"]["name"] + "-"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**(template.get("spec") or {}), **(spec or {})},
    }
    return Create(resource=PODS, namespace=metadata["namespace"], body=body)


def field(raw: Raw, section: str, name: str, default: Any) -> Any:  # noqa: ANN401 - any JSON
    """A field of `spec` or `status`. Both the field and the section can be absent or null."""
    value = (raw.get(section) or {}).get(name)
    return default if value is None else value


def phase_of(pod: Raw) -> str:
    return str(field(pod, "status", "phase", "Pending"))


def is_being_deleted(raw: Raw) -> bool:
    return bool(raw["metadata"].get("deletionTimestamp"))


def is_active(pod: Raw) -> bool:
    return not is_being_deleted(pod) and phase_of(pod) not in {"Succeeded", "Failed"}


def is_ready(pod: Raw) -> bool:
    return is_active(pod) and is_true(pod, "Ready")


def revision_of(pod: Raw) -> str:
    """The hash of the template from which a StatefulSet or DaemonSet made the pod."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def scaled(active: Sequence[Raw], wanted: int, pod: Callable[[], Create]) -> list[Effect]:
    """Creations or deletions until `wanted` pods are active."""
    surplus = first_to_go(active)[: max(0, len(active) - wanted)]
    return [
        *(pod() for _ in range(wanted - len(active))),
        *(Delete(resource=PODS, target=each) for each in surplus),
    ]


def first_to_go(pods: Sequence[Raw]) -> list[Raw]:
    """Pods in the order of deletion: without a node, not running, not ready, then the youngest.

    Pods of the same second are deleted in reverse order of names. Upstream chooses at random.
    """
    youngest = sorted(
        pods,
        key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]),
        reverse=True,
    )
    return sorted(
        youngest,
        key=lambda pod: (
            bool(field(pod, "spec", "nodeName", "")),
            phase_of(pod) == "Running",
            is_ready(pod),
        ),
    )


def observed(owner: Raw) -> Raw:
    """The `observedGeneration` of a status."""
    return {"observedGeneration": owner["metadata"].get("generation", 1)}


def age(raw: Raw) -> tuple[str, str]:
    """Sorts objects by their creation, and then by name."""
    meta = raw["metadata"]
    return meta.get("creationTimestamp") or "", meta["name"]
