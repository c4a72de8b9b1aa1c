"""Rules for containers: names, images, ports, mounts, policies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bursar.core.model.names import label_errors
from bursar.core.model.problem import (
    JsonText,
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from bursar.wire.validation.formats import (
    descending_path,
    each_invalid,
    port_errors,
    port_name_errors,
    without_backsteps,
)
from bursar.wire.validation.pods.environment import environment
from bursar.wire.validation.pods.handlers import lifecycle, probes
from bursar.wire.validation.pods.security import container_security
from bursar.wire.validation.pods.sources import pull_policy
from bursar.wire.validation.section import Section

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")
_FOR_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_FOR_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_NOT_EPHEMERAL: Final = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_RULES_MAX: Final = 20
_CODES_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the rules for a container have to know about its pod."""

    spec: Section
    volumes: frozenset[str]
    """The names of valid volumes."""
    blocks: frozenset[str]
    """The names of volumes that can be block devices."""
    is_pod: bool

    @property
    def grace_s(self) -> int:
        seconds = self.spec.maybe_number("terminationGracePeriodSeconds")
        return 30 if seconds is None else seconds

    @property
    def host_users(self) -> bool:
        return self.spec.maybe_flag("hostUsers") is not False

    def host_port(self, port: Section) -> int:
        """The port on the node: on the host's network, that of the container by default."""
        stated = port.number("hostPort")
        if stated or not (self.is_pod and self.spec.flag("hostNetwork")):
            return stated
        return port.number("containerPort")


def all_containers(around: Surroundings) -> Iterator[Problem]:
    spec = around.spec
    if not spec.count("containers"):
        yield required(spec.at("containers"))
    names: set[str] = set()
    ports: set[str] = set()
    for container in spec.items("containers"):
        yield from _any_container(container, around)
        yield from _unique_name(container, names)
        yield from lifecycle(container, around.grace_s)
        yield from probes(container, around.grace_s)
        yield from _restarts(container)
        yield from _host_ports(container, around, ports)
    for container in spec.items("initContainers"):
        yield from _any_container(container, around)
        yield from _unique_name(container, names, empty_counts=False)
        yield from _init_container(container, around)
    yield from _ephemeral_containers(around, names)


def _unique_name(
    container: Section, names: set[str], *, empty_counts: bool = True
) -> Iterator[Problem]:
    name = container.text("name")
    if name in names:
        yield duplicate(container.at("name"), name)
    if name or empty_counts:
        names.add(name)


def _any_container(container: Section, around: Surroundings) -> Iterator[Problem]:
    if name := container.text("name"):
        yield from each_invalid(container.at("name"), name, label_errors(name))
    else:
        yield required(container.at("name"))
    if not container.text("image"):
        yield required(container.at("image"))
    policy = container.text("terminationMessagePolicy")
    policies = ("File", "FallbackToLogsOnError")
    if policy and policy not in policies:
        yield not_supported(container.at("terminationMessagePolicy"), JsonText(policy), policies)
    yield from _ports(container, around)
    yield from environment(container)
    yield from _mounts(container, around)
    yield from _devices(container, around)
    yield from pull_policy(container.at("imagePullPolicy"), container.text("imagePullPolicy"))
    yield from _resize_policies(container, around)
    yield from container_security(container, host_users=around.host_users)


def _init_container(container: Section, around: Surroundings) -> Iterator[Problem]:
    yield from _restarts(container)
    yield from _host_ports(container, around, set(), path=f"{around.spec.at('initContainers')}[0]")
    if container.text("restartPolicy") == "Always":
        yield from lifecycle(container, around.grace_s)
        yield from probes(container, around.grace_s)
        return
    for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if container.has(name):
            yield forbidden(container.at(name), _FOR_SIDECARS)
    for policy in container.items("resizePolicy"):
        if policy.text("restartPolicy") == "RestartContainer":
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield invalid(policy.at("restartPolicy"), policy.word("restartPolicy"), detail)


