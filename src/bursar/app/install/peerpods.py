"""Manifests for peer pods: runtime classes, and the webhook that rewrites pods.

`bursar webhook` does the rewrite. An admission policy can do a small part of it: it requests the
VM resource, so that nodes do not get more peer pods than their capacity. CEL cannot do the rest:
it cannot add quantities, cannot return a warning, and cannot record what it removed. Without the
record, a second call would take the defaults of the namespace for requests of the pod. With the
policy alone, resources therefore stay in the containers and count on the worker.

The functions return plain data for `kubectl apply` and do not access a cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bursar.app.install.defaults import OVERHEAD_CPU, OVERHEAD_MEMORY
from bursar.app.install.documents import (
    ADMISSION,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    PART_OF_BURSAR,
    Document,
    Endpoint,
    admission_policy,
    document,
    require_namespace,
    rule,
    selector_document,
    spared_namespaces,
)
from bursar.app.install.policies.peerpod_protection import (
    has_class,
    protection_documents,
    protection_documents_without_webhook,
)
from bursar.app.names import OWN_NAMESPACE, PEER_POD_WEBHOOKS, PEER_PODS_PATH
from bursar.core.model.names import is_extended
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.selectors.selector import LabelSelector
from bursar.core.peerpods.names import RUNTIME_CLASS, VM_RESOURCE
from bursar.core.sharing import no_labels

WEBHOOK: Final = "mwebhook.peerpods.io"
COMPONENT: Final = {"app.kubernetes.io/component": "webhook"}
POLICY: Final = "ask-for-vm.bursar.io"
TIMEOUT_S: Final = 5
"""Timeout of the webhook. The rewrite makes no calls of its own, so a longer one cannot help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPodInstallation:
    """Settings for peer pods. Raises `ValueError` for invalid names."""

    namespace: str = OWN_NAMESPACE
    """The namespace of Bursar. Its pods and those of kube-system are not rewritten."""
    runtime_classes: tuple[str, ...] = (RUNTIME_CLASS,)
    vm_resource: str = VM_RESOURCE
    node_selector: Mapping[str, str] = field(default_factory=no_labels)
    """Labels of the nodes that can run these classes; empty for all nodes."""
    brings_classes: bool = True
    """Whether the manifests include the RuntimeClasses. kata-deploy installs its own."""
    handler: str = ""
    """The runtime handler on the nodes; empty for the name of each class."""
    overhead_cpu: Quantity = OVERHEAD_CPU
    overhead_memory: Quantity = OVERHEAD_MEMORY
    asks_about_all_pods: bool = False
    """Send all pods to the webhook, because another webhook may set one of the classes later.

    The API server reinvokes only webhooks that it called in the first round.
    """

    def __post_init__(self) -> None:
        require_namespace(self.namespace)
        for name in self.runtime_classes:
            # The names become part of CEL expressions, where a quote would be an injection.
            if not DNS_SUBDOMAIN.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a runtime class")
        if not self.runtime_classes:
            raise ValueError("at least one runtime class is needed")
        if not is_extended(self.vm_resource):
            raise ValueError(f"{self.vm_resource!r} is not the name of an extended resource")
        if self.handler and not DNS_LABEL.fullmatch(self.handler):
            raise ValueError(f"{self.handler!r} is not the name of a handler")
        if min(self.overhead_cpu, self.overhead_memory) < ZERO:
            raise ValueError("an overhead cannot be negative")

    @property
    def is_peer_pod(self) -> str:
        return has_class("object", self.runtime_classes)

    @property
    def where(self) -> Document:
        """The `namespaceSelector` of the webhook and of policies."""
        expressions = (spared_namespaces(self.namespace),)
        selector = selector_document(LabelSelector(match_expressions=expressions))
        return {"namespaceSelector": selector}


_NEW_PODS: Final = rule(["CREATE"], "pods")


def peer_pod_documents(
    installation: PeerPodInstallation, endpoint: Endpoint | None = None
) -> tuple[Document, ...]:
    """Runtime classes, protection policies and the webhook, in the order to apply them.

    Protection comes before the webhook, so that no annotation is ever unprotected.
    """
    webhook = webhook_document(installation, endpoint or Endpoint())
    protection = protection_documents(
        installation.runtime_classes,
        installation.vm_resource,
        {"matchResources": installation.where},
    )
    return (*runtime_class_documents(installation), *protection, webhook)


