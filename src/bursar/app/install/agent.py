"""Manifests that run the agent on every node: its account, its rights and its DaemonSet.

The agent answers on a socket of its own and asks kubelet on kubelet's. Both belong to root,
and that is the only reason why it runs as root: it has no capabilities, sees neither the
processes nor the network of its host, and writes nowhere but to the folder of its socket. To
account for disks it also reads the folders of all pods, which takes one capability.

Documents are plain data, ready for `kubectl apply`; nothing here talks to a cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bursar.app.devices.defaults import HTTP_PORT, KUBELET_FOLDER, SOCKET, SOCKET_FOLDER, PodsFrom
from bursar.app.install.documents import (
    DNS_SUBDOMAIN,
    Document,
    document,
    granted,
    memory_environment,
    metrics_review_rules,
    permission,
    require_image,
    require_namespace,
)
from bursar.app.names import AGENT, OWN_NAMESPACE

TRUSTED: Final = "/etc/bursar/kubelet-ca.crt"
"""Path in the container of the certificate that kubelet must present."""
SOURCES_FOLDER: Final = "/etc/bursar/sources"
SOURCES: Final = "sources.yaml"
MEMORY_LIMIT: Final = "288Mi"
"""Enough for an agent that accounts for disks as well. The chart has one default for both."""
POD_LOGS: Final = "/var/log/pods"
LABELS: Final = {"app.kubernetes.io/name": AGENT, "app.kubernetes.io/part-of": "bursar"}

KUBELETS_SOCKETS: Final = ("pod-resources", "device-plugins")
"""Folders in which kubelet has a socket of the name that ours has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInstallation:
    """Settings of the agent's manifests.

    Raises `ValueError` for a value that the API server or a container runtime would refuse.
    """

    image: str
    namespace: str = OWN_NAMESPACE
    pods_from: PodsFrom = PodsFrom.KUBELET
    socket_folder: str = SOCKET_FOLDER
    kubelet_folder: str = KUBELET_FOLDER
    """The --root-dir of kubelet."""
    kubelet_certificate: str = ""
    """A file of the host, if kubelet signed its own certificate. The agent then expects the
    node's name in the certificate, which is the only name that such a certificate has."""
    sources_config: str = ""
    """The ConfigMap whose key `sources.yaml` says where else devices are written down."""
    is_on_host_network: bool = False
    """Run the agent on the host's network. If Multus needs the agent to start any pod, an agent
    on the pod network could start only if another one were running."""
    accounts_for_disk: bool = False
    """Measure the local ephemeral storage of pods. The agent then reads the kubelet's folder of
    pods, which has the content of Secrets too, and the folder of logs."""
    options: tuple[str, ...] = ()
    """Further options of `bursar agent`, passed on unchanged."""

    def __post_init__(self) -> None:
        require_image(self.image)
        require_namespace(self.namespace)
        if self.sources_config and not DNS_SUBDOMAIN.fullmatch(self.sources_config):
            raise ValueError(f"{self.sources_config!r} is not the name of a ConfigMap")
        for path in (self.socket_folder, self.kubelet_folder, self.kubelet_certificate or "/"):
            # A colon would end the path where runtimes write mounts as text.
            if not path.startswith("/") or ".." in path.split("/") or ":" in path:
                raise ValueError(f"{path!r} is not an absolute path")
        if _plain(self.socket_folder) == "/":
            raise ValueError(f"{self.socket_folder!r} is not a folder that can be mounted")
        if _plain(self.socket_folder) in {
            _plain(f"{self.kubelet_folder}/{each}") for each in KUBELETS_SOCKETS
        }:
            raise ValueError(
                f"{self.socket_folder!r} is not a folder of the agent's own: "
                f"kubelet has its {SOCKET} there, which would be replaced"
            )


def _plain(path: str) -> str:
    """The path without superfluous slashes and dots.

    >>> _plain("/var//lib/./kubelet/")
    '/var/lib/kubelet'
    """
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


def agent_documents(installation: AgentInstallation) -> tuple[Document, ...]:
    """The ServiceAccount, its rights and the DaemonSet. The namespace must exist."""
    home = installation.namespace
    account = document("v1", "ServiceAccount", AGENT, namespace=home, labels=LABELS)
    rules = _rules(installation)
    access = granted(AGENT, rules, account=AGENT, home=home, labels=LABELS)
    return (account, *access, _daemon_set(installation))


def _rules(installation: AgentInstallation) -> Sequence[Document]:
    """The agent may read the kubelet's list of pods only; `nodes/proxy` would allow exec."""
    asking: dict[PodsFrom, list[Document]] = {
        PodsFrom.KUBELET: [permission(("get",), "nodes/pods")],
        PodsFrom.READ_ONLY: [],
        PodsFrom.API: [permission(("list", "watch"), "pods")],
    }
    return (
        *asking[installation.pods_from],
        *(_DISK_RULES if installation.accounts_for_disk else ()),
        permission(("list", "watch"), "devices", group="scheduling.koordinator.sh"),
        permission(("create", "patch"), "events", group="events.k8s.io"),
        *metrics_review_rules(),
    )


_DISK_RULES: Final = (
    # The writable layers of containers, and what the node lets pods use.
    permission(("get",), "nodes/stats"),
    permission(("get",), "nodes"),
)


