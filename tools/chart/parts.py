"""The templates of the chart: which part each is made of, and which values decide about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bursar.app.capacity.places import PRESET_NAMESPACE
from bursar.app.controller.defaults import WAITING_PODS_MAX
from bursar.core.peerpods.names import RUNTIME_CLASS, VM_RESOURCE
from bursar.wire.documents.yaml_writing import yaml_text
from chart import sentinels
from chart.merging import Body, Node, Switch, flag, merged, text_lines
from chart.printed import Manifest, documents_of_part, identity

HEADER: Final = "{{- /* Written by `make chart` from what `bursar manifests` prints. */ -}}"

_NO_CLUSTER_QUOTAS: Final = flag("not $.Values.quota.clusterQuotas", "--without-cluster-quota")
_REPLICAS: Final = Switch(
    (
        ("gt (int $.Values.replicas) 1", (f"--replicas={sentinels.REPLICAS}",)),
        ("", ("--replicas=1",)),
    )
)
_CERT_MANAGER: Final = flag("$.Values.certManager.enabled", "--cert-manager")
_SELECTOR: Final = f"--selector={sentinels.SELECTOR}"
_CLASSES: Final = flag(
    f'ne (join "," $.Values.peerPods.runtimeClasses) "{RUNTIME_CLASS}"',
    f"--runtime-class={sentinels.CLASS}",
)
_PEER_PODS_HOME: Final = "$.Values.capacity.peerPodsNamespace"
_CAPACITY: Final = Switch(
    (
        (
            f'and $.Values.capacity.enabled (ne {_PEER_PODS_HOME} "{PRESET_NAMESPACE}")',
            ("capacity", f"--peerpods-namespace={sentinels.PRESET}"),
        ),
        ("$.Values.capacity.enabled", ("capacity",)),
        ("", ()),
    )
)


def _log_level(process: str) -> Switch:
    return flag('ne $.Values.logLevel "info"', f"--{process}-option={sentinels.LEVEL}")


@dataclass(frozen=True)
class Template:
    """A file of the chart."""

    part: str
    condition: str
    options: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()
    check: str = ""
    """Named template that fails for values that the schema cannot refuse."""

    def text(self) -> str:
        nodes = merged(self.switches, self._variant)
        check = [f'{{{{- include "{self.check}" $ }}}}'] if self.check else []
        start = [HEADER, f"{{{{- if {self.condition} }}}}", *check]
        return "\n".join([*start, *text_lines(nodes), "{{- end }}"]) + "\n"

    def _variant(self, chosen: tuple[str, ...]) -> tuple[Node, ...]:
        beside = [each for each in chosen if not each.startswith("-")]
        options = (
            f"--namespace={sentinels.NAMESPACE}",
            f"--image={sentinels.IMAGE}",
            *(each for each in chosen if each.startswith("-")),
            # After those of switches: the log level comes before further options.
            *self.options,
        )
        return tuple(_bodies(documents_of_part(self.part, beside, options)))


def _bodies(manifests: list[Manifest]) -> Iterator[Body]:
    for manifest in manifests:
        kind = manifest["kind"]
        if kind == "Namespace":
            # Helm creates the namespace of a release, or finds it.
            continue
        if kind in _PODS:
            sentinels.add_pod_settings(manifest, _pod_values(manifest))
        if kind in _HOOKS and manifest["metadata"]["name"] == "bursar-removal":
            manifest["metadata"]["annotations"] = _hook(_HOOKS[kind])
        written = yaml_text(sentinels.with_blocks(manifest)).splitlines()
        lines = tuple(each for line in written for each in sentinels.template_lines(line))
        repeated = "$.Values.peerPods.runtimeClasses" if kind == "RuntimeClass" else ""
        yield Body(identity(manifest), lines, repeated)


_PODS: Final = {"Deployment", "DaemonSet", "Job"}
_HOOKS: Final = {"ClusterRole": "-5", "ClusterRoleBinding": "-5", "Job": "0"}
"""Objects that exist during an uninstallation only, with the order in which they are made."""


def _hook(weight: str) -> dict[str, str]:
    return {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": weight,
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }


def _pod_values(manifest: Manifest) -> str:
    names = {
        "aaq-controller": "controller",
        "aaq-server": "webhook",
        "bursar-agent": "agent",
        "bursar-extender": "extender",
    }
    return names.get(manifest["metadata"]["name"], "controller")


_HAS_CONTROLLER: Final = 'include "bursar.hasController" $'
_HAS_WEBHOOK: Final = 'include "bursar.hasWebhook" $'

TEMPLATES: Final = (
    Template("rbac", f"or ({_HAS_CONTROLLER}) ({_HAS_WEBHOOK})", (), (_NO_CLUSTER_QUOTAS,)),
    Template(
        "controller",
        _HAS_CONTROLLER,
        (f"--controller-option={sentinels.CONTROLLER_OPTION}",),
        (
            _REPLICAS,
            flag('not (kindIs "invalid" $.Values.quota.namespaceSelector)', _SELECTOR),
            _NO_CLUSTER_QUOTAS,
            flag(
                f"ne (int $.Values.quota.waitingPodsMax) {WAITING_PODS_MAX}",
                sentinels.WAITING,
            ),
            flag('eq $.Values.quota.appliedQuotas "all"', "--applied-quotas=all"),
            _CAPACITY,
            _CERT_MANAGER,
            _CLASSES,
            _log_level("controller"),
        ),
    ),
    Template(
        "webhook",
        _HAS_WEBHOOK,
        (f"--webhook-option={sentinels.WEBHOOK_OPTION}",),
        (
            _REPLICAS,
            _CLASSES,
            flag(
                f'ne $.Values.peerPods.vmResource "{VM_RESOURCE}"', f"--vm-resource={sentinels.VM}"
            ),
            _CERT_MANAGER,
            Switch(
                (
                    (
                        "$.Values.webhook.clientCAConfig",
                        (
                            f"--client-ca-config={sentinels.CLIENT_CA}",
                            # As many as the list of names has, or none.
                            f"--client-name={sentinels.CLIENT_NAME}",
                        ),
                    ),
                    ("", ()),
                )
            ),
            _log_level("webhook"),
        ),
        check="bursar.checkWebhook",
    ),
    Template(
        "policies",
        'and $.Values.quota.enabled (eq $.Values.quota.gate "policies")',
        (_SELECTOR,),
        (
            flag('eq $.Values.quota.resizes "allow"', "--resizes=allow"),
            _NO_CLUSTER_QUOTAS,
            flag("$.Values.quota.clusterResourceQuotas", "--with-clusterresourcequotas"),
        ),
        check="bursar.checkGate",
    ),
    Template(
        "webhooks",
        'and $.Values.quota.enabled (eq $.Values.quota.gate "webhooks")',
        (_SELECTOR,),
        (
            flag("$.Values.quota.configurationExists", "--configuration-exists"),
            _NO_CLUSTER_QUOTAS,
            _CERT_MANAGER,
        ),
    ),
    Template(
        "peerpods",
        "$.Values.peerPods.enabled",
        (
            f"--runtime-class={sentinels.CLASS}",
            f"--vm-resource={sentinels.VM}",
            f"--overhead-cpu={sentinels.CPU}",
            f"--overhead-memory={sentinels.MEMORY}",
        ),
        (
            Switch(
                (
                    ('eq $.Values.peerPods.mode "policy"', ("--without-webhook",)),
                    ('eq $.Values.peerPods.mode "upstream"', ("--upstream-webhook",)),
                    ("", ()),
                )
            ),
            flag("not $.Values.peerPods.createRuntimeClasses", "--without-runtime-class"),
            flag("$.Values.peerPods.handler", f"--handler={sentinels.HANDLER}"),
            flag(
                "$.Values.peerPods.nodeSelector",
                f"--node-label={'='.join(sentinels.NODE_LABEL)}",
            ),
            flag("$.Values.peerPods.allPods", "--all-pods"),
            _CERT_MANAGER,
        ),
        check="bursar.checkPeerPods",
    ),
    Template(
        "capacity",
        "$.Values.capacity.enabled",
        (),
        (
            Switch(
                (
                    (
                        f"eq {_PEER_PODS_HOME} $.Release.Namespace",
                        (f"--peerpods-namespace={sentinels.NAMESPACE}",),
                    ),
                    ("", (f"--peerpods-namespace={sentinels.PRESET}",)),
                )
            ),
        ),
    ),
    Template(
        "kubevirt",
        "$.Values.kubevirt.enabled",
        (_SELECTOR, f"--kubevirt-namespace={sentinels.KUBEVIRT}"),
    ),
    Template(
        "agent",
        "$.Values.agent.enabled",
        (
            f"--socket-dir={sentinels.SOCKET}",
            f"--kubelet-dir={sentinels.KUBELET}",
            f"--agent-option={sentinels.AGENT_OPTION}",
            f"--device-writer={sentinels.WRITER}",
        ),
        (
            Switch(
                (
                    ('eq $.Values.agent.podsFrom "api"', ("--pods-from=api",)),
                    (
                        'eq $.Values.agent.podsFrom "kubelet-read-only"',
                        ("--pods-from=kubelet-read-only",),
                    ),
                    ("", ()),
                )
            ),
            flag("$.Values.agent.kubeletCert", f"--kubelet-cert={sentinels.CERTIFICATE}"),
            flag("$.Values.agent.sourcesConfig", f"--sources-config={sentinels.SOURCES}"),
            flag("$.Values.agent.hostNetwork", "--host-network"),
            flag("$.Values.agent.disk", "--disk"),
            _log_level("agent"),
        ),
        check="bursar.checkAgent",
    ),
    Template(
        "extender",
        "$.Values.extender.enabled",
        (
            f"--scheduler-ca-config={sentinels.SCHEDULER_CA}",
            f"--scheduler-client-name={sentinels.SCHEDULER_NAME}",
            f"--extender-option={sentinels.EXTENDER_OPTION}",
        ),
        (_REPLICAS, _CERT_MANAGER, _log_level("extender")),
    ),
    Template(
        "certificates",
        f"and $.Values.certManager.enabled (or ({_HAS_CONTROLLER}) ({_HAS_WEBHOOK}))",
    ),
    Template("monitoring", "$.Values.monitoring.enabled"),
    Template("dashboard", "$.Values.monitoring.dashboard"),
    Template("removal", f"and $.Values.releaseOnUninstall ({_HAS_CONTROLLER})"),
)
