"""Manifests of KubeVirt's objects and of launcher pods, and CRDs of just the shape they need."""

import json
from typing import Any

from bursar.core.kubevirt.names import MIGRATION_NAME_ANNOTATION, MIGRATION_UID_LABEL
from support.builders.pods import listed

API = "kubevirt.io/v1"
UID = "vmi-of-{}"


def a_vmi(
    name: str = "db",
    *,
    cores: int = 4,
    guest_memory: str = "8Gi",
    node: str = "",
    uid: str | None = None,
    **status: Any,
) -> dict[str, Any]:
    domain = {"cpu": {"cores": cores}, "memory": {"guest": guest_memory}, "devices": {}}
    return {
        "apiVersion": API,
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "team", "uid": uid or UID.format(name)},
        "spec": {"domain": domain},
        "status": {"nodeName": node, **status} if node or status else {},
    }


def a_migration(
    name: str = "move", vmi: str = "db", *, phase: str = "", created: int = 1
) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-of-{name}",
            "creationTimestamp": f"2026-01-01T00:{created:02d}:00Z",
        },
        "spec": {"vmiName": vmi},
        "status": {"phase": phase} if phase else {},
    }


def a_kubevirt(name: str = "kubevirt", **configuration: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "KubeVirt",
        "metadata": {"name": name, "namespace": "kubevirt"},
        "spec": {"configuration": configuration},
    }


def a_launcher(  # noqa: PLR0913 - each matters to some test
    name: str,
    requests: str = "cpu=400m memory=9Gi",
    *,
    vmi: str = "db",
    uid: str | None = None,
    node: str = "",
    migration: str = "",
    created: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """A launcher pod; `migration` names the one that it is the target of."""
    owner = {"apiVersion": API, "kind": "VirtualMachineInstance", "name": vmi}
    moving = {MIGRATION_UID_LABEL: f"uid-of-{migration}"} if migration else {}
    container = {"name": "compute", "image": "i", "resources": {"requests": listed(requests)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-of-{name}",
            "creationTimestamp": f"2026-01-01T00:{created:02d}:00Z",
            "labels": {"kubevirt.io": "virt-launcher", **moving},
            "annotations": {MIGRATION_NAME_ANNOTATION: migration} if migration else {},
            "ownerReferences": [{**owner, "uid": uid or UID.format(vmi), "controller": True}],
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        **fields,
    }


def encoded(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, separators=(",", ":")).encode()


def _definition(plural: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kubevirt.io"},
        "spec": {
            "group": "kubevirt.io",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


KUBEVIRT_DEFINITIONS = (
    _definition("virtualmachineinstances", "VirtualMachineInstance"),
    _definition("virtualmachineinstancemigrations", "VirtualMachineInstanceMigration"),
    _definition("kubevirts", "KubeVirt"),
)