# ------------------------------------------------------------------ the agents


def _daemon_set(installation: AgentInstallation) -> Document:
    found = document("apps/v1", "DaemonSet", AGENT, namespace=installation.namespace, labels=LABELS)
    name = {"app.kubernetes.io/name": AGENT}
    found["spec"] = {
        "selector": {"matchLabels": name},
        # Only one agent of a node can have the socket, so the old pod ends before the new one
        # starts. The socket file stays: clients are refused for a moment, and retry. Without the
        # file they would conclude that this node has no PodResources API.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod(installation)},
    }
    return found


def _pod(installation: AgentInstallation) -> Document:
    spec: Document = {
        "serviceAccountName": AGENT,
        "priorityClassName": "system-node-critical",
        # Other pods of the node may need the agent to start, whatever taints the node has.
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
        "containers": [_container(installation)],
        "volumes": list(_volumes(installation)),
    }
    if installation.is_on_host_network:
        spec["hostNetwork"] = True
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    return spec


def _container(installation: AgentInstallation) -> Document:
    return {
        "name": "agent",
        "image": installation.image,
        "command": ["bursar", "agent"],
        "args": list(agent_arguments(installation)),
        "env": [
            _field("NODE_NAME", "spec.nodeName"),
            _field("NODE_IP", "status.hostIP"),
            _field("POD_IP", "status.podIP"),
            *memory_environment(),
        ],
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        "livenessProbe": {**_probe("/healthz"), "initialDelaySeconds": 10},
        "readinessProbe": _probe("/readyz"),
        "resources": {
            "requests": {"cpu": "20m", "memory": "80Mi"},
            "limits": {"memory": MEMORY_LIMIT},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": _capabilities(installation),
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(_mounts(installation)),
    }


def _capabilities(installation: AgentInstallation) -> Document:
    dropped: Document = {"drop": ["ALL"]}
    # Volumes have folders that only their tenant's user may read.
    return {**dropped, "add": ["DAC_READ_SEARCH"]} if installation.accounts_for_disk else dropped


def agent_arguments(installation: AgentInstallation) -> Sequence[str]:
    """What `bursar agent` is started with. `$(NAME)` is filled in on the node."""
    found = [
        f"--socket={installation.socket_folder}/{SOCKET}",
        f"--kubelet-socket={installation.kubelet_folder}/pod-resources/{SOCKET}",
        f"--pods-from={installation.pods_from.value}",
        # The pod's own address, which may well be of IPv6 only.
        f"--bind=$(POD_IP):{HTTP_PORT}",
    ]
    if installation.pods_from is not PodsFrom.API:
        found.append("--kubelet-address=$(NODE_IP)")
    if installation.kubelet_certificate:
        found += [f"--kubelet-ca={TRUSTED}", "--kubelet-server-name=$(NODE_NAME)"]
    if installation.sources_config:
        found.append(f"--sources={SOURCES_FOLDER}/{SOURCES}")
    if installation.accounts_for_disk:
        found += [
            "--disk",
            f"--kubelet-folder={installation.kubelet_folder}",
            f"--pod-logs-folder={POD_LOGS}",
        ]
    return (*found, *installation.options)


def _field(name: str, path: str) -> Document:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str) -> Document:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
    }


def _volumes(installation: AgentInstallation) -> Sequence[Document]:
    """Mounts of folders, not of sockets: a program that restarts replaces its socket file."""
    kubelet = f"{installation.kubelet_folder}/pod-resources"
    found = [
        _host("socket", installation.socket_folder, "DirectoryOrCreate"),
        _host("kubelet", kubelet, "Directory"),
    ]
    if installation.kubelet_certificate:
        found.append(_host("kubelet-ca", installation.kubelet_certificate, "File"))
    if installation.sources_config:
        found.append({"name": "sources", "configMap": {"name": installation.sources_config}})
    if installation.accounts_for_disk:
        found.append(_host("pods", f"{installation.kubelet_folder}/pods", "Directory"))
        found.append(_host("logs", POD_LOGS, "DirectoryOrCreate"))
    return found


def _host(name: str, path: str, type: str) -> Document:
    return {"name": name, "hostPath": {"path": path, "type": type}}


def _mounts(installation: AgentInstallation) -> Sequence[Document]:
    kubelet = f"{installation.kubelet_folder}/pod-resources"
    found: list[Document] = [
        {"name": "socket", "mountPath": installation.socket_folder},
        {"name": "kubelet", "mountPath": kubelet, "readOnly": True},
    ]
    if installation.kubelet_certificate:
        found.append({"name": "kubelet-ca", "mountPath": TRUSTED, "readOnly": True})
    if installation.sources_config:
        found.append({"name": "sources", "mountPath": SOURCES_FOLDER, "readOnly": True})
    if installation.accounts_for_disk:
        pods: Document = {
            "name": "pods",
            "mountPath": f"{installation.kubelet_folder}/pods",
            "readOnly": True,
            # Without propagation, the agent would keep volumes mounted that the kubelet unmounts.
            "mountPropagation": "HostToContainer",
        }
        found += [pods, {"name": "logs", "mountPath": POD_LOGS, "readOnly": True}]
    return found
