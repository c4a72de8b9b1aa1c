"""Rules for the security contexts of pods and containers, and for operating systems."""

import re
from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import bytes_of, subdomain_errors
from bursar.core.model.problem import (
    NO_VALUE,
    JsonText,
    Problem,
    Verbatim,
    duplicate,
    forbidden,
    invalid,
    json_text,
    not_supported,
    required,
    too_long,
)
from bursar.wire.validation.formats import descending_path, each_invalid, user_id_errors
from bursar.wire.validation.section import Section

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = re.compile(rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}")
_SYSCTL_RULE: Final = f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"
_IPC_SYSCTLS: Final = frozenset(
    {"kernel.sem", "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni"}
    | {"kernel.shm_rmid_forced", "kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"}
)
_PROFILE_BYTES_MAX: Final = 4095
_DNS_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_WINDOWS_DOMAIN: Final = re.compile(
    rf'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{{0,14}}|{_DNS_LABEL}(?:\.{_DNS_LABEL})*', re.DOTALL
)


def pod_security(spec: Section) -> Iterator[Problem]:
    context = spec.child("securityContext")
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _user_id(context, name)
    for index, group in enumerate(context.numbers("supplementalGroups")):
        field = f"{context.at('supplementalGroups')}[{index}]"
        yield from each_invalid(field, group, user_id_errors(group))
    if spec.flag("shareProcessNamespace") and spec.flag("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(context.at("shareProcessNamespace"), True, detail)
    yield from _sysctls(spec, context)
    yield from _words(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"))
    yield from _seccomp(context.maybe_child("seccompProfile"))
    yield from _windows(context.maybe_child("windowsOptions"))
    yield from _app_armor(context.maybe_child("appArmorProfile"))
    yield from _words(context, "supplementalGroupsPolicy", ("Merge", "Strict"))
    # The other policy, MountOption, takes a feature gate that is off by default.
    yield from _words(context, "seLinuxChangePolicy", ("Recursive",))


def container_security(container: Section, *, host_users: bool) -> Iterator[Problem]:
    context = container.maybe_child("securityContext")
    if context is None:
        return
    yield from _user_id(context, "runAsUser")
    yield from _user_id(context, "runAsGroup")
    mount, field = context.maybe_text("procMount"), context.at("procMount")
    if mount is not None and mount not in {"Default", "Unmasked"}:
        yield not_supported(field, JsonText(mount), ("Default", "Unmasked"))
    if mount == "Unmasked" and host_users:
        yield invalid(field, JsonText(mount), "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(context.maybe_child("seccompProfile"))
    if context.maybe_flag("allowPrivilegeEscalation") is False:
        if context.flag("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(context.path, NO_VALUE, detail)
        for added in context.child("capabilities").texts("add"):
            if added == "CAP_SYS_ADMIN":
                detail = (
                    "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                    "CAP_SYS_ADMIN"
                )
                yield invalid(context.path, NO_VALUE, detail)
    yield from _windows(context.maybe_child("windowsOptions"))
    yield from _app_armor(context.maybe_child("appArmorProfile"))


def _user_id(context: Section, name: str) -> Iterator[Problem]:
    number = context.maybe_number(name)
    if number is not None:
        yield from each_invalid(context.at(name), number, user_id_errors(number))


def _words(context: Section, name: str, allowed: tuple[str, ...]) -> Iterator[Problem]:
    word = context.maybe_text(name)
    if word is not None and word not in allowed:
        yield not_supported(context.at(name), JsonText(word), allowed)


def _sysctls(spec: Section, context: Section) -> Iterator[Problem]:
    seen: set[str] = set()
    for sysctl in context.items("sysctls"):
        name, field = sysctl.text("name"), sysctl.at("name")
        if not name:
            yield required(field)
        elif bytes_of(name) > 253 or not _SYSCTL.fullmatch(name):
            yield invalid(field, name, _SYSCTL_RULE)
        elif name in seen:
            yield duplicate(field, name)
        dotted = name.replace("/", ".") if re.match(r"[^.]*/", name) else name
        if spec.flag("hostNetwork") and dotted.startswith("net."):
            yield invalid(field, name, "may not be specified when 'hostNetwork' is true")
        elif spec.flag("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            yield invalid(field, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


# ------------------------------------------------------------------ profiles


def _seccomp(profile: Section | None) -> Iterator[Problem]:
    if profile is None:
        return
    kind, path = profile.text("type"), profile.maybe_text("localhostProfile")
    field = profile.at("localhostProfile")
    if not kind:
        yield required(profile.at("type"), "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        yield not_supported(profile.at("type"), JsonText(kind), _PROFILES)
    if kind != "Localhost":
        if path is not None:
            shown = f'{{"Type":{json_text(kind)},"LocalhostProfile":{json_text(path)}}}'
            detail = "can only be set when seccomp type is Localhost"
            yield invalid(field, Verbatim(shown), detail)
    elif path is None:
        yield required(field, "must be set when seccomp type is Localhost")
    else:
        yield from descending_path(field, path)


def _app_armor(profile: Section | None) -> Iterator[Problem]:
    if profile is None:
        return
    path, field = profile.maybe_text("localhostProfile"), profile.at("localhostProfile")
    match profile.text("type"):
        case "Localhost":
            if path is None or path == "":
                yield required(field, "must be set when AppArmor type is Localhost")
                return
            if path.strip() != path:
                yield invalid(field, path, "must not be padded with whitespace")
            if bytes_of(path) > _PROFILE_BYTES_MAX:
                yield too_long(field, _PROFILE_BYTES_MAX)
        case "RuntimeDefault" | "Unconfined":
            if path is not None:
                detail = "can only be set when AppArmor type is Localhost"
                yield invalid(field, JsonText(path), detail)
        case "":
            yield required(profile.at("type"), "type is required when appArmorProfile is set")
        case kind:
            yield not_supported(profile.at("type"), JsonText(kind), _PROFILES)


# ------------------------------------------------------------------ Windows


def _windows(options: Section | None) -> Iterator[Problem]:
    if options is None:
        return
    if (name := options.maybe_text("gmsaCredentialSpecName")) is not None:
        yield from each_invalid(
            options.at("gmsaCredentialSpecName"), JsonText(name), subdomain_errors(name)
        )
    if (credential := options.maybe_text("gmsaCredentialSpec")) is not None:
        field = options.at("gmsaCredentialSpec")
        if not credential:
            yield invalid(
                field, JsonText(credential), "gmsaCredentialSpec cannot be an empty string"
            )
        elif bytes_of(credential) > 64 * 1024:
            yield invalid(
                field, JsonText(credential), "gmsaCredentialSpec size must be under 64 KiB"
            )
    if (user := options.maybe_text("runAsUserName")) is not None:
        field = options.at("runAsUserName")
        yield from each_invalid(field, JsonText(user), _windows_user_errors(user))


def _windows_user_errors(name: str) -> Iterator[str]:
    parts = name.split("\\")
    if not name:
        yield "runAsUserName cannot be an empty string"
    elif re.search(r"[\x00-\x1f\x7f]", name):
        yield "runAsUserName cannot contain control characters"
    elif len(parts) > 2:
        yield "runAsUserName cannot contain more than one backslash"
    else:
        yield from _windows_account_errors(None if len(parts) == 1 else parts[0], parts[-1])


def _windows_account_errors(domain: str | None, user: str) -> Iterator[str]:
    if domain is not None:
        if bytes_of(domain) >= 256:
            yield "runAsUserName's Domain length must be under 256 characters"
        if not _WINDOWS_DOMAIN.fullmatch(domain):
            yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "runAsUserName's User cannot be empty"
    elif bytes_of(user) > 104:
        yield "runAsUserName's User length must not be longer than 104 characters"
    if re.fullmatch(r"[\. ]+", user):
        yield "runAsUserName's User cannot contain only periods or spaces"
    if re.search(r'["/\\:;|=,\+\*\?<>@\[\]]', user):
        yield ("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")


def host_process(spec: Section, containers: list[Section]) -> Iterator[Problem]:
    """HostProcess containers of Windows: all containers of a pod are, or none is."""
    own = spec.child("securityContext").child("windowsOptions").maybe_flag("hostProcess")
    count = 0
    for container in containers:
        options = container.child("securityContext").child("windowsOptions")
        wanted = options.maybe_flag("hostProcess")
        if own is not None and wanted is not None and own != wanted:
            detail = (
                "pod hostProcess value must be identical if both are specified, was "
                f"{str(own).lower()}"
            )
            yield invalid(options.at("hostProcess"), wanted, detail)
        count += bool(own if wanted is None else wanted)
    if not count:
        return
    if count != len(containers):
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess "
            "containers"
        )
        yield invalid(spec.path, "", detail)
    if not spec.flag("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(spec.at("hostNetwork"), False, detail)


# ------------------------------------------------------------------ operating systems

_POD_FIELDS: Final = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_LINUX_POD_CONTEXT: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_LINUX_CONTEXT: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_PLAIN: Final = frozenset({"hostPID", "hostIPC"})


def operating_system(spec: Section, containers: list[Section]) -> Iterator[Problem]:
    system = spec.maybe_child("os")
    if system is None:
        return
    match system.text("name"):
        case "":
            yield required(system.at("name"))
        case "linux":
            yield from _on_linux(spec, containers)
        case "windows":
            yield from _on_windows(spec, containers)
        case name:
            yield not_supported(system.path, JsonText(name), ("linux", "windows"))


def _on_linux(spec: Section, containers: list[Section]) -> Iterator[Problem]:
    for each in (spec, *containers):
        context = each.child("securityContext")
        if context.has("windowsOptions"):
            detail = "windows options cannot be set for a linux pod"
            yield forbidden(context.at("windowsOptions"), detail)


def _on_windows(spec: Section, containers: list[Section]) -> Iterator[Problem]:
    for name in _POD_FIELDS:
        if spec.flag(name) if name in _PLAIN else spec.has(name):
            yield forbidden(spec.at(name), "cannot be set for a windows pod")
    context = spec.child("securityContext")
    for name in _LINUX_POD_CONTEXT:
        is_set = bool(context.count(name)) if name == "sysctls" else context.has(name)
        if is_set:
            yield forbidden(context.at(name), "cannot be set for a windows pod")
    for container in containers:
        own = container.child("securityContext")
        for name in _LINUX_CONTEXT:
            if own.has(name):
                yield forbidden(own.at(name), "cannot be set for a windows pod")
