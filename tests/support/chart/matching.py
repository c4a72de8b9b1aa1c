"""The options of `bursar manifests` that mean the same as values of the chart.

This is a second statement of what the chart promises, written by hand: the templates are made from
the command, so a test that used the same table could not fail.
"""

from collections.abc import Iterator
from typing import Any

Values = dict[str, Any]


def matching_arguments(values: Values, namespace: str) -> list[str]:
    """Values that are missing have their defaults."""
    return [*_parts(values), "-n", namespace, *_options(values)]


def _parts(values: Values) -> list[str]:
    quota, peer_pods = values.get("quota", {}), values.get("peerPods", {})
    is_gated = quota.get("enabled", True)
    by_webhooks = quota.get("gate") == "webhooks"
    has_webhook = (is_gated and by_webhooks) or (
        _is_on(values, "peerPods") and peer_pods.get("mode", "webhook") == "webhook"
    )
    has_controller = (
        is_gated
        or _is_on(values, "capacity")
        or _is_on(values, "extender")
        or (has_webhook and not _is_on(values, "certManager"))
    )
    has_processes = has_webhook or has_controller
    wanted = {
        "crds": True,
        "rbac": has_processes,
        "controller": has_controller,
        "webhook": has_webhook,
        "policies": is_gated and not by_webhooks,
        "webhooks": is_gated and by_webhooks,
        "peerpods": _is_on(values, "peerPods"),
        "capacity": _is_on(values, "capacity"),
        "kubevirt": _is_on(values, "kubevirt"),
        "agent": _is_on(values, "agent"),
        "extender": _is_on(values, "extender"),
        "certificates": _is_on(values, "certManager") and has_processes,
        "monitoring": _is_on(values, "monitoring"),
        "dashboard": bool(values.get("monitoring", {}).get("dashboard")),
        "removal": has_controller and values.get("releaseOnUninstall", True),
    }
    return [part for part, is_wanted in wanted.items() if is_wanted]


def _is_on(values: Values, key: str) -> bool:
    return bool(values.get(key, {}).get("enabled"))


def _options(values: Values) -> Iterator[str]:
    image = values.get("image", {})
    if image:
        yield f"--image={image.get('repository', 'bursar')}:{image['tag']}"
    if "replicas" in values:
        yield f"--replicas={values['replicas']}"
    if "logLevel" in values:
        for process in ("controller", "webhook", "agent", "extender"):
            yield f"--{process}-option=--log-level={values['logLevel']}"
    for process in ("controller", "webhook", "agent", "extender"):
        for option in values.get(process, {}).get("extraArgs", ()):
            yield f"--{process}-option={option}"
    if _is_on(values, "certManager"):
        yield "--cert-manager"
    yield from _quota(values.get("quota", {}))
    yield from _peer_pods(values.get("peerPods", {}))
    yield from _agent(values.get("agent", {}))
    yield from _extender(values.get("extender", {}))
    webhook = values.get("webhook", {})
    if "clientCAConfig" in webhook:
        yield f"--client-ca-config={webhook['clientCAConfig']}"
    for name in webhook.get("clientNames", ()):
        yield f"--client-name={name}"
    if "peerPodsNamespace" in values.get("capacity", {}):
        yield f"--peerpods-namespace={values['capacity']['peerPodsNamespace']}"
    if "namespace" in values.get("kubevirt", {}):
        yield f"--kubevirt-namespace={values['kubevirt']['namespace']}"


def _quota(quota: Values) -> Iterator[str]:
    selector = quota.get("namespaceSelector")
    if selector is not None:
        yield f"--selector={selector_text(selector)}"
    if not quota.get("clusterQuotas", True):
        yield "--without-cluster-quota"
    if "resizes" in quota:
        yield f"--resizes={quota['resizes']}"
    if "appliedQuotas" in quota:
        yield f"--applied-quotas={quota['appliedQuotas']}"
    if "waitingPodsMax" in quota:
        yield f"--waiting-pods-max={quota['waitingPodsMax']}"
    if quota.get("configurationExists"):
        yield "--configuration-exists"


def selector_text(selector: Values) -> str:
    texts = {}
    for key, value in selector.get("matchLabels", {}).items():
        texts[key] = f"{key} in ({value})"
    for each in selector.get("matchExpressions", ()):
        key, values = each["key"], ",".join(sorted(set(each.get("values", ()))))
        texts[key] = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }[each["operator"]]
    return ",".join(texts[key] for key in sorted(texts))


def _peer_pods(peer_pods: Values) -> Iterator[str]:
    for name in peer_pods.get("runtimeClasses", ()):
        yield f"--runtime-class={name}"
    modes = {"policy": "--without-webhook", "upstream": "--upstream-webhook"}
    if peer_pods.get("mode") in modes:
        yield modes[peer_pods["mode"]]
    if "vmResource" in peer_pods:
        yield f"--vm-resource={peer_pods['vmResource']}"
    if not peer_pods.get("createRuntimeClasses", True):
        yield "--without-runtime-class"
    if "handler" in peer_pods:
        yield f"--handler={peer_pods['handler']}"
    for name, amount in peer_pods.get("overhead", {}).items():
        yield f"--overhead-{name}={amount}"
    for key, value in peer_pods.get("nodeSelector", {}).items():
        yield f"--node-label={key}={value}"
    if peer_pods.get("allPods"):
        yield "--all-pods"


def _extender(extender: Values) -> Iterator[str]:
    if "schedulerCAConfig" in extender:
        yield f"--scheduler-ca-config={extender['schedulerCAConfig']}"
    for name in extender.get("schedulerNames", ()):
        yield f"--scheduler-client-name={name}"


def _agent(agent: Values) -> Iterator[str]:
    names = {
        "podsFrom": "--pods-from",
        "socketDir": "--socket-dir",
        "kubeletDir": "--kubelet-dir",
        "kubeletCert": "--kubelet-cert",
        "sourcesConfig": "--sources-config",
    }
    for key, option in names.items():
        if key in agent:
            yield f"{option}={agent[key]}"
    if agent.get("hostNetwork"):
        yield "--host-network"
    for user in agent.get("deviceWriters", ()):
        yield f"--device-writer={user}"
