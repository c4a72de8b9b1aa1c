"""Values that `bursar manifests` is run with, and the expressions that take their place.

A sentinel is valid where it is given, and appears nowhere else. Where a scalar is only the
sentinel, the expression is quoted, since a namespace may be called `1e3`. Within a longer text the
expression stands as it is: the schema of the values permits no character that would need quotes.
"""

import re
from typing import Final

from bursar.app.install.documents import spared_namespaces
from chart.printed import Manifest

NAMESPACE: Final = "zz-namespace"
IMAGE: Final = "zz-image"
REPLICAS: Final = 7777
SELECTOR: Final = "zz-selector"
CLASS: Final = "zz-class"
VM: Final = "zz-domain/zz-vm"
PRESET: Final = "zz-preset"
KUBEVIRT: Final = "zz-kubevirt"
HANDLER: Final = "zz-handler"
CPU: Final = "7777m"
MEMORY: Final = "7777Mi"
NODE_LABEL: Final = ("zz-node-label", "zz-node-value")
SOCKET: Final = "/zz-socket"
KUBELET: Final = "/zz-kubelet"
CERTIFICATE: Final = "/zz-certificate"
SOURCES: Final = "zz-sources"
WRITER: Final = "zz-writer"
CLIENT_CA: Final = "zz-client-ca"
CLIENT_NAME: Final = "zz-client-name"
LEVEL: Final = "--log-level=debug"
WAITING: Final = "--waiting-pods-max=77777"
CONTROLLER_OPTION: Final = "--otlp-endpoint=zz-controller-option"
WEBHOOK_OPTION: Final = "--otlp-endpoint=zz-webhook-option"
AGENT_OPTION: Final = "--scheduler=zz-agent-option"
SCHEDULER_CA: Final = "zz-scheduler-ca"
SCHEDULER_NAME: Final = "zz-scheduler-name"
EXTENDER_OPTION: Final = "--hold=zz-extender-option"

_VALUES: Final = "$.Values"
INLINE: Final = {
    NAMESPACE: "$.Release.Namespace",
    VM: f"{_VALUES}.peerPods.vmResource",
    PRESET: f"{_VALUES}.capacity.peerPodsNamespace",
    KUBEVIRT: f"{_VALUES}.kubevirt.namespace",
    HANDLER: f"{_VALUES}.peerPods.handler",
    CPU: f"{_VALUES}.peerPods.overhead.cpu",
    MEMORY: f"{_VALUES}.peerPods.overhead.memory",
    SOCKET: f"{_VALUES}.agent.socketDir",
    KUBELET: f"{_VALUES}.agent.kubeletDir",
    CERTIFICATE: f"{_VALUES}.agent.kubeletCert",
    SOURCES: f"{_VALUES}.agent.sourcesConfig",
    WRITER: f'join "," {_VALUES}.agent.deviceWriters',
    CLIENT_CA: f"{_VALUES}.webhook.clientCAConfig",
    SCHEDULER_CA: f"{_VALUES}.extender.schedulerCAConfig",
    IMAGE: 'include "bursar.image" $',
}
ITEMS: Final = {
    CONTROLLER_OPTION: (f"{_VALUES}.controller.extraArgs", "."),
    WEBHOOK_OPTION: (f"{_VALUES}.webhook.extraArgs", "."),
    AGENT_OPTION: (f"{_VALUES}.agent.extraArgs", "."),
    EXTENDER_OPTION: (f"{_VALUES}.extender.extraArgs", "."),
    f"--client-name={SCHEDULER_NAME}": (
        f"{_VALUES}.extender.schedulerNames",
        'printf "--client-name=%s" .',
    ),
    f"--client-name={CLIENT_NAME}": (
        f"{_VALUES}.webhook.clientNames",
        'printf "--client-name=%s" .',
    ),
    f"--peerpod-runtime-class={CLASS}": (
        f"{_VALUES}.peerPods.runtimeClasses",
        'printf "--peerpod-runtime-class=%s" .',
    ),
    f"--runtime-class={CLASS}": (
        f"{_VALUES}.peerPods.runtimeClasses",
        'printf "--runtime-class=%s" .',
    ),
}
"""Items of lists that stand for several: the value with the items, and the text of one."""
WHOLE: Final = {
    CLASS: "$class",
    WAITING: f'printf "--waiting-pods-max=%d" (int {_VALUES}.quota.waitingPodsMax)',
    LEVEL: f'printf "--log-level=%s" {_VALUES}.logLevel',
    f"--namespace-selector={SELECTOR}": (
        'printf "--namespace-selector=%s" (include "bursar.selectorText" $)'
    ),
}

