"""What has to stand in a cluster so that peer pods are rewritten: the class, and who does it.

The rewrite itself is done by `bursar webhook`. A policy of the API server can do a small
part of it: ask for the VM, so that nodes are not given more peer pods than they may have. The
rest is beyond CEL: it adds up numbers but no quantities, turns a fraction of a CPU into a
floating number only, has no words for the author of a pod, and cannot write down what it
removed, without which a second look would take the defaults of a namespace for what the pod
had asked for. So with the policy alone resources stay in the containers and on the worker.

Documents are plain data, ready for `kubectl apply`; nothing here talks to a cluster.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bursar.app import names
from bursar.app.admission.pods import DEFAULT_NAMESPACE
from bursar.app.install.admission import ADMISSION, Document, Endpoint
from bursar.app.install.peerpod_protection import (
    LABELS,
    has_class,
    protection_documents,
    protection_documents_without_webhook,
)
from bursar.core.model.names import is_extended
from bursar.core.model.pod import no_labels
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.peerpods.capacity import VM_RESOURCE
from bursar.core.peerpods.settings import RUNTIME_CLASS
from bursar.core.quota.targeting import KUBE_SYSTEM

CONFIGURATION: Final = "peer-pods-webhook-mutating-webhook-configuration"
WEBHOOK: Final = "mwebhook.peerpods.io"
COMPONENT: Final = {"app.kubernetes.io/component": "webhook"}
PATH: Final = "/mutate-v1-pod"
POLICY: Final = "ask-for-vm.bursar.io"
TIMEOUT_S: Final = 5
"""The rewrite asks nobody else, so whoever waits longer waits in vain."""

OVERHEAD_CPU: Final = Quantity.parse("250m")
OVERHEAD_MEMORY: Final = Quantity.parse("120Mi")
"""What a peer pod leaves on the worker, as upstream has it. Nobody seems to have measured it."""

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPodInstallation:
    """Raises `ValueError` for names that the API would refuse."""

    namespace: str = DEFAULT_NAMESPACE
    """Where Bursar itself runs. Its pods are not looked at, nor are those of kube-system."""
    runtime_classes: tuple[str, ...] = (RUNTIME_CLASS,)
    vm_resource: str = VM_RESOURCE
    node_selector: Mapping[str, str] = field(default_factory=no_labels)
    """Where pods of these classes can run; empty for anywhere."""
    brings_classes: bool = True
    """Whether RuntimeClasses are ours to bring; kata-deploy brings its own."""
    handler: str = ""
    """What nodes have configured for these classes; empty for the name of each class."""
    overhead_cpu: Quantity = OVERHEAD_CPU
    overhead_memory: Quantity = OVERHEAD_MEMORY
    asks_about_all_pods: bool = False
    """Send other pods as well, for somebody else's webhook may give them one of the classes.

    An API server does not ask a webhook in its second round that it did not ask in the first.
    """

    def __post_init__(self) -> None:
        # They become part of expressions, where a quote would end more than a name.
        if not _LABEL.fullmatch(self.namespace):
            raise ValueError(f"{self.namespace!r} is not the name of a namespace")
        for name in self.runtime_classes:
            if not _SUBDOMAIN.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a runtime class")
        if not self.runtime_classes:
            raise ValueError("at least one runtime class is needed")
        if not is_extended(self.vm_resource):
            raise ValueError(f"{self.vm_resource!r} is not the name of an extended resource")
        if self.handler and not _LABEL.fullmatch(self.handler):
            raise ValueError(f"{self.handler!r} is not the name of a handler")
        if min(self.overhead_cpu, self.overhead_memory) < ZERO:
            raise ValueError("an overhead cannot be negative")

    @property
    def is_peer_pod(self) -> str:
        return has_class("object", self.runtime_classes)

    @property
    def namespace_selector(self) -> Document:
        spared = sorted({self.namespace, KUBE_SYSTEM})
        expression: Document = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": list(spared),
        }
        return {"matchExpressions": [expression]}


_NEW_PODS: Final[Document] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    "scope": "Namespaced",
}


def peer_pod_documents(
    installation: PeerPodInstallation, endpoint: Endpoint | None = None
) -> tuple[Document, ...]:
    """Classes, and the webhook that rewrites their pods; a class before who knows it by name.

    Protection comes before the webhook, so that nothing it writes is ever without it.
    """
    webhook = webhook_document(installation, endpoint or Endpoint())
    protection = protection_documents(
        installation.runtime_classes, installation.vm_resource, installation.namespace_selector
    )
    return (*runtime_class_documents(installation), *protection, webhook)


def peer_pod_documents_without_webhook(installation: PeerPodInstallation) -> tuple[Document, ...]:
    """Classes, and the policy that asks for the VM. Sizes are their authors' business then."""
    protection = protection_documents_without_webhook(
        installation.runtime_classes, installation.namespace_selector
    )
    classes = runtime_class_documents(installation)
    return (*classes, *protection, *_policy_documents(installation))