def _ephemeral_containers(around: Surroundings, names: set[str]) -> Iterator[Problem]:
    others = frozenset(names)
    for container in around.spec.items("ephemeralContainers"):
        yield from _any_container(container, around)
        yield from image_spaces(container)
        yield from _unique_name(container, names)
        target = container.text("targetContainerName")
        if target and target not in others:
            yield not_found(container.at("targetContainerName"), target)
        for name in (*_NOT_EPHEMERAL, "resizePolicy", "restartPolicy", "restartPolicyRules"):
            if container.has(name):
                yield forbidden(container.at(name), _FOR_EPHEMERAL)
        resources = container.child("resources").value
        if any(each is not None and not each for each in resources.values()):
            # Amounts are refused with the other rules for resources; empty lists are as well.
            yield forbidden(container.at("resources"), _FOR_EPHEMERAL)
        for mount in container.items("volumeMounts"):
            for name in ("subPath", "subPathExpr"):
                if mount.text(name):
                    yield forbidden(mount.at(name), _FOR_EPHEMERAL)


def image_spaces(container: Section) -> Iterator[Problem]:
    """A rule for pods only: templates may have images with spaces around them."""
    image = container.text("image")
    if image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield invalid(container.at("image"), image, detail)


# ------------------------------------------------------------------ ports


def _ports(container: Section, around: Surroundings) -> Iterator[Problem]:
    names: set[str] = set()
    for port in container.items("ports"):
        if name := port.text("name"):
            errors = port_name_errors(name)
            yield from each_invalid(port.at("name"), name, errors)
            if not errors and name in names:
                yield duplicate(port.at("name"), name)
            names.add(name)
        number, on_host = port.number("containerPort"), around.host_port(port)
        if number:
            yield from each_invalid(port.at("containerPort"), number, port_errors(number))
        else:
            yield required(port.at("containerPort"))
        if on_host:
            yield from each_invalid(port.at("hostPort"), on_host, port_errors(on_host))
        protocol = port.text("protocol") or "TCP"
        if protocol not in _PROTOCOLS:
            yield not_supported(port.at("protocol"), JsonText(protocol), _PROTOCOLS)


def _host_ports(
    container: Section, around: Surroundings, taken: set[str], *, path: str = ""
) -> Iterator[Problem]:
    """Ports of the node that two containers want. To upstream, an init container is the first."""
    for index, port in enumerate(container.items("ports")):
        number = around.host_port(port)
        if not number:
            continue
        wanted = f"{port.text('protocol') or 'TCP'}/{port.text('hostIP')}/{number}"
        if wanted in taken:
            yield duplicate(f"{path or container.path}.ports[{index}].hostPort", wanted)
        taken.add(wanted)


def host_network_ports(around: Surroundings) -> Iterator[Problem]:
    if not around.spec.flag("hostNetwork"):
        return
    for container in around.spec.items("containers"):
        for port in container.items("ports"):
            on_host = around.host_port(port)
            if (around.is_pod or on_host) and on_host != port.number("containerPort"):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(port.at("hostPort"), on_host, detail)


# ------------------------------------------------------------------ mounts


def _mounts(container: Section, around: Surroundings) -> Iterator[Problem]:
    devices = {
        each.text("name"): each.text("devicePath") for each in container.items("volumeDevices")
    }
    device_paths = {*devices.values()}
    listed, seen = container.at("volumeMounts"), set[str]()
    for mount in container.items("volumeMounts"):
        name, path = mount.text("name"), mount.text("mountPath")
        if not name:
            yield required(mount.at("name"))
        if name not in around.volumes:
            yield not_found(mount.at("name"), name)
        if not path:
            yield required(mount.at("mountPath"))
        if path in seen:
            yield invalid(mount.at("mountPath"), path, "must be unique")
        seen.add(path)
        if name in devices:
            yield invalid(mount.at("name"), name, "must not already exist in volumeDevices")
        if path in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            yield invalid(mount.at("mountPath"), path, detail)
        yield from _sub_paths(mount, listed)
        yield from _propagation(mount, listed, container)


def _sub_paths(mount: Section, listed: str) -> Iterator[Problem]:
    path, expression = mount.text("subPath"), mount.text("subPathExpr")
    yield from descending_path(f"{listed}.subPath", path)
    if path and expression:
        detail = "subPathExpr and subPath are mutually exclusive"
        yield invalid(mount.at("subPathExpr"), expression, detail)
    yield from descending_path(f"{listed}.subPathExpr", expression)


