"""The whole cluster in a file and back: JSON lines, one object each after a first line.

The first line says what the file is, which version of the format, and the digest of
all that follows, so that a file which lost its end is not taken for a smaller cluster.
Who edits a file by hand takes the digest out. History is not kept: after loading,
whoever watched before must list afresh. The file can hold secrets, so only its owner
may read it.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bursar.adapters.memory.kinds import CRDS
from bursar.adapters.memory.store import MemoryCluster

FORMAT: Final = "bursar-cluster"
VERSION: Final = 1
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class SavedStateError(Exception):
    """A file that is not a saved cluster, or cannot be read or written. Its text is one line."""


class _Header(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    revision: int
    digest: str = ""
    """SHA-256 of the other lines. Without it they are taken as they are."""


class _Saved(msgspec.Struct):
    resource: str
    """Where the object lives, as `deployments.apps`."""
    object: dict[str, Any]


class _Owner(msgspec.Struct):
    uid: str


class _Metadata(msgspec.Struct, rename="camel"):
    """What every stored object has, and what the cluster looks it up by."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


def save(cluster: MemoryCluster, path: Path) -> None:
    """Write the cluster's state. Raises `SavedStateError`; what was there before is there still."""
    lines = b"".join(_lines(cluster))
    digest = hashlib.sha256(lines).hexdigest()
    header = _Header(FORMAT, VERSION, cluster.objects.revision, digest)
    try:
        # What a link leads to is replaced, and not the link.
        _replace(path.resolve(), msgspec.json.encode(header) + b"\n" + lines)
    except OSError as error:
        raise _failed(path, error) from None


def _lines(cluster: MemoryCluster) -> Iterator[bytes]:
    objects = cluster.objects
    encode = msgspec.json.Encoder().encode
    # Definitions first, for without them the objects they define have no kind.
    for kind in sorted(objects.kinds, key=lambda each: (each.resource != CRDS, each.place)):
        collection = objects.collection(kind)
        for key in collection.keys:
            yield encode(_Saved(kind.place, collection.objects[key].body)) + b"\n"


def _replace(path: Path, content: bytes) -> None:
    """The file is the old one or the new one at every moment, and only its owner may read it."""
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
    """Replace the cluster's state by a saved one. Raises `SavedStateError`; nothing changed then.

    Everything that watches is ended, and moments of before are expired.
    """
    first, _, rest = _read(path).partition(b"\n")
    header = _header(path, first)
    saved = [_saved(path, number, line) for number, line in enumerate(rest.splitlines(), start=2)]
    if header.digest not in {"", hashlib.sha256(rest).hexdigest()}:
        raise SavedStateError(f"{path}: damaged: it is not what was once saved")
    try:
        cluster.restart_from(header.revision, [(each.resource, each.object) for each in saved])
    except KeyError as error:
        raise SavedStateError(f"{path}: nothing is known of {error}") from None


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
        fields = msgspec.convert(saved.object, _Object).metadata
        if not (fields.name and fields.uid and int(fields.resource_version)):
            raise ValueError  # refused like everything else that is not an object
    except _UNREADABLE:
        raise SavedStateError(f"{path}:{number}: not a saved object") from None
    return saved
