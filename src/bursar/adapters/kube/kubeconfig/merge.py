"""Merging kubeconfig files by kubectl's rules: the first entry of a name wins as a whole."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.small_file import SmallFileError, read_small
from bursar.core.model.problem import some_of
from bursar.wire.cluster.kubeconfig import (
    Cluster,
    Context,
    KubeConfig,
    KubeConfigError,
    Plain,
    User,
    decode_kubeconfig,
)
from bursar.wire.structs.fields import quoted

LISTED_MAX: Final = 10
"""How many contexts an error lists."""

Entry = TypeVar("Entry", Cluster, User, Context)


@dataclass(frozen=True, slots=True)
class Located(Generic[Entry]):
    """An entry and its place. Relative paths in it start at the folder of its file."""

    entry: Entry
    file: str
    field: str
    """The place in the file, such as `users[2].user`."""

    def place(self, key: str) -> str:
        """File and key, for errors."""
        return f"{self.file}: {self.field}.{key}"

    def path(self, path: str | None) -> str:
        if not path or path.startswith(os.sep):
            return path or ""
        folder = os.path.abspath(os.path.dirname(self.file))  # noqa: PTH100, PTH120 - as Go cleans paths, without following links
        return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - as Go cleans paths


@dataclass(frozen=True, slots=True)
class Choice:
    """A context with its cluster and its user. Without a user, requests are anonymous."""

    name: str
    context: Located[Context]
    cluster: Located[Cluster]
    user: Located[User] | None
    exec_extension: Plain


class MissingKubeconfigError(ConfigError):
    """None of the kubeconfig files exists."""


def choose(paths: Sequence[str], context: str) -> Choice:
    """Read the files and follow a context; empty means the current one. Raises `ConfigError`."""
    files = list(_read(paths))
    names = ", ".join(name for name, _ in files)
    wanted = context or next(
        (file.current_context for _, file in files if file.current_context), ""
    )
    if not wanted:
        raise ConfigError(names, f"current-context: required, but missing{_listed(files)}")
    found = _find(files, "context", wanted, lambda file: file.contexts)
    if found is None:
        raise ConfigError("", f"context {quoted(wanted)} does not exist in {names}{_listed(files)}")
    if not found.entry.cluster:
        raise ConfigError(found.place("cluster"), "required, but missing")
    cluster = _find(files, "cluster", found.entry.cluster, lambda file: file.clusters)
    if cluster is None:
        raise _missing_entry(found, "cluster", found.entry.cluster, names)
    user = None
    if found.entry.user:
        user = _find(files, "user", found.entry.user, lambda file: file.users)
        if user is None:
            raise _missing_entry(found, "user", found.entry.user, names)
    origin = next(file for name, file in files if name == cluster.file)
    extension = origin.exec_extensions.get(found.entry.cluster)
    return Choice(wanted, found, cluster, user, extension)


def context_names(paths: Sequence[str]) -> set[str]:
    """The contexts of all files. Raises `ConfigError`."""
    return _contexts(_read(paths))


def _contexts(files: Iterable[tuple[str, KubeConfig]]) -> set[str]:
    return {name for _, file in files for name in file.contexts if name}


def _listed(files: Sequence[tuple[str, KubeConfig]]) -> str:
    """What `--context` can name, for errors."""
    names = [quoted(name) for name in sorted(_contexts(files))]
    return f"; name one with --context: {some_of(names, LISTED_MAX)}" if names else ""


def _missing_entry(context: Located[Context], kind: str, name: str, files: str) -> ConfigError:
    return ConfigError(context.place(kind), f"{kind} {quoted(name)} does not exist in {files}")


_PLURALS: Final = {"context": "contexts", "cluster": "clusters", "user": "users"}


def _find(
    files: Sequence[tuple[str, KubeConfig]],
    kind: str,
    name: str,
    entries: Callable[[KubeConfig], Mapping[str, tuple[int, Entry]]],
) -> Located[Entry] | None:
    for path, file in files:
        if name in entries(file):
            index, entry = entries(file)[name]
            return Located(entry, path, f"{_PLURALS[kind]}[{index}].{kind}")
    return None


def _read(paths: Sequence[str]) -> Iterator[tuple[str, KubeConfig]]:
    """The files that exist. Any of several may be missing, but not all."""
    given = list(dict.fromkeys(path for path in paths if path))
    if not given:
        raise ConfigError("kubeconfig", "no file is named")
    is_any_there = False
    for path in given:
        try:
            data = read_small(path)
        except FileNotFoundError:
            continue
        except SmallFileError as error:
            raise ConfigError(path, str(error)) from None
        is_any_there = True
        yield path, _decode(path, data)
    if not is_any_there:
        raise MissingKubeconfigError(", ".join(given), "no such file")


def _decode(path: str, data: bytes) -> KubeConfig:
    try:
        return decode_kubeconfig([data])
    except KubeConfigError as error:
        raise ConfigError(f"{path}:{error.place}", error.complaint) from None
