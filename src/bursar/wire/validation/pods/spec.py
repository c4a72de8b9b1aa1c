"""The rules for a pod's spec, in a pod and in a template, but for amounts of resources."""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import bytes_of, label_errors, qualified_name_errors, subdomain_errors
from bursar.core.model.problem import (
    JsonText,
    Problem,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)
from bursar.wire.validation.formats import (
    INT32_MAX,
    each_invalid,
    in_range,
    ip_errors,
    search_domain_errors,
)
from bursar.wire.validation.labels import labels as label_problems
from bursar.wire.validation.pods.claims import resource_claims
from bursar.wire.validation.pods.containers import (
    Surroundings,
    all_containers,
    host_network_ports,
)
from bursar.wire.validation.pods.scheduling import affinity, tolerations, topology_spread
from bursar.wire.validation.pods.security import host_process, operating_system, pod_security
from bursar.wire.validation.pods.volumes import block_volumes, volumes
from bursar.wire.validation.section import Section

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMESERVERS_MAX: Final = 3
_SEARCHES_MAX: Final = 32
_SEARCH_BYTES_MAX: Final = 2048
_HOSTNAME_BYTES_MAX: Final = 64


def pod_spec(
    spec: Section, *, pod_name: str = "", labels: dict[str, str] | None = None
) -> Iterator[Problem]:
    """Check a spec. A pod has labels, if only an empty set of them; a template has None."""
    is_pod = labels is not None
    found, names = volumes(spec, pod_name=pod_name, is_pod=is_pod)
    yield from found
    around = Surroundings(
        spec=spec,
        volumes=frozenset(names),
        blocks=frozenset(block_volumes(spec)),
        is_pod=is_pod,
    )
    containers = visited(spec)
    yield from resource_claims(spec)
    yield from _pod_level_claims(spec)
    yield from all_containers(around)
    yield from host_network_ports(around)
    yield from _word(spec, "restartPolicy", _RESTARTS)
    yield from _word(spec, "dnsPolicy", _DNS_POLICIES)
    yield from label_problems(spec.at("nodeSelector"), spec.text_map("nodeSelector"))
    yield from pod_security(spec)
    yield from affinity(spec, labels)
    yield from _dns(spec)
    for gate in spec.items("readinessGates"):
        kind = gate.text("conditionType")
        yield from each_invalid(gate.at("conditionType"), kind, qualified_name_errors(kind))
    yield from topology_spread(spec, labels)
    yield from host_process(spec, containers)
    yield from _host_users(spec, containers)
    yield from _names(spec)
    yield from tolerations(spec)
    yield from _host_aliases(spec)
    yield from operating_system(spec, containers)
    yield from _file_references(spec, containers)


def visited(spec: Section) -> list[Section]:
    """All containers, in upstream's order."""
    return [
        *spec.items("initContainers"),
        *spec.items("containers"),
        *spec.items("ephemeralContainers"),
    ]


def _pod_level_claims(spec: Section) -> Iterator[Problem]:
    """An empty list of claims is refused like any other; the amounts are checked elsewhere."""
    resources = spec.child("resources")
    is_empty = resources.has("claims") and not resources.count("claims")
    if is_empty and spec.child("os").text("name") != "windows":
        detail = "claims may not be set for Resources at pod-level"
        yield forbidden(resources.at("claims"), detail)


def _word(spec: Section, name: str, allowed: tuple[str, ...]) -> Iterator[Problem]:
    word = spec.text(name)
    if word and word not in allowed:
        yield not_supported(spec.at(name), JsonText(word), allowed)


