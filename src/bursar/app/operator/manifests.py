"""Manifests that run the operator itself: its account, its rights, its Deployment and policies.

The API server lets an account grant only rights that it has. So the operator has the rights of all
roles that it installs, which are read from the same functions. Of objects, it may write only those
of an installation, by name.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bursar.app.certificates.aaq_names import TLS_SECRET
from bursar.app.cluster.kinds import (
    CLUSTER_ROLES,
    NAMESPACES,
    PRIORITY_CLASSES,
    ROLES,
    SERVICE_ACCOUNTS,
)
from bursar.app.cluster.ports import Json, Resource
from bursar.app.install.access import access_documents
from bursar.app.install.admission import GatingSettings, single_configuration_documents
from bursar.app.install.certificates import serving_rules
from bursar.app.install.documents import (
    OBSERVE,
    Document,
    document,
    granted,
    memory_environment,
    permission,
    require_image,
    require_namespace,
)
from bursar.app.install.policies.confinement import operator_confinement_documents
from bursar.app.install.workloads import (
    NAME,
    PART_OF,
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
)
from bursar.app.operator.kinds import DELETED, KEPT, OWNED, Target, target_of
from bursar.app.operator.names import LEASE, OPERATOR
from bursar.app.operator.rendering import (
    GATE_ANNOTATION,
    KUBEVIRT_CLASS,
    Gate,
    Surroundings,
    rendered,
)
from bursar.app.quota.kinds import AAQS, CLUSTER_QUOTAS, GROUP
from bursar.wire.aaq import AaqObject, AaqSpec

PROBE_PORT: Final = 8081
METRICS_PORT: Final = 8443
OPERATOR_LABEL: Final = "operator.aaq.kubevirt.io"
COMPONENT: Final = "multi-tenant"
"""AAQ's name of its component. Other installers find AAQ's pods by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInstallation:
    """Settings of the operator. Raises `ValueError` for an invalid image or namespace."""

    image: str
    """Image of the operator, and of the processes that it installs."""
    namespace: str
    definitions: Sequence[Document]
    """All CustomResourceDefinitions that Bursar has."""
    options: tuple[str, ...] = ()
    """Further options of `bursar operator`."""

    def __post_init__(self) -> None:
        require_image(self.image)
        require_namespace(self.namespace)


def operator_documents(settings: OperatorInstallation) -> tuple[Document, ...]:
    """The namespace, the definition of AAQ, the account with its rights, policies, Deployment."""
    home, labels = settings.namespace, {GROUP: ""}
    namespace, *_ = access_documents(GatingSettings(namespace=home))
    own, _ = split_definitions(settings.definitions)
    return (
        namespace,
        *own,
        document("v1", "ServiceAccount", OPERATOR, namespace=home, labels=labels),
        *granted(OPERATOR, _everywhere(settings), account=OPERATOR, home=home, labels=labels),
        *granted(
            OPERATOR,
            _at_home(settings),
            account=OPERATOR,
            home=home,
            namespace=home,
            labels=labels,
        ),
        *operator_confinement_documents(home, OPERATOR),
        *single_configuration_documents(),
        _service(settings),
        _network_policy(settings),
        _deployment(settings),
    )


def split_definitions(
    definitions: Iterable[Document],
) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
    """The definition of AAQ, which comes with the operator, and those that the operator applies."""
    name = f"{AAQS.plural}.{AAQS.group}"
    known = tuple(definitions)
    own = tuple(each for each in known if _name(each) == name)
    return own, tuple(each for each in known if _name(each) != name)


# ------------------------------------------------------------------ rights


def _installable(settings: OperatorInstallation) -> list[Document]:
    """Every object that the operator may have to write."""
    _, others = split_definitions(settings.definitions)
    around = Surroundings(namespace=settings.namespace, image=settings.image, definitions=others)
    spec = AaqSpec(allows_cluster_quota=True)
    found: dict[Target, Document] = {}
    for gate in Gate:
        aaq = AaqObject(
            name="aaq", uid="", created="", spec=spec, annotations={GATE_ANNOTATION: gate.value}
        )
        found |= {target_of(each): each for each in rendered(aaq, around).every}
    # Policies that refuse larger pods exist only without webhooks; all names are in one of them.
    return list(found.values())


def _everywhere(settings: OperatorInstallation) -> list[Document]:
    documents = _installable(settings)
    own = [
        permission((*OBSERVE, "patch"), AAQS.plural, group=AAQS.group),
        permission(("patch",), f"{AAQS.plural}/status", group=AAQS.group),
        # The API server lets an account write a policy only if it may get the policy's parameters,
        # under the literal name `*`.
        permission(("get",), SERVICE_ACCOUNTS.plural, names=("*",)),
        permission(("get",), CLUSTER_QUOTAS.plural, group=CLUSTER_QUOTAS.group, names=("*",)),
        # To release pods before everything is removed.
        permission(("get",), "pods"),
        permission(
            OBSERVE, PRIORITY_CLASSES.plural, group=PRIORITY_CLASSES.group, names=(KUBEVIRT_CLASS,)
        ),
    ]
    every = (
        *own,
        *_writing(documents, is_namespaced=False),
        *_granted_by(documents, CLUSTER_ROLES),
    )
    return _unique(every)


