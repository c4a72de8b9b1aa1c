"""Impersonation: the `as`, `as-uid`, `as-groups` and `as-user-extra` of a kubeconfig's user."""

from typing import Final

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.credentials import is_sendable
from bursar.adapters.http1.request import Header, Headers
from bursar.adapters.kube.kubeconfig.merge import Located
from bursar.wire.cluster.kubeconfig import User

_TOKEN_CHARACTERS: Final = frozenset(
    "!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)


def impersonation_headers(user: Located[User] | None) -> Headers:
    """The headers that ask the API server to act as another user. Raises `ConfigError`."""
    if user is None:
        return ()
    entry = user.entry
    headers: list[Header] = []
    if entry.impersonate_uid:
        headers.append(("Impersonate-Uid", entry.impersonate_uid))
    headers += [("Impersonate-Group", group or "") for group in entry.impersonate_groups or ()]
    extra = entry.impersonate_extra or {}
    for key, values in extra.items():
        name = f"Impersonate-Extra-{_escaped(key)}"
        headers += [(name, value or "") for value in values or ()]
    if not entry.impersonate:
        if headers or extra:
            raise ConfigError(user.place("as"), "required beside as-uid, as-groups, as-user-extra")
        return ()
    headers.insert(0, ("Impersonate-User", entry.impersonate))
    if not all(is_sendable(text) for _, text in headers):
        raise ConfigError(user.place("as"), "cannot be sent: it has control characters")
    return headers


def _escaped(key: str) -> str:
    """The key as a part of a header name, percent-encoded as the API server decodes it."""
    return "".join(
        chr(byte) if chr(byte) in _TOKEN_CHARACTERS else f"%{byte:02X}" for byte in key.encode()
    )
