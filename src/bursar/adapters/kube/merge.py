"""Several kubeconfig files as one, by upstream's rules: of each name the first counts, whole."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from bursar.adapters.kube.config_error import ConfigError
from bursar.adapters.kube.small_file import SmallFileError, read_small
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

Entry = TypeVar("Entry", Cluster, User, Context)


@dataclass(frozen=True, slots=True)
class Located(Generic[Entry]):
    """An entry, and where it stands: paths in it start from the folder of its file."""

    entry: Entry
    file: str
    field: str
    """Such as `users[2].user`."""

    def place(self, key: str) -> str:
        """A key of this entry, as errors name it."""
        return f"{self.file}: {self.field}.{key}"

    def path(self, path: str | None) -> str:
        if not path or path.startswith(os.sep):
            return path or ""
        folder = os.path.abspath(os.path.dirname(self.file))  # noqa: PTH100, PTH120 - as Go cleans paths, without following links
        return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - likewise


@dataclass(frozen=True, slots=True)
class Choice:
    """What one context leads to. A context without a user is anonymous."""

    name: str
    context: Located[Context]
    cluster: Located[Cluster]
    user: Located[User] | None
    exec_extension: Plain


def choose(paths: Sequence[str], context: str) -> Choice:
    """Read the files and follow a context, the current one unless named. Raises `ConfigError`."""
    files = list(_read(paths))
    names = ", ".join(name for name, _ in files)
    wanted = context or next(
        (file.current_context for _, file in files if file.current_context), ""
    )
    if not wanted:
        raise ConfigError(names, "current-context: required, but missing")
    found = _find(files, "context", wanted, lambda file: file.contexts)
    if found is None:
        raise ConfigError("", f"context {quoted(wanted)} does not exist in {names}")
    cluster = _find(files, "cluster", _named(found, "cluster"), lambda file: file.clusters)
    if cluster is None:
        raise _dangling(found, "cluster", found.entry.cluster or "", names)
    user = None
    if found.entry.user:
        user = _find(files, "user", found.entry.user, lambda file: file.users)
        if user is None:
            raise _dangling(found, "user", found.entry.user, names)
    origin = next(file for name, file in files if name == cluster.file)
    extension = origin.exec_extensions.get(found.entry.cluster or "")
    return Choice(wanted, found, cluster, user, extension)


def _named(context: Located[Context], key: str) -> str:
    if not context.entry.cluster:
        raise ConfigError(context.place(key), "required, but missing")
    return context.entry.cluster


def _dangling(context: Located[Context], kind: str, name: str, files: str) -> ConfigError:
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
    """The files there are; of several, any may be missing, but not all."""
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
        raise ConfigError(", ".join(given), "no such file")


def _decode(path: str, data: bytes) -> KubeConfig:
    try:
        return decode_kubeconfig([data])
    except KubeConfigError as error:
        raise ConfigError(f"{path}:{error.place}", error.complaint) from None