def _at_home(settings: OperatorInstallation) -> list[Document]:
    documents = _installable(settings)
    leases = "coordination.k8s.io"
    own = [
        permission(("get", "patch"), "leases", group=leases, names=(LEASE,)),
        permission(("create",), "leases", group=leases),
        *serving_rules(TLS_SECRET),
    ]
    writing = _writing(documents, is_namespaced=True)
    return _unique((*own, *writing, *_granted_by(documents, ROLES)))


def _writing(documents: Sequence[Document], *, is_namespaced: bool) -> Iterator[Document]:
    """Watch the kinds of an installation, and write its objects by name.

    An apply that creates an object is authorized with the object's name, other creations are not.
    """
    names: dict[Resource, list[str]] = {}
    for each in documents:
        target = target_of(each)
        names.setdefault(target.resource, []).append(target.key.name)
    for resource in OWNED:
        if resource.is_namespaced is not is_namespaced:
            continue
        known = tuple(sorted(set(names[resource])))
        verbs = ("create", "patch") if resource in KEPT else ("create", "patch", "delete")
        seen = known if resource == NAMESPACES else ()
        yield permission(OBSERVE, resource.plural, group=resource.group, names=seen)
        if resource in DELETED or resource == NAMESPACES:
            yield permission(verbs, resource.plural, group=resource.group, names=known)
        else:
            # Deleted only if the AAQ object asks for it.
            yield permission((*verbs, "delete"), resource.plural, group=resource.group, names=known)


def _granted_by(documents: Sequence[Document], resource: Resource) -> Iterator[Document]:
    for each in documents:
        if target_of(each).resource == resource:
            rules = each["rules"]
            assert isinstance(rules, list)
            yield from rules


def _unique(rules: Iterable[Document]) -> list[Document]:
    return list({json.dumps(each, sort_keys=True): each for each in rules}.values())


# ------------------------------------------------------------------ workload


def _labels() -> dict[str, str]:
    return {
        NAME: "bursar",
        PART_OF: "bursar",
        "app.kubernetes.io/component": COMPONENT,
        GROUP: OPERATOR,
        OPERATOR_LABEL: "",
    }


def _selected() -> dict[str, Json]:
    return {NAME: "bursar", GROUP: OPERATOR}


def _service(settings: OperatorInstallation) -> Document:
    found = document("v1", "Service", OPERATOR, namespace=settings.namespace, labels=_labels())
    found["spec"] = {
        "selector": _selected(),
        "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
    }
    return found


def _network_policy(settings: OperatorInstallation) -> Document:
    """Only probes and metrics can be reached."""
    found = document(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        OPERATOR,
        namespace=settings.namespace,
        labels=_labels(),
    )
    ports = [{"protocol": "TCP", "port": name} for name in ("https", "probes")]
    found["spec"] = {
        "podSelector": {"matchLabels": _selected()},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": ports}],
    }
    return found


def _deployment(settings: OperatorInstallation) -> Document:
    found = document(
        "apps/v1", "Deployment", OPERATOR, namespace=settings.namespace, labels=_labels()
    )
    labels: Mapping[str, Json] = _labels()
    found["spec"] = {
        "replicas": 1,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": _selected()},
        "template": {"metadata": {"labels": labels}, "spec": _pod(settings)},
    }
    return found


def _pod(settings: OperatorInstallation) -> Document:
    return {
        "serviceAccountName": OPERATOR,
        "enableServiceLinks": False,
        "securityContext": dict(RESTRICTED_POD),
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "containers": [_container(settings)],
    }


def _container(settings: OperatorInstallation) -> Document:
    options: list[Json] = [
        "operator",
        f"--image={settings.image}",
        f"--bind=0.0.0.0:{METRICS_PORT}",
        f"--probes=0.0.0.0:{PROBE_PORT}",
        f"--tls-secret={TLS_SECRET}",
        *settings.options,
    ]
    return {
        "name": "operator",
        "image": settings.image,
        "args": options,
        "env": memory_environment(),
        "ports": [
            {"name": "https", "containerPort": METRICS_PORT},
            {"name": "probes", "containerPort": PROBE_PORT},
        ],
        "livenessProbe": {**_probe("/healthz"), "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2},
        "resources": {
            "requests": {"cpu": "10m", "memory": "96Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": dict(RESTRICTED_CONTAINER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probe(path: str) -> Document:
    return {
        "httpGet": {"path": path, "port": "probes"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
    }


def _name(definition: Document) -> str:
    metadata = definition["metadata"]
    assert isinstance(metadata, Mapping)
    return str(metadata["name"])
