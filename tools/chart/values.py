"""The values of the chart: their defaults, their schema and what they mean.

Defaults that `bursar manifests` has as well are taken from there.
"""

from dataclasses import dataclass
from typing import Any, Final

from bursar.app.capacity.places import PRESET_CONFIG, PRESET_NAMESPACE
from bursar.app.controller.defaults import WAITING_PODS_MAX
from bursar.app.devices.defaults import KUBELET_FOLDER, SOCKET_FOLDER, PodsFrom
from bursar.app.extender.names import SCHEDULER_CA_CONFIG, SCHEDULER_USER
from bursar.app.install.defaults import (
    KOORDINATORS_SCHEDULER,
    KUBEVIRT_NAMESPACE,
    OVERHEAD_CPU,
    OVERHEAD_MEMORY,
)
from bursar.app.install.workloads import REPLICAS
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.cli.install.manifests import Resizes
from bursar.cli.processes.telemetry.log_options import LogLevel
from bursar.core.peerpods.names import RUNTIME_CLASS, VM_RESOURCE
from bursar.core.quota.targeting import GATING_LABEL
from chart.printed import documents
from chart.schemas import (
    AMOUNT,
    BOOLEAN,
    FOLDER,
    LABELS,
    NAME,
    NAMESPACE,
    OBJECT,
    OBJECTS,
    OPTIONS,
    SELECTOR,
    Schema,
    one_of,
)


@dataclass(frozen=True)
class Value:
    """One value. Its path is separated by dots."""

    path: str
    default: Any
    schema: Schema
    text: str


@dataclass(frozen=True)
class Group:
    """Values below one key of the first level; without a key, single values."""

    key: str
    text: str
    values: tuple[Value, ...]