# ------------------------------------------------------------------ classes


def runtime_class_documents(installation: PeerPodInstallation) -> tuple[Document, ...]:
    """What a peer pod leaves on the worker is charged there, as overhead of its class."""
    if not installation.brings_classes:
        return ()
    return tuple(_runtime_class(name, installation) for name in installation.runtime_classes)


def _runtime_class(name: str, installation: PeerPodInstallation) -> Document:
    overhead: Document = {
        "cpu": str(installation.overhead_cpu),
        "memory": str(installation.overhead_memory),
    }
    document = _document("node.k8s.io/v1", "RuntimeClass", name)
    document["handler"] = installation.handler or name
    document["overhead"] = {"podFixed": overhead}
    if installation.node_selector:
        document["scheduling"] = {"nodeSelector": dict(installation.node_selector)}
    return document


# ------------------------------------------------------------------ the webhook


def webhook_document(installation: PeerPodInstallation, endpoint: Endpoint) -> Document:
    """The configuration under upstream's names, so that it takes the place of upstream's.

    It has a label by which all else can be applied before upstream's is replaced as a whole:
    merged into it, ours would keep upstream's selectors, address and annotations.

    Others may change a pod after us, so we ask to be asked again: a rewrite of what was
    rewritten changes nothing, and a container that came later is counted.
    """
    webhook: Document = {
        "name": WEBHOOK,
        "rules": [_NEW_PODS],
        "clientConfig": _client_config(installation, endpoint),
        "namespaceSelector": installation.namespace_selector,
        "matchConditions": [{"name": "peer-pod", "expression": installation.is_peer_pod}],
        "admissionReviewVersions": ["v1", "v1beta1"],
        # A peer pod that is not rewritten would run on the worker's account, with a VM of any
        # size. With the condition above nobody else depends on us.
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
    }
    if installation.asks_about_all_pods:
        del webhook["matchConditions"]
    document = _document(ADMISSION, "MutatingWebhookConfiguration", CONFIGURATION)
    document["metadata"] = {"name": CONFIGURATION, "labels": {**LABELS, **COMPONENT}}
    document["webhooks"] = [webhook]
    return document


def _client_config(installation: PeerPodInstallation, endpoint: Endpoint) -> Document:
    bundle: Document = {}
    if endpoint.ca_bundle:
        bundle["caBundle"] = base64.b64encode(endpoint.ca_bundle).decode("ascii")
    if endpoint.url:
        return {"url": f"{endpoint.url.rstrip('/')}{PATH}", **bundle}
    service: Document = {
        "namespace": installation.namespace,
        "name": names.WEBHOOK,
        "path": PATH,
        "port": 443,
    }
    return {"service": service, **bundle}


# ------------------------------------------------------------------ the policy


def _policy_documents(installation: PeerPodInstallation) -> tuple[Document, Document]:
    vm = f"{{'{installation.vm_resource}': '1'}}"
    # Merged by name into what is there. Patches by path would need every step on the way to
    # exist, and a JSONPatch with a list of typed objects makes the API server of 1.36 panic.
    asking = (
        "Object{spec: Object.spec{containers: [Object.spec.containers{"
        "name: object.spec.containers[0].name, "
        f"resources: Object.spec.containers.resources{{requests: {vm}, limits: {vm}}}}}]}}}}"
    )
    policy = _document(ADMISSION, "MutatingAdmissionPolicy", POLICY)
    policy["spec"] = {
        "matchConstraints": {"resourceRules": [_NEW_PODS]},
        "matchConditions": [
            {"name": "peer-pod", "expression": installation.is_peer_pod},
            # Left to the API server, which says what is wrong.
            {"name": "has-containers", "expression": "size(object.spec.containers) > 0"},
        ],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": asking}}
        ],
        "reinvocationPolicy": "IfNeeded",
        "failurePolicy": "Fail",
    }
    binding = _document(ADMISSION, "MutatingAdmissionPolicyBinding", POLICY)
    binding["spec"] = {
        "policyName": POLICY,
        "matchResources": {"namespaceSelector": installation.namespace_selector},
    }
    return policy, binding


def _document(api_version: str, kind: str, name: str) -> Document:
    metadata: Document = {"name": name, "labels": dict(LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