def peer_pod_documents_without_webhook(installation: PeerPodInstallation) -> tuple[Document, ...]:
    """Runtime classes and the policy that requests the VM. Authors of pods set the sizes."""
    protection = protection_documents_without_webhook(
        installation.runtime_classes, {"matchResources": installation.where}
    )
    classes = runtime_class_documents(installation)
    return (*classes, *protection, *_policy_documents(installation))


def peer_pod_documents_beside_upstream(installation: PeerPodInstallation) -> tuple[Document, ...]:
    """The protection policies alone, for clusters where upstream's webhook rewrites peer pods.

    Quotas charge the annotations that upstream's webhook writes. A record can only be forged.
    """
    return protection_documents_without_webhook(
        installation.runtime_classes, {"matchResources": installation.where}
    )


# ------------------------------------------------------------------ runtime classes


def runtime_class_documents(installation: PeerPodInstallation) -> tuple[Document, ...]:
    """The RuntimeClasses. Their overhead is what a peer pod uses on the worker."""
    if not installation.brings_classes:
        return ()
    return tuple(_runtime_class(name, installation) for name in installation.runtime_classes)


def _runtime_class(name: str, installation: PeerPodInstallation) -> Document:
    overhead: Document = {
        "cpu": str(installation.overhead_cpu),
        "memory": str(installation.overhead_memory),
    }
    manifest = document("node.k8s.io/v1", "RuntimeClass", name, labels=PART_OF_BURSAR)
    manifest["handler"] = installation.handler or name
    manifest["overhead"] = {"podFixed": overhead}
    if installation.node_selector:
        manifest["scheduling"] = {"nodeSelector": dict(installation.node_selector)}
    return manifest


# ------------------------------------------------------------------ the webhook


def webhook_document(installation: PeerPodInstallation, endpoint: Endpoint) -> Document:
    """The webhook configuration, with upstream's names, so that it replaces upstream's.

    A label selects it, because it must replace upstream's configuration as a whole: a merge would
    keep upstream's selectors, address and annotations. All other manifests can be applied first.

    The webhook is reinvoked if a later webhook changes the pod. A second rewrite changes nothing,
    and counts containers that were added meanwhile.
    """
    webhook: Document = {
        "name": WEBHOOK,
        "rules": [_NEW_PODS],
        "clientConfig": endpoint.client_config(installation.namespace, PEER_PODS_PATH),
        **installation.where,
        "matchConditions": [{"name": "peer-pod", "expression": installation.is_peer_pod}],
        "admissionReviewVersions": ["v1", "v1beta1"],
        # A peer pod that is not rewritten would be charged on the worker and have a VM of any
        # size. The match condition excludes all other pods.
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
    }
    if installation.asks_about_all_pods:
        del webhook["matchConditions"]
    labels = {**PART_OF_BURSAR, **COMPONENT}
    manifest = document(ADMISSION, "MutatingWebhookConfiguration", PEER_POD_WEBHOOKS, labels=labels)
    return endpoint.annotate({**manifest, "webhooks": [webhook]})


# ------------------------------------------------------------------ the policy


def _policy_documents(installation: PeerPodInstallation) -> tuple[Document, Document]:
    vm = f"{{'{installation.vm_resource}': '1'}}"
    # Containers are merged by name. A patch by path needs every parent to exist, and a JSONPatch
    # with a list of typed objects makes the API server of Kubernetes 1.36 panic.
    asking = (
        "Object{spec: Object.spec{containers: [Object.spec.containers{"
        "name: object.spec.containers[0].name, "
        f"resources: Object.spec.containers.resources{{requests: {vm}, limits: {vm}}}}}]}}}}"
    )
    spec: Document = {
        "matchConstraints": {"resourceRules": [_NEW_PODS]},
        "matchConditions": [
            {"name": "peer-pod", "expression": installation.is_peer_pod},
            # The API server refuses a pod without containers.
            {"name": "has-containers", "expression": "size(object.spec.containers) > 0"},
        ],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": asking}}
        ],
        "reinvocationPolicy": "IfNeeded",
    }
    where: Document = {"matchResources": installation.where}
    return admission_policy("Mutating", POLICY, spec, where, labels=PART_OF_BURSAR)
