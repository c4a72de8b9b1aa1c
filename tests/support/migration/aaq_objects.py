"""The objects of an AAQ installation, as AAQ's operator makes them."""

import json
from functools import cache
from typing import Any

from click.testing import CliRunner

from bursar.app.migration.installation import Installation, installation_of
from bursar.cli.install.manifests import manifests
from bursar.core.quota.targeting import GATING_LABEL

Raw = dict[str, Any]
HOME = "aaq"
VERSION = "v1.8.0"
MARKS = {
    "aaq.kubevirt.io": "",
    "app.kubernetes.io/managed-by": "aaq-operator",
    "operator.aaq.kubevirt.io/createVersion": VERSION,
}
OPERATOR_LABELS = {"name": "aaq-operator", "operator.aaq.kubevirt.io": ""}
RESTRICTED = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@cache
def bursars_manifests(*arguments: str) -> tuple[Raw, ...]:
    """What `bursar manifests` prints."""
    options = ("--image=bursar:test", "-n", HOME, "-o", "json")
    ran = CliRunner().invoke(manifests, [*arguments, *options], standalone_mode=False)
    assert ran.exception is None, ran.exception
    return tuple(json.loads(ran.stdout)["items"])


@cache
def bursars_installation(*arguments: str) -> Installation:
    return installation_of(bursars_manifests(*arguments))


def an_aaq(**spec: Any) -> Raw:
    return {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": "AAQ",
        "metadata": {"name": "aaq", "finalizers": ["operator.aaq.kubevirt.io"]},
        "spec": spec,
    }


def owner_of(aaq: Raw) -> Raw:
    metadata = aaq["metadata"]
    return {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": "AAQ",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def a_deployment(name: str, labels: Raw, replicas: int, *arguments: str, owner: Raw | None = None):
    container = {
        "name": name,
        "image": f"quay.io/kubevirt/{name}:{VERSION}",
        "args": list(arguments),
        "securityContext": CONFINED,
    }
    owners = {"ownerReferences": [owner]} if owner else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": HOME, "labels": dict(MARKS), **owners},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {"containers": [container], **RESTRICTED},
            },
        },
    }


def the_operator() -> Raw:
    """AAQ's release brings it, so it has no owner."""
    return a_deployment("aaq-operator", OPERATOR_LABELS, 1)


def the_controller(owner: Raw) -> Raw:
    labels = {"aaq.kubevirt.io": "aaq-controller"}
    return a_deployment("aaq-controller", labels, 2, "-v=1", owner=owner)


def the_server(owner: Raw) -> Raw:
    labels = {"aaq.kubevirt.io": "aaq-server"}
    return a_deployment("aaq-server", labels, 2, "-v=1", owner=owner)


def the_service(owner: Raw) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "aaq-server",
            "namespace": HOME,
            "labels": dict(MARKS),
            "ownerReferences": [owner],
        },
        "spec": {
            "type": "NodePort",
            "selector": {"aaq.kubevirt.io": "aaq-server"},
            "ports": [{"port": 443, "targetPort": 8443}],
        },
    }


def the_account(owner: Raw, name: str = "aaq-controller") -> Raw:
    metadata = {"name": name, "namespace": HOME, "labels": dict(MARKS), "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def the_webhooks(owner: Raw, client: Raw, *, is_empty: bool = False) -> list[Raw]:
    """Both configurations. AAQ's operator empties them while a Deployment is not ready."""
    common = {
        "clientConfig": client,
        "admissionReviewVersions": ["v1", "v1beta1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
    }
    by_label = {"matchExpressions": [{"key": GATING_LABEL, "operator": "Exists"}]}

    def rule(operation: str, resource: str) -> Raw:
        return {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": [operation],
            "resources": [resource],
            "scope": "Namespaced",
        }

    gater = {
        **common,
        "name": "gater.cqo.kubevirt.io",
        "rules": [rule("CREATE", "pods")],
        "namespaceSelector": by_label,
    }
    protector = {**common, "name": "remove.pod.gate.validator", "rules": [rule("UPDATE", "pods")]}
    lists = {
        ("MutatingWebhookConfiguration", "gating-mutator"): [gater],
        ("ValidatingWebhookConfiguration", "aaq-validator"): [protector],
    }
    labels = {**MARKS, "aaq.kubevirt.io": "aaq-server"}
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "webhooks": [] if is_empty else webhooks,
        }
        for (kind, name), webhooks in lists.items()
    ]
