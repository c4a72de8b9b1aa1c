"""The exec plugin that a user of a kubeconfig has, checked before it is first run."""

import os
from collections.abc import Mapping
from typing import Final

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.kube.kubeconfig.exec_plugin import IF_AVAILABLE, MODES, ExecCredentials, Plugin
from bursar.adapters.kube.kubeconfig.merge import Located
from bursar.app.cluster.ports import Clock
from bursar.wire.cluster.exec_credential import API_VERSIONS
from bursar.wire.cluster.kubeconfig import Exec, Plain, User

_MISSING: Final = "required, but missing"


def exec_credentials(
    user: Located[User],
    raw: Exec,
    cluster: Mapping[str, Plain] | None,
    environment: Mapping[str, str],
    clock: Clock,
) -> ExecCredentials:
    """The credentials of a user's `exec`. `cluster` describes the cluster to the plugin.

    Raises `ConfigError`.
    """
    if not raw.command:
        raise ConfigError(user.place("exec.command"), _MISSING)
    if raw.api_version not in API_VERSIONS:
        problem = f"{' or '.join(API_VERSIONS)} is expected" if raw.api_version else _MISSING
        raise ConfigError(user.place("exec.apiVersion"), problem)
    variables = {}
    for index, each in enumerate(raw.env or ()):
        if each is None or not each.name:
            raise ConfigError(user.place(f"exec.env[{index}].name"), _MISSING)
        variables[each.name] = each.value or ""
    plugin = Plugin(
        place=f"{user.file}: {user.field}.exec",
        command=user.path(raw.command) if os.sep in raw.command else raw.command,
        arguments=tuple(argument or "" for argument in raw.args or ()),
        environment=environment,
        variables=variables,
        api_version=raw.api_version,
        mode=_mode(user, raw),
        install_hint=raw.install_hint or "",
        cluster=cluster,
    )
    return ExecCredentials(plugin, clock=clock)


def _mode(user: Located[User], raw: Exec) -> str:
    place = user.place("exec.interactiveMode")
    if not raw.interactive_mode:
        if raw.api_version != API_VERSIONS[0]:
            return IF_AVAILABLE
        raise ConfigError(place, _MISSING)
    if raw.interactive_mode not in MODES:
        raise ConfigError(place, f"one of {', '.join(MODES)} is expected")
    return raw.interactive_mode
