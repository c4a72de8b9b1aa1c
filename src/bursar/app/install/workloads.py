"""Manifests that run the controller and the webhook: Deployments, Services and what protects them.

Every container satisfies the Pod Security Standard `restricted`: a user without rights, no
capabilities, a root file system that cannot be written. Both processes keep nothing on disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from bursar.app.certificates import aaq_names
from bursar.app.certificates.names import TLS_SECRET
from bursar.app.cluster.ports import Json
from bursar.app.counting.sidecars.settings import SOCKETS_FOLDER
from bursar.app.install.certificates import bundle_rules, keeping_rules, serving_rules
from bursar.app.install.documents import (
    DNS_SUBDOMAIN,
    Document,
    document,
    granted,
    memory_environment,
    require_image,
    require_namespace,
)
from bursar.app.names import CONTROLLER, OWN_NAMESPACE, TLS_SUITES, TLS_VERSION, WEBHOOK
from bursar.app.quota.kinds import GROUP
from bursar.core.operator.tls import DEFAULT_TLS, TlsChoice

NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
PART_OF: Final = "app.kubernetes.io/part-of"
PORT: Final = 8443
USER: Final = 65532
"""The user `nonroot` of the image."""
SHUTDOWN_DELAY_SECONDS: Final = 10
"""How long a webhook that ends accepts connections.

The API server learns through kube-proxy or its peers that a pod is no longer an endpoint. Until
then it connects to the pod, and refuses the creation of a pod if that fails.
"""
GRACE_SECONDS: Final = 30
"""Longer than the delay and the 16 s in which the webhook finishes requests in flight."""
REPLICAS: Final = 2
CLIENT_CA_FOLDER: Final = "/etc/bursar/client-ca"
CLIENT_CA: Final = "ca.crt"
"""Key of the ConfigMap with the CA certificates of API servers."""
PRIORITY_CLASS: Final = "system-cluster-critical"
"""Without Bursar no pod starts in gated namespaces."""
SOCKETS: Final = "sockets-dir"
"""AAQ's name of the volume in which sidecars make their sockets."""