def _pod(kind: str, name: str) -> dict[str, Any]:
    parts = ("controller", "webhook", "agent", "extender")
    (found,) = [
        each
        for each in documents(*parts)
        if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


def _pod_values(group: str, kind: str, name: str) -> tuple[Value, ...]:
    pod = _pod(kind, name)
    tolerations = pod.get("tolerations", [])
    return (
        Value(
            f"{group}.extraArgs",
            [],
            OPTIONS,
            f"Further options of `bursar {group}`, each as `--name=value`.",
        ),
        Value(
            f"{group}.resources",
            pod["containers"][0]["resources"],
            OBJECT,
            "Requests and limits of the container.",
        ),
        Value(
            f"{group}.nodeSelector", {}, OBJECT, "Labels of the nodes on which the pods may run."
        ),
        Value(f"{group}.tolerations", tolerations, OBJECTS, "Tolerations of the pods."),
        Value(f"{group}.affinity", {}, OBJECT, "Affinity of the pods."),
    )


GROUPS: Final = (
    Group(
        "image",
        "The image of all processes.",
        (
            Value(
                "image.repository",
                "bursar",
                {"type": "string", "minLength": 1, "pattern": "^\\S+$"},
                "Registry and name of the image, without a tag.",
            ),
            Value(
                "image.tag",
                "",
                {"type": "string", "pattern": "^\\S*$"},
                "Tag of the image. Empty: the version of Bursar that this chart is made for.",
            ),
            Value(
                "image.pullPolicy",
                "",
                one_of("", "Always", "IfNotPresent", "Never"),
                "When nodes pull the image. Empty: as Kubernetes decides by the tag.",
            ),
            Value(
                "image.pullSecrets",
                [],
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["name"],
                        "properties": {"name": {"type": "string", "minLength": 1}},
                    },
                },
                "Secrets with credentials of the registry, each as `{name: ...}`.",
            ),
        ),
    ),
    Group(
        "",
        "",
        (
            Value(
                "replicas",
                REPLICAS,
                {"type": "integer", "minimum": 1},
                "Number of replicas of the controller, and of the webhook. One of the controllers "
                "leads, the others take over if it fails.",
            ),
            Value(
                "logLevel",
                LogLevel.INFO.value,
                one_of(*(each.value for each in LogLevel)),
                "Least severe messages that the processes log.",
            ),
            Value(
                "releaseOnUninstall",
                True,
                BOOLEAN,
                "Before `helm uninstall` removes anything, a Job stops the gate and releases all "
                "pods that wait. Without it, waiting pods wait for ever.",
            ),
        ),
    ),
    Group(
        "quota",
        "Application-aware quotas: the gate that holds pods back, and the controller that releases "
        "them.",
        (
            Value("quota.enabled", True, BOOLEAN, "Install the controller and the gate."),
            Value(
                "quota.gate",
                "policies",
                one_of("policies", "webhooks"),
                "How pods get the gate. `policies`: by admission policies of the API server, which "
                "need Kubernetes 1.36 and no webhook. `webhooks`: by Bursar's webhook, which also "
                "checks resizes and new quotas.",
            ),
            Value(
                "quota.namespaceSelector",
                None,
                SELECTOR,
                "Label selector of the namespaces whose pods are gated. "
                f"null: namespaces with the label `{GATING_LABEL}`. {{}}: all namespaces. The "
                "namespace of the release and kube-system are never gated.",
            ),
            Value(
                "quota.clusterQuotas",
                True,
                BOOLEAN,
                "Whether quotas across namespaces are read and written.",
            ),
            Value(
                "quota.clusterResourceQuotas",
                False,
                BOOLEAN,
                "With `gate: policies`: allow cluster-wide quotas to limit what OpenShift's "
                "ClusterResourceQuota enforces. Webhooks find out by themselves whether the "
                "cluster has it.",
            ),
            Value(
                "quota.appliedQuotas",
                AppliedUsage.OWN.value,
                one_of(*(each.value for each in AppliedUsage)),
                "Usage that the copy of a cluster-wide quota shows in each namespace. `own`: of "
                "that namespace. `all`: of every namespace, as AAQ does.",
            ),
            Value(
                "quota.waitingPodsMax",
                WAITING_PODS_MAX,
                {"type": "integer", "minimum": 0},
                "Pods of one namespace that may wait; the API server refuses further ones. 0: any "
                "number.",
            ),
            Value(
                "quota.resizes",
                Resizes.REFUSE.value,
                one_of(*(each.value for each in Resizes)),
                "With `gate: policies`: whether a resize may make a running pod larger. `refuse`: "
                "no, because policies cannot ask a quota. `allow`: yes, also past every quota.",
            ),
            Value(
                "quota.configurationExists",
                False,
                BOOLEAN,
                "With `gate: webhooks`: deny a second AAQ object.",
            ),
        ),
    ),
    Group(
        "controller",
        "The controller. It is installed if a part needs it.",
        _pod_values("controller", "Deployment", "aaq-controller"),
    ),
    Group(
        "webhook",
        "The webhook. It is installed if a part needs it.",
        (
            Value(
                "webhook.clientCAConfig",
                "",
                {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"},
                "ConfigMap with `ca.crt`, the CA of the API server's client certificate. Other "
                "callers are refused. Empty: the webhook answers any caller.",
            ),
            Value(
                "webhook.clientNames",
                [],
                {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9:@._-]+$"}},
                "With `clientCAConfig`: names that the client certificate may have. Empty: any.",
            ),
            *_pod_values("webhook", "Deployment", "aaq-server"),
        ),
    ),
    Group(
        "peerPods",
        "Peer pods of Confidential Containers, which run as VMs of a cloud.",
        (
            Value("peerPods.enabled", False, BOOLEAN, "Rewrite peer pods, or protect their sizes."),
            Value(
                "peerPods.mode",
                "webhook",
                one_of("webhook", "policy", "upstream"),
                "`webhook`: the webhook of Bursar rewrites peer pods. `policy`: a policy only adds "
                "the VM resource. `upstream`: the webhook of cloud-api-adaptor rewrites them, "
                "and Bursar only protects the sizes.",
            ),
            Value(
                "peerPods.runtimeClasses",
                [RUNTIME_CLASS],
                {
                    "type": "array",
                    "minItems": 1,
                    "uniqueItems": True,
                    "items": {
                        "type": "string",
                        "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
                        "maxLength": 253,
                    },
                },
                "Names of the RuntimeClasses of peer pods.",
            ),
            Value(
                "peerPods.vmResource",
                VM_RESOURCE,
                {
                    "type": "string",
                    "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/"
                    "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
                },
                "Extended resource that stands for one VM.",
            ),
            Value(
                "peerPods.createRuntimeClasses",
                True,
                BOOLEAN,
                "Whether the chart creates the RuntimeClasses. false: they exist.",
            ),
            Value(
                "peerPods.handler",
                "",
                {"type": "string", "maxLength": 63, "pattern": f"^({NAME})?$"},
                "Handler of the RuntimeClasses. Empty: the name of each class.",
            ),
            Value(
                "peerPods.overhead.cpu",
                str(OVERHEAD_CPU),
                AMOUNT,
                "CPU that one peer pod costs its worker node.",
            ),
            Value(
                "peerPods.overhead.memory",
                str(OVERHEAD_MEMORY),
                AMOUNT,
                "Memory that one peer pod costs its worker node.",
            ),
            Value(
                "peerPods.nodeSelector",
                {},
                LABELS,
                "Labels of the nodes that can run peer pods. {}: all nodes.",
            ),
            Value(
                "peerPods.allPods",
                False,
                BOOLEAN,
                "Send every new pod to the webhook, because another webhook may set the class.",
            ),
        ),
    ),
    Group(
        "capacity",
        "Capacity of nodes for extended resources, such as the VMs of peer pods.",
        (
            Value(
                "capacity.enabled",
                False,
                BOOLEAN,
                "Let the controller keep the declared capacity on nodes.",
            ),
            Value(
                "capacity.peerPodsNamespace",
                PRESET_NAMESPACE,
                NAMESPACE,
                f"Namespace of the ConfigMap `{PRESET_CONFIG}` of cloud-api-adaptor.",
            ),
        ),
    ),
    Group(
        "kubevirt",
        "Virtual machines of KubeVirt.",
        (
            Value(
                "kubevirt.enabled",
                False,
                BOOLEAN,
                "Keep tenants from forging pods of VMs, which quotas charge as VMs.",
            ),
            Value(
                "kubevirt.namespace",
                KUBEVIRT_NAMESPACE,
                NAMESPACE,
                "Namespace where KubeVirt is installed.",
            ),
        ),
    ),
    Group(
        "agent",
        "The agent of every node, which serves kubelet's PodResources API with all devices.",
        (
            Value(
                "agent.enabled",
                False,
                BOOLEAN,
                "Install the agents. They mount folders of the host, so the namespace must allow "
                "pods of the Pod Security Standard `privileged`.",
            ),
            Value(
                "agent.podsFrom",
                PodsFrom.KUBELET.value,
                one_of(*(each.value for each in PodsFrom)),
                "Where an agent reads the pods of its node from.",
            ),
            Value("agent.socketDir", SOCKET_FOLDER, FOLDER, "Folder on the host for its socket."),
            Value("agent.kubeletDir", KUBELET_FOLDER, FOLDER, "The --root-dir of kubelet."),
            Value(
                "agent.kubeletCert",
                "",
                {"type": "string", "pattern": "^((/[A-Za-z0-9_-][A-Za-z0-9._-]*)+)?$"},
                "File on the host with the CA of kubelet's serving certificate. Empty: the CA of "
                "the cluster.",
            ),
            Value(
                "agent.deviceWriters",
                [KOORDINATORS_SCHEDULER],
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string", "pattern": "^[-A-Za-z0-9:._@/]+$"},
                },
                "Users that may record on pods which devices they were allocated: the schedulers. "
                "A policy refuses other users.",
            ),
            Value(
                "agent.sourcesConfig",
                "",
                {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"},
                "ConfigMap that holds the allocators under the key `sources.yaml`. Empty: none.",
            ),
            Value("agent.hostNetwork", False, BOOLEAN, "Use the network of the host."),
            Value(
                "agent.disk",
                False,
                BOOLEAN,
                "Account for pods' local ephemeral storage. Agents then read the folders of all "
                "pods, with the capability `DAC_READ_SEARCH`.",
            ),
            *_pod_values("agent", "DaemonSet", "bursar-agent"),
        ),
    ),
    Group(
        "extender",
        "The scheduler extender, for cluster-level resources such as licences. The controller, "
        "which makes its certificate, is installed with it.",
        (
            Value(
                "extender.enabled",
                False,
                BOOLEAN,
                "Install the extender. The scheduler has to be configured to call it.",
            ),
            Value(
                "extender.schedulerCAConfig",
                SCHEDULER_CA_CONFIG,
                {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
                "ConfigMap with `ca.crt`, the CA of the scheduler's client certificate. The pods "
                "start when it exists.",
            ),
            Value(
                "extender.schedulerNames",
                [SCHEDULER_USER],
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string", "pattern": "^[A-Za-z0-9:@._-]+$"},
                },
                "Names that the scheduler's client certificate may have.",
            ),
            *_pod_values("extender", "Deployment", "bursar-extender"),
        ),
    ),
    Group(
        "certManager",
        "Certificates of controller and webhook.",
        (
            Value(
                "certManager.enabled",
                False,
                BOOLEAN,
                "cert-manager makes the certificates. false: the controller makes and renews them.",
            ),
        ),
    ),
    Group(
        "monitoring",
        "Monitoring by the Prometheus operator.",
        (
            Value(
                "monitoring.enabled",
                False,
                BOOLEAN,
                "Install ServiceMonitors and alerts.",
            ),
            Value(
                "monitoring.dashboard",
                False,
                BOOLEAN,
                "Install a dashboard for Grafana, as a ConfigMap that its sidecar loads.",
            ),
        ),
    ),
)


def all_values() -> tuple[Value, ...]:
    return tuple(value for group in GROUPS for value in group.values)
