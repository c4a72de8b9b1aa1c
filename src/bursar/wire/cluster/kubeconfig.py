"""Decoding of kubeconfig files.

A kubeconfig contains secrets. Errors therefore have a place and a field but no value, and the
`repr` of structs shows no content.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import msgspec

from bursar.wire.documents.stream import Document, read_documents
from bursar.wire.documents.text import DocumentError, Place
from bursar.wire.documents.tree import Number, Value, steps_towards
from bursar.wire.structs.fields import FieldError, quoted
from bursar.wire.structs.shape import described, shaped

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | msgspec.Raw | None"
"""JSON data in which a number can be kept as its text."""

EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the extension of a cluster that exec plugins receive."""


class Cluster(msgspec.Struct, rename="kebab", gc=False):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None

    def __repr__(self) -> str:  # the proxy URL can contain a password
        return "Cluster(...)"


class ExecVariable(msgspec.Struct, gc=False):
    name: str | None = None
    value: str | None = None

    def __repr__(self) -> str:
        return "ExecVariable(...)"


class Exec(msgspec.Struct, rename="camel", gc=False):
    """An exec credential plugin."""

    command: str | None = None
    args: list[str | None] | None = None
    env: list[ExecVariable | None] | None = None
    api_version: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None

    def __repr__(self) -> str:  # arguments can contain secrets
        return "Exec(...)"


class AuthProvider(msgspec.Struct, gc=False):
    """The predecessor of exec plugins. Its settings are not read."""

    name: str | None = None


class User(msgspec.Struct, rename="kebab", gc=False):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    impersonate: str | None = msgspec.field(name="as", default=None)
    impersonate_uid: str | None = msgspec.field(name="as-uid", default=None)
    impersonate_groups: list[str | None] | None = msgspec.field(name="as-groups", default=None)
    impersonate_extra: dict[str, list[str | None] | None] | None = msgspec.field(
        name="as-user-extra", default=None
    )
    username: str | None = None
    password: str | None = None
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None

    def __repr__(self) -> str:
        return "User(...)"


class Context(msgspec.Struct, gc=False):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct, gc=False):
    name: str | None = None
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct, gc=False):
    name: str | None = None
    user: User | None = None


class _NamedContext(msgspec.Struct, gc=False):
    name: str | None = None
    context: Context | None = None


class _Config(msgspec.Struct, rename="kebab", gc=False):
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    kind: str | None = None
    clusters: list[_NamedCluster | None] | None = None
    users: list[_NamedUser | None] | None = None
    contexts: list[_NamedContext | None] | None = None
    current_context: str | None = None


Entry = TypeVar("Entry", Cluster, User, Context)


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """A kubeconfig file: its entries by name, each with its index in the list."""

    clusters: dict[str, tuple[int, Cluster]]
    users: dict[str, tuple[int, User]]
    contexts: dict[str, tuple[int, Context]]
    current_context: str
    exec_extensions: dict[str, Plain]
    """The extensions for exec plugins, by the name of the cluster."""


NOTHING: Final = KubeConfig({}, {}, {}, "", {})


class KubeConfigError(ValueError):
    """A file that cannot be decoded. The message has place, field and reason, but no value."""

    def __init__(self, place: Place, field: str, problem: str) -> None:
        super().__init__(f"{place}: {field}: {problem}" if field else f"{place}: {problem}")
        self.place = place
        self.complaint = f"{field}: {problem}" if field else problem


def decode_kubeconfig(chunks: Iterable[bytes]) -> KubeConfig:
    """Decode the first document of a file, as upstream does. An empty file has no entries."""
    try:
        document = next(read_documents(chunks), None)
    except DocumentError as error:
        # The field is left out: its keys may come from a file that is no kubeconfig.
        raise KubeConfigError(error.place, "", without_quotes(error.problem)) from None
    if document is None:
        return NOTHING
    try:
        return _decode(document.value)
    except FieldError as error:
        # Keys that users choose are not shown either.
        field = error.field.partition("as-user-extra[")
        shown = f"{field[0]}as-user-extra" if field[1] else error.field
        raise KubeConfigError(_place(document, error), shown, error.problem) from None


def _place(document: Document, error: FieldError) -> Place:
    return document.place_of(steps_towards(document.value, error.field))


def _decode(value: Value) -> KubeConfig:
    if not isinstance(value, dict):
        raise FieldError("", f"a kubeconfig is expected, found {described(value)}")
    raw = shaped(value, _Config)
    if raw.kind not in {None, "", "Config"}:
        raise FieldError("kind", "Config is expected")
    if raw.api_version not in {None, "", "v1"}:
        raise FieldError("apiVersion", "v1 is expected")
    clusters = [each or _NamedCluster() for each in raw.clusters or ()]
    users = [each or _NamedUser() for each in raw.users or ()]
    contexts = [each or _NamedContext() for each in raw.contexts or ()]
    found = KubeConfig(
        clusters=_by_name("clusters", [(c.name, c.cluster or Cluster()) for c in clusters]),
        users=_by_name("users", [(u.name, u.user or User()) for u in users]),
        contexts=_by_name("contexts", [(c.name, c.context or Context()) for c in contexts]),
        current_context=raw.current_context or "",
        exec_extensions={},
    )
    for name, (index, _) in found.clusters.items():
        extension = _exec_extension(value, index)
        if extension is not None:
            found.exec_extensions[name] = extension
    return found


def _by_name(field: str, entries: list[tuple[str | None, Entry]]) -> dict[str, tuple[int, Entry]]:
    found: dict[str, tuple[int, Entry]] = {}
    for index, (name, entry) in enumerate(entries):
        if (name or "") in found:
            raise FieldError(f"{field}[{index}].name", f"{quoted(name or '')} is there twice")
        found[name or ""] = (index, entry)
    return found


def _exec_extension(value: dict[str, Value], index: int) -> Plain:
    """The extension for exec plugins, which can be any JSON value."""
    named = value["clusters"][index] if isinstance(value["clusters"], list) else None
    cluster = named.get("cluster") if isinstance(named, dict) else None
    extensions = cluster.get("extensions") if isinstance(cluster, dict) else None
    for each in extensions if isinstance(extensions, list) else ():
        if isinstance(each, dict) and each.get("name") == EXEC_EXTENSION:
            return _plain(each.get("extension"))
    return None


def _plain(value: Value) -> Plain:
    if isinstance(value, Number):
        return msgspec.Raw(value.text.encode()) if value.meaning is None else value.meaning
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def decode_data(text: str, field: str) -> bytes:
    """Decode a `-data` field: base64, in which upstream allows line breaks."""
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError:
        raise FieldError(field, "not valid base64") from None


def without_quotes(problem: str) -> str:
    """A problem text without its quotation, which may be part of a secret.

    A password that begins with an exclamation mark is a tag to YAML, for example.

    >>> without_quotes('unknown tag "!hunter2"')
    'unknown tag'
    """
    start, _, rest = problem.partition('"')
    _, _, end = rest.rpartition('"')
    return " ".join([*start.split(), *end.split()])