RESTRICTED_POD: Final[Document] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER: Final[Document] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """Settings of both Deployments. Raises `ValueError` for an invalid image or namespace."""

    image: str
    namespace: str = OWN_NAMESPACE
    replicas: int = REPLICAS
    keeps_certificates: bool = True
    """Whether the controller makes and renews the certificates. False: cert-manager does."""
    has_aaq_certificates: bool = False
    """Whether the certificates are in AAQ's Secrets, with AAQ's annotations."""
    controller_options: tuple[str, ...] = ()
    """Further options of `bursar controller`."""
    webhook_options: tuple[str, ...] = ()
    """Further options of `bursar webhook`."""
    client_ca_config: str = ""
    """ConfigMap whose key `ca.crt` has the CAs of the API server's client certificate. Empty: the
    webhook answers reviews of any caller."""
    client_names: tuple[str, ...] = ()
    """Names that the client certificate may have. Empty: any name."""
    pull_policy: str = ""
    """When nodes pull the image. Empty: as Kubernetes decides by the tag."""
    priority_class: str = PRIORITY_CLASS
    placement: Mapping[str, Json] = field(default_factory=dict)
    """`nodeSelector`, `affinity` and `tolerations` of the pods, as in a pod's spec."""
    sidecars: Sequence[Mapping[str, Json]] = ()
    """Containers beside the controller that count pods. The caller adds their number to
    `controller_options`."""
    tls: TlsChoice = DEFAULT_TLS

    def __post_init__(self) -> None:
        require_image(self.image)
        require_namespace(self.namespace)
        if self.replicas < 1:
            raise ValueError(f"{self.replicas} replicas are too few: at least one must run")
        if self.client_ca_config and not DNS_SUBDOMAIN.fullmatch(self.client_ca_config):
            raise ValueError(f"{self.client_ca_config!r} is not the name of a ConfigMap")
        names = [each.get("name") for each in self.sidecars]
        if len({*names, "controller"}) != len(names) + 1:
            raise ValueError("each sidecar needs a name of its own, other than controller")
        if self.has_aaq_certificates and not self.keeps_certificates:
            raise ValueError("cert-manager does not make certificates in AAQ's Secrets")
        if self.client_names and not self.client_ca_config:
            raise ValueError("names of client certificates need a ConfigMap with their CA")

    @property
    def tls_secret(self) -> str:
        """The Secret of the serving certificate."""
        return aaq_names.TLS_SECRET if self.has_aaq_certificates else TLS_SECRET

    @property
    def client_options(self) -> tuple[str, ...]:
        """The options of a webhook that asks for client certificates."""
        if not self.client_ca_config:
            return ()
        names = (f"--client-name={name}" for name in self.client_names)
        return (f"--client-ca={CLIENT_CA_FOLDER}/{CLIENT_CA}", *names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What differs between the Deployments."""

    name: str
    component: str
    arguments: Sequence[str]
    cpu: str
    memory: str
    memory_limit: str
    client_ca_config: str = ""
    sidecars: Sequence[Mapping[str, Json]] = ()
    unavailable: Json = 0
    """How many replicas may be missing during a rollout, or a share of them, rounded down."""
    is_selected: bool = True
    """The Service leads to all ready replicas. False: the leader writes the EndpointSlice."""


def labels_of(component: str) -> dict[str, str]:
    return {NAME: "bursar", COMPONENT: component, PART_OF: "bursar"}


def controller_documents(settings: WorkloadSettings) -> tuple[Document, ...]:
    """The Deployment of the controller, its Service, disruption budget and network policy."""
    kept = ("--keep-certificates",) if settings.keeps_certificates else ()
    if settings.has_aaq_certificates:
        kept = (*kept, "--aaq-certificates")
    return (
        *certificate_access(settings, CONTROLLER, keeps=settings.keeps_certificates),
        *workload_documents(
            settings,
            Workload(
                name=CONTROLLER,
                component="controller",
                arguments=(
                    "controller",
                    *common_options(settings),
                    *kept,
                    *settings.controller_options,
                ),
                cpu="100m",
                # 150,000 pods need 150 MB, and twice as much if policies or sidecars count them.
                memory="256Mi",
                memory_limit="1Gi",
                sidecars=settings.sidecars,
                # Only the leader works, and another replica leads as soon as it ends. So one of two
                # may go first: a rollout then needs no room for a third pod, and shows in the
                # status of the Deployment, as AAQ's users expect it.
                unavailable="50%",
            ),
        ),
    )


def webhook_documents(settings: WorkloadSettings) -> tuple[Document, ...]:
    """The Deployment of the webhook, its Service, disruption budget and network policy."""
    access = certificate_access(settings, WEBHOOK, keeps=False)
    return (
        *access,
        *workload_documents(
            settings,
            Workload(
                name=WEBHOOK,
                component="webhook",
                arguments=(
                    "webhook",
                    *common_options(settings),
                    f"--shutdown-delay={SHUTDOWN_DELAY_SECONDS}s",
                    *settings.client_options,
                    *settings.webhook_options,
                ),
                cpu="100m",
                memory="96Mi",
                memory_limit="512Mi",
                client_ca_config=settings.client_ca_config,
            ),
        ),
    )


def certificate_access(
    settings: WorkloadSettings, account: str, *, keeps: bool
) -> Iterator[Document]:
    """The right to read the serving certificate; with `keeps`, also the right to renew it."""
    name, home = f"{account}-certificates", settings.namespace
    labels = labels_of("certificates")
    if keeps:
        at_home = keeping_rules(is_like_aaq=settings.has_aaq_certificates)
    else:
        at_home = serving_rules(settings.tls_secret)
    yield from granted(name, at_home, account=account, home=home, namespace=home, labels=labels)
    if keeps:
        yield from granted(name, bundle_rules(), account=account, home=home, labels=labels)


def common_options(settings: WorkloadSettings) -> tuple[str, ...]:
    return (f"--bind=0.0.0.0:{PORT}", f"--tls-secret={settings.tls_secret}")


def workload_documents(settings: WorkloadSettings, workload: Workload) -> tuple[Document, ...]:
    found = [_service(settings, workload), _network_policy(settings, workload)]
    if settings.replicas > 1:
        # With one replica, a budget would forbid to drain its node.
        found.append(_disruption_budget(settings, workload))
    return (*found, _deployment(settings, workload))


def _deployment(settings: WorkloadSettings, workload: Workload) -> Document:
    found = _document("apps/v1", "Deployment", settings, workload)
    found["spec"] = {
        "replicas": settings.replicas,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": _selected(workload)},
        # Some replica is ready at any time, so that no request finds none.
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": workload.unavailable}},
        "template": {
            # The last label is AAQ's. Its users find the pods by it.
            "metadata": {"labels": {**labels_of(workload.component), GROUP: workload.name}},
            "spec": _pod(settings, workload),
        },
    }
    return found


def _pod(settings: WorkloadSettings, workload: Workload) -> Document:
    return {
        "serviceAccountName": workload.name,
        "priorityClassName": settings.priority_class,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "securityContext": dict(RESTRICTED_POD),
        "topologySpreadConstraints": [
            _spread(key, workload)
            for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
        ],
        "containers": [*map(_sidecar, workload.sidecars), _container(settings, workload)],
        **_volumes(workload),
        **settings.placement,
    }


def _sidecar(container: Mapping[str, Json]) -> Document:
    """A sidecar with the folder of sockets, and with the least rights unless it has others.

    The namespace allows only pods that satisfy the Pod Security Standard `restricted`.
    """
    mounts = container.get("volumeMounts")
    known = [each for each in mounts if isinstance(each, Mapping)] if _is_list(mounts) else []
    if not any(each.get("name") == SOCKETS for each in known):
        known.append({"name": SOCKETS, "mountPath": SOCKETS_FOLDER})
    rights = container.get("securityContext")
    least = {key: RESTRICTED_CONTAINER[key] for key in ("allowPrivilegeEscalation", "capabilities")}
    return {
        **container,
        "volumeMounts": known,
        "securityContext": {**least, **(rights if isinstance(rights, Mapping) else {})},
    }


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, list | tuple)


def _volumes(workload: Workload) -> Document:
    """A mounted ConfigMap that changes reaches the process without a restart."""
    volumes: list[Json] = []
    if workload.client_ca_config:
        volumes.append({"name": "client-ca", "configMap": {"name": workload.client_ca_config}})
    if workload.sidecars:
        volumes.append({"name": SOCKETS, "emptyDir": {}})
    return {"volumes": volumes} if volumes else {}


def _spread(key: str, workload: Workload) -> Document:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        # A cluster of one node must be able to run both replicas.
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _selected(workload)},
    }


def _container(settings: WorkloadSettings, workload: Workload) -> Document:
    arguments: list[Json] = list(workload.arguments)
    return {
        "name": workload.component,
        "image": settings.image,
        "args": arguments,
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            *memory_environment(),
            *_tls_variables(settings.tls),
        ],
        "ports": [{"name": "https", "containerPort": PORT}],
        # The API server may be away for long. A process that answers is alive.
        "livenessProbe": {**_probe("/healthz"), "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2, "failureThreshold": 2},
        # The process listens when its certificate exists, which the first leader makes.
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 1, "failureThreshold": 300},
        "resources": {
            "requests": {"cpu": workload.cpu, "memory": workload.memory},
            "limits": {"memory": workload.memory_limit},
        },
        "securityContext": dict(RESTRICTED_CONTAINER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **_mounts(workload),
        **({"imagePullPolicy": settings.pull_policy} if settings.pull_policy else {}),
    }


def _tls_variables(tls: TlsChoice) -> Iterator[Document]:
    if tls.version:
        yield {"name": TLS_VERSION, "value": tls.version}
    if tls.suites:
        yield {"name": TLS_SUITES, "value": ",".join(tls.suites)}


def _mounts(workload: Workload) -> Document:
    mounts: list[Json] = []
    if workload.client_ca_config:
        mounts.append({"name": "client-ca", "mountPath": CLIENT_CA_FOLDER, "readOnly": True})
    if workload.sidecars:
        mounts.append({"name": SOCKETS, "mountPath": SOCKETS_FOLDER})
    return {"volumeMounts": mounts} if mounts else {}


def _probe(path: str) -> Document:
    return {
        "httpGet": {"path": path, "port": "https", "scheme": "HTTPS"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
    }


def _service(settings: WorkloadSettings, workload: Workload) -> Document:
    found = _document("v1", "Service", settings, workload)
    selector: Document = {"selector": dict(_selected(workload))} if workload.is_selected else {}
    # Without a selector, the name of a target port has no meaning.
    target: Json = "https" if workload.is_selected else PORT
    found["spec"] = {**selector, "ports": [{"name": "https", "port": 443, "targetPort": target}]}
    return found


def _network_policy(settings: WorkloadSettings, workload: Workload) -> Document:
    """Only the HTTPS port can be reached.

    API servers, kubelets and Prometheus come from addresses that a manifest cannot know. So the
    policy cannot tell an API server from a tenant's pod; a client certificate can.
    """
    found = _document("networking.k8s.io/v1", "NetworkPolicy", settings, workload)
    found["spec"] = {
        "podSelector": {"matchLabels": _selected(workload)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": "https"}]}],
    }
    return found


def _disruption_budget(settings: WorkloadSettings, workload: Workload) -> Document:
    found = _document("policy/v1", "PodDisruptionBudget", settings, workload)
    found["spec"] = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": _selected(workload)},
        # A replica that is not ready protects nothing.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return found


def _selected(workload: Workload) -> dict[str, Json]:
    return {NAME: "bursar", COMPONENT: workload.component}


def _document(
    api_version: str, kind: str, settings: WorkloadSettings, workload: Workload
) -> Document:
    labels = labels_of(workload.component)
    return document(api_version, kind, workload.name, namespace=settings.namespace, labels=labels)
