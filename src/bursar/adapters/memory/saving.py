"""The whole cluster in a file and back: JSON lines, one object each after a first line.

The first line says what the file is and which version of the format. History is
not kept: after loading, whoever watched before must list afresh. The file can hold
secrets, so only its owner may read it.
"""

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from bursar.adapters.memory.kinds import CRDS
from bursar.adapters.memory.store import MemoryCluster

FORMAT: Final = "bursar-cluster"
VERSION: Final = 1
_OWNER_ONLY: Final = 0o600


class SavedStateError(Exception):
    """A file that is not a saved cluster, or one of a version we do not know."""


class _Header(msgspec.Struct):
    format: str
    version: int
    revision: int


class _Saved(msgspec.Struct):
    resource: str
    """Where the object lives, as `deployments.apps`."""
    object: dict[str, Any]


def save(cluster: MemoryCluster, path: Path) -> None:
    """Write the cluster's state. The file is complete or not there at all."""
    objects = cluster.objects
    encode = msgspec.json.Encoder().encode
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    with os.fdopen(handle, "wb") as file:
        file.write(encode(_Header(FORMAT, VERSION, objects.revision)) + b"\n")
        # Definitions first, for without them the objects they define have no kind.
        for kind in sorted(objects.kinds, key=lambda each: (each.resource != CRDS, each.place)):
            collection = objects.collection(kind)
            for key in collection.keys:
                saved = _Saved(kind.place, collection.objects[key].body)
                file.write(encode(saved) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load(cluster: MemoryCluster, path: Path) -> None:
    """Replace the cluster's state by a saved one. Raises `SavedStateError`; nothing changed then.

    Everything that watches is ended, and moments of before are expired.
    """
    with path.open("rb") as file:
        header = _header(path, file.readline())
        saved = [_saved(path, number, line) for number, line in enumerate(file, start=2)]
    try:
        cluster.restart_from(header.revision, [(each.resource, each.object) for each in saved])
    except KeyError as error:
        raise SavedStateError(f"{path}: nothing is known of {error}") from None


def _header(path: Path, line: bytes) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except msgspec.MsgspecError:
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
        fields = saved.object["metadata"]
        if not (fields["name"] and fields["uid"] and int(fields["resourceVersion"])):
            raise ValueError  # noqa: TRY301 - refused like everything else that is not an object
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        raise SavedStateError(f"{path}:{number}: not a saved object") from None
    return saved
