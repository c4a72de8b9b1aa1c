"""Saving the embedded cluster to a file and loading it: JSON lines, a header and then objects.

The header has the format, its version and a digest of all other lines, so a truncated file is
recognised. To edit a file by hand, remove the digest. Watch history is not saved: after loading,
clients list again. The file can hold secrets, so only its owner can read it.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.bad_input import BadInputError
from bursar.app.cluster.kinds import CRDS

FORMAT: Final = "bursar-cluster"
VERSION: Final = 1
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class SavedStateError(BadInputError):
    """The file is not a saved cluster, or cannot be read or written. The message is one line."""


class _Header(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    revision: int
    digest: str = ""
    """SHA-256 of all other lines. If it is absent, they are not checked."""


class _Saved(msgspec.Struct):
    resource: str
    """The resource of the object, such as `deployments.apps`."""
    object: dict[str, Any]


class _StoredOwner(msgspec.Struct):
    uid: str


class _StoredMeta(msgspec.Struct, rename="camel"):
    """The metadata that every stored object must have."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    owner_references: list[_StoredOwner] | None = None


class _StoredObject(msgspec.Struct):
    metadata: _StoredMeta


def save(cluster: MemoryCluster, path: Path) -> None:
    """Write the cluster to a file. On `SavedStateError` the previous file is unchanged."""
    lines = b"".join(_lines(cluster))
    digest = hashlib.sha256(lines).hexdigest()
    header = _Header(FORMAT, VERSION, cluster.objects.revision, digest)
    try:
        # A symbolic link stays; its target is replaced.
        _replace(path.resolve(), msgspec.json.encode(header) + b"\n" + lines)
    except OSError as error:
        raise _failed(path, error) from None


def _lines(cluster: MemoryCluster) -> Iterator[bytes]:
    objects = cluster.objects
    encode = msgspec.json.Encoder().encode
    # CRDs first: without them their objects have no kind.
    for kind in sorted(objects.kinds, key=lambda each: (each.resource != CRDS, each.place)):
        collection = objects.collection(kind)
        for key in collection.keys:
            yield encode(_Saved(kind.place, collection.objects[key].body)) + b"\n"


def _replace(path: Path, content: bytes) -> None:
    """Replace the file atomically. Only its owner can read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".draft")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def load(cluster: MemoryCluster, path: Path) -> None:
    """Replace all objects of the cluster. On `SavedStateError` the cluster is unchanged.

    All watches end, and earlier resourceVersions are expired.
    """
    first, _, rest = _read(path).partition(b"\n")
    header = _header(path, first)
    saved = [_saved(path, number, line) for number, line in enumerate(rest.splitlines(), start=2)]
    if header.digest not in {"", hashlib.sha256(rest).hexdigest()}:
        raise SavedStateError(f"{path}: damaged: the content differs from what was saved")
    try:
        cluster.restart_from(header.revision, [(each.resource, each.object) for each in saved])
    except KeyError as error:
        raise SavedStateError(f"{path}: unknown resource {error}") from None


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise SavedStateError(f"{path}: not a file")
        return path.read_bytes()
    except OSError as error:
        raise _failed(path, error) from None


def _failed(path: Path, error: OSError) -> SavedStateError:
    return SavedStateError(f"{path}: {(error.strerror or 'failed').lower()}")


def _header(path: Path, line: bytes) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except _UNREADABLE:
        raise SavedStateError(f"{path}: not a saved cluster") from None
    if header.format != FORMAT:
        raise SavedStateError(f"{path}: not a saved cluster")
    if header.version != VERSION:
        detail = f"saved in format {header.version}, and only format {VERSION} is known"
        raise SavedStateError(f"{path}: {detail}")
    return header


def _saved(path: Path, number: int, line: bytes) -> _Saved:
    try:
        saved = msgspec.json.decode(line, type=_Saved)
        fields = msgspec.convert(saved.object, _StoredObject).metadata
        if not (fields.name and fields.uid and int(fields.resource_version)):
            raise ValueError  # handled like an undecodable line
    except _UNREADABLE:
        raise SavedStateError(f"{path}:{number}: not a saved object") from None
    return saved