_NEVER: Final = {
    "key": spared_namespaces(NAMESPACE).key,
    "operator": spared_namespaces(NAMESPACE).operator,
    "values": list(spared_namespaces(NAMESPACE).values),
}
_WANTED: Final = {"key": SELECTOR, "operator": "Exists"}
_CHOSEN: Final = [_WANTED, _NEVER]

LIST: Final = "zz-list:"
OPTIONAL: Final = "zz-optional:"
_BLOCK: Final = re.compile(rf"( *)([A-Za-z]+): '?({LIST}|{OPTIONAL})([^']*)'?")
_SCALAR: Final = re.compile(r"( *(?:- )*(?:[A-Za-z./-]+: )?|- )(.*)")


def with_blocks(value: object) -> object:
    """The value with markers in the place of lists and maps that an expression writes."""
    if isinstance(value, list):
        if value == _CHOSEN:
            return f'{LIST}include "bursar.gatedNamespaces" $'
        if value == [_NEVER]:
            return f'{LIST}include "bursar.otherNamespaces" $'
        return [with_blocks(each) for each in value]
    if isinstance(value, dict):
        if value == {"matchExpressions": [_WANTED]}:
            return f'{LIST}include "bursar.selectedNamespaces" $'
        if value == dict([NODE_LABEL]):
            return f"{LIST}toYaml {_VALUES}.peerPods.nodeSelector"
        return {key: with_blocks(each) for key, each in value.items()}
    return value


def add_pod_settings(manifest: Manifest, values: str) -> None:
    """Add to a manifest what only the chart can set on its pods, from these values."""
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["imagePullPolicy"] = f"{OPTIONAL}image.pullPolicy"
    if manifest["kind"] != "Job":
        container["resources"] = f"{OPTIONAL}{values}.resources"
    pod["imagePullSecrets"] = f"{OPTIONAL}image.pullSecrets"
    for key in ("nodeSelector", "tolerations", "affinity"):
        pod[key] = f"{OPTIONAL}{values}.{key}"


def template_lines(line: str) -> list[str]:
    """The lines of a template for one line of YAML."""
    line = line.replace("{{", '{{ "{{" }}')
    block = _BLOCK.fullmatch(line)
    if block is not None:
        return _block(*block.groups())
    start, scalar = _SCALAR.fullmatch(line).groups()  # type: ignore[union-attr]
    if scalar in ITEMS:
        items, text = ITEMS[scalar]
        return [f"{{{{- range {items} }}}}", f"{start}{{{{ {text} | quote }}}}", "{{- end }}"]
    if scalar in WHOLE:
        return [f"{start}{{{{ {WHOLE[scalar]} | quote }}}}"]
    if scalar in INLINE:
        return [f"{start}{{{{ {INLINE[scalar]} | quote }}}}"]
    if scalar == str(REPLICAS):
        return [f"{start}{{{{ int {_VALUES}.replicas }}}}"]
    return [start + _inline(scalar)]


def _block(indent: str, key: str, sort: str, expression: str) -> list[str]:
    if sort == LIST:
        return [f"{indent}{key}:", f"{indent}  {{{{- {expression} | nindent {len(indent) + 2} }}}}"]
    written = f"{{{{- toYaml . | nindent {len(indent) + 2} }}}}"
    lines = [f"{indent}{key}:", f"{indent}  {written}"]
    if key == "imagePullPolicy":
        lines = [f"{indent}{key}: {{{{ . }}}}"]
    return [f"{indent}{{{{- with {_VALUES}.{expression} }}}}", *lines, f"{indent}{{{{- end }}}}"]


def _inline(scalar: str) -> str:
    for quote in ("''", "'"):
        # Names of classes in a list of CEL, whose quotes are doubled in quoted scalars.
        joined = f'{{{{ join "{quote}, {quote}" {_VALUES}.peerPods.runtimeClasses }}}}'
        scalar = scalar.replace(f"{quote}{CLASS}{quote}", f"{quote}{joined}{quote}")
    for sentinel, expression in INLINE.items():
        scalar = scalar.replace(sentinel, f"{{{{ {expression} }}}}")
    if "zz-" in scalar or str(REPLICAS) in scalar:
        raise ValueError(f"no expression stands for a value in: {scalar}")
    return scalar