def _names(spec: Section) -> Iterator[Problem]:
    account = spec.text("serviceAccountName") or spec.text("serviceAccount")
    named = (("serviceAccountName", account), ("nodeName", spec.text("nodeName")))
    for name, text in (*named, ("priorityClassName", spec.text("priorityClassName"))):
        if text:
            yield from each_invalid(spec.at(name), text, subdomain_errors(text))
    runtime_class = spec.maybe_text("runtimeClassName")
    if runtime_class is not None:
        field = spec.at("runtimeClassName")
        yield from each_invalid(field, runtime_class, subdomain_errors(runtime_class))
    for name in ("hostname", "subdomain"):
        if text := spec.text(name):
            yield from each_invalid(spec.at(name), text, label_errors(text))
    yield from _hostname_override(spec)
    deadline = spec.maybe_number("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        yield invalid(spec.at("activeDeadlineSeconds"), deadline, in_range(1, INT32_MAX))
    policy = spec.maybe_text("preemptionPolicy")
    if policy == "":
        yield required(spec.at("preemptionPolicy"))
    yield from _word(spec, "preemptionPolicy", ("PreemptLowerPriority", "Never"))


def _hostname_override(spec: Section) -> Iterator[Problem]:
    name, field = spec.maybe_text("hostnameOverride"), spec.at("hostnameOverride")
    if name is None:
        return
    if spec.flag("setHostnameAsFQDN"):
        yield forbidden(field, "may not be specified when setHostnameAsFQDN is true")
    if spec.flag("hostNetwork"):
        yield forbidden(field, "may not be specified when hostNetwork is true")
    if bytes_of(name) > _HOSTNAME_BYTES_MAX:
        yield too_long(field, _HOSTNAME_BYTES_MAX)
    yield from each_invalid(field, name, subdomain_errors(name))


def _host_users(spec: Section, containers: list[Section]) -> Iterator[Problem]:
    if spec.maybe_flag("hostUsers") is not False:
        return
    # Upstream writes two of these paths with a capital.
    for name, shown in (
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ):
        if spec.flag(name):
            yield forbidden(spec.at(shown), "when `hostUsers` is false")
    for container in containers:
        if container.count("volumeDevices"):
            yield forbidden(container.at("volumeDevices"), "when `hostUsers` is false")


def _host_aliases(spec: Section) -> Iterator[Problem]:
    for alias in spec.items("hostAliases"):
        yield from each_invalid(alias.at("ip"), alias.text("ip"), ip_errors(alias.text("ip")))
        for index, name in enumerate(alias.texts("hostnames")):
            field = f"{alias.at('hostnames')}[{index}]"
            yield from each_invalid(field, name, subdomain_errors(name))


def _file_references(spec: Section, containers: list[Section]) -> Iterator[Problem]:
    """Environment variables from files: their volume must exist, and be an emptyDir."""
    empty_dirs = {
        # A volume without a type becomes an emptyDir.
        volume.text("name"): volume.has("emptyDir") or not volume.value.keys() - {"name"}
        for volume in spec.items("volumes")
    }
    for container in containers:
        for variable in container.items("env"):
            reference = variable.child("valueFrom").maybe_child("fileKeyRef")
            if reference is None:
                continue
            name, field = reference.text("volumeName"), reference.at("volumeName")
            if name not in empty_dirs:
                yield not_found(field, name)
            elif not empty_dirs[name]:
                yield invalid(field, name, "referenced volume must be of type emptyDir")


# ------------------------------------------------------------------ DNS


def _dns(spec: Section) -> Iterator[Problem]:
    config = spec.maybe_child("dnsConfig")
    if spec.text("dnsPolicy") == "None":
        if config is None:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            yield required(spec.at("dnsConfig"), detail)
        elif not config.count("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(config.at("nameservers"), detail)
            return
    if config is None:
        return
    servers, searches = config.texts("nameservers"), config.texts("searches")
    if len(servers) > _NAMESERVERS_MAX:
        detail = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        yield invalid(config.at("nameservers"), servers, detail)
    for index, server in enumerate(servers):
        yield from each_invalid(f"{config.at('nameservers')}[{index}]", server, ip_errors(server))
    yield from _searches(config.at("searches"), searches)
    for option in config.items("options"):
        if not option.text("name"):
            yield required(option.path, "must not be empty")


def _searches(field: str, searches: tuple[str, ...]) -> Iterator[Problem]:
    if len(searches) > _SEARCHES_MAX:
        yield invalid(field, searches, f"must not have more than {_SEARCHES_MAX} search paths")
    if bytes_of(" ".join(searches)) > _SEARCH_BYTES_MAX:
        detail = (
            f"must not have more than {_SEARCH_BYTES_MAX} characters (including spaces) in the "
            "search list"
        )
        yield invalid(field, searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            shown = search.removesuffix(".")
            yield from each_invalid(f"{field}[{index}]", shown, search_domain_errors(shown))