def _propagation(mount: Section, listed: str, container: Section) -> Iterator[Problem]:
    mode = mount.maybe_text("mountPropagation")
    field = f"{listed}.mountPropagation"
    if mode is not None and mode not in _PROPAGATIONS:
        yield not_supported(field, JsonText(mode), _PROPAGATIONS)
    privileged = container.child("securityContext").flag("privileged")
    if mode == "Bidirectional" and not privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(field, detail)
    read_only = mount.maybe_text("recursiveReadOnly")
    field = f"{listed}.recursiveReadOnly"
    if read_only in {"Enabled", "IfPossible"}:
        if not mount.flag("readOnly"):
            yield forbidden(field, "may only be specified when readOnly is true")
        if mode not in {None, "None"}:
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(field, detail)
    elif read_only not in {None, "Disabled"}:
        allowed = ("Disabled", "Enabled", "IfPossible")
        yield not_supported(field, JsonText(read_only or ""), allowed)


def _devices(container: Section, around: Surroundings) -> Iterator[Problem]:
    mounts = {each.text("name"): each.text("mountPath") for each in container.items("volumeMounts")}
    mount_paths = {*mounts.values()}
    names, paths = set[str](), set[str]()
    for device in container.items("volumeDevices"):
        name, path = device.text("name"), device.text("devicePath")
        name_field, path_field = device.at("name"), device.at("devicePath")
        if not name:
            yield required(name_field)
        if name in names:
            yield invalid(name_field, name, "must be unique")
        if name not in around.volumes:
            yield not_found(name_field, name)
        elif name not in around.blocks:
            detail = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode"
            )
            yield invalid(name_field, name, detail)
        if not path:
            yield required(path_field)
        if path in paths:
            yield invalid(path_field, path, "must be unique")
        if any(without_backsteps(path_field, path)):
            yield invalid(path_field, path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounts:
            yield invalid(name_field, name, "must not already exist in volumeMounts")
        if path in mount_paths:
            yield invalid(path_field, path, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)


# ------------------------------------------------------------------ policies


def _resize_policies(container: Section, around: Surroundings) -> Iterator[Problem]:
    seen: set[str] = set()
    field = container.at("resizePolicy")
    allowed = ("NotRequired", "RestartContainer")
    for policy in container.items("resizePolicy"):
        resource, restart = policy.text("resourceName"), policy.text("restartPolicy")
        if resource in seen:
            yield duplicate(policy.path, JsonText(resource))
        seen.add(resource)
        if not resource:
            yield required(field)
        elif resource not in {"cpu", "memory"}:
            yield not_supported(field, JsonText(resource), ("cpu", "memory"))
        if not restart:
            yield required(field)
        elif restart not in allowed:
            yield not_supported(field, JsonText(restart), allowed)
        if around.spec.text("restartPolicy") == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield invalid(field, JsonText(restart), detail)


def _restarts(container: Section) -> Iterator[Problem]:
    policy = container.maybe_text("restartPolicy")
    rules = [*container.items("restartPolicyRules")]
    if policy is None:
        if not rules:
            return
        detail = "must specify restartPolicy when restart rules are used"
        yield required(container.at("restartPolicy"), detail)
        if ".initContainers[" in container.path:
            return
    elif policy not in _RESTARTS:
        yield not_supported(container.at("restartPolicy"), JsonText(policy), _RESTARTS)
    if len(rules) > _RULES_MAX:
        yield too_many(container.at("restartPolicyRules"), len(rules), _RULES_MAX)
    for rule in rules:
        yield from _restart_rule(rule)


def _restart_rule(rule: Section) -> Iterator[Problem]:
    if rule.text("action") not in _RULE_ACTIONS:
        yield not_supported(rule.at("action"), rule.word("action"), _RULE_ACTIONS)
    codes = rule.maybe_child("exitCodes")
    if codes is None:
        yield required(rule.at("exitCodes"), "must be specified")
        return
    if codes.text("operator") not in {"In", "NotIn"}:
        yield not_supported(codes.at("operator"), codes.word("operator"), ("In", "NotIn"))
    if codes.count("values") > _CODES_MAX:
        yield too_many(codes.at("values"), codes.count("values"), _CODES_MAX)
