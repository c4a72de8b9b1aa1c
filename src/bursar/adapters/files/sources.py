"""Bytes of manifests: from files, from the manifests in a folder, and from standard input.

As with `kubectl -f`, subfolders are read only on demand. Pipes and devices in a folder are
skipped, because reading them may never end. A pipe that is named directly is read.

Importing pathlib takes a quarter of the time in which Python starts, so only subfolders need it.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from typing import BinaryIO, Final

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
EXTENSIONS: Final = (".json", ".yaml", ".yml")
CHUNK_BYTES: Final = 2**16
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class SourceError(Exception):
    """A source that cannot be read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name or '""'
        self.problem = problem


def is_folder(path: str) -> bool:
    """Whether the path is a folder. Raises `SourceError` if it does not exist."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - a Path would make "" of "."
    except (OSError, ValueError) as error:
        raise _refusal(path, error) from None


def manifests_in(folder: str, *, is_recursive: bool = False) -> list[str]:
    """The paths of the manifests in a folder, and on demand in its subfolders, sorted.

    Links to folders are not followed, since they may lead in a circle.
    """
    try:
        paths = _below(folder) if is_recursive else _in(folder)
        return [path for path in paths if _extension(path) in EXTENSIONS and _is_file(path)]
    except OSError as error:
        raise _refusal(folder, error) from None


def has_subfolders(folder: str) -> bool:
    """Whether there is a folder in the folder."""
    with os.scandir(folder) as entries:
        return any(entry.is_dir(follow_symlinks=False) for entry in entries)


def _below(folder: str) -> list[str]:
    from pathlib import Path  # noqa: PLC0415 - see above

    return [str(path) for path in sorted(Path(folder).rglob("*"))]


def _in(folder: str) -> list[str]:
    root = "/" if folder.startswith("/") else ""
    parts = [part for part in folder.split("/") if part not in {"", "."}]
    names = sorted(os.listdir(folder))  # noqa: PTH208 - see above
    return [root + "/".join([*parts, name]) for name in names]


def _extension(path: str) -> str:
    return os.path.splitext(path)[1]  # noqa: PTH122 - see above


def _is_file(path: str) -> bool:
    """Whether the path is a regular file; false for a link to a missing file."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - see above
    except OSError as error:
        if error.errno in _NOT_THERE:
            return False
        raise


def chunks_of_file(path: str, *, bytes_max: int) -> Generator[bytes]:
    """Read a file in chunks. Raises `SourceError` if it is larger than `bytes_max`.

    The size of a pipe or a device is not known in advance, so the bytes are counted as well.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - see above
            _require_size(path, os.fstat(file.fileno()).st_size, bytes_max)
            size = 0
            for chunk in chunks_of_stream(file, path):
                size += len(chunk)
                _require_size(path, size, bytes_max)
                yield chunk
    except OSError as error:
        raise _refusal(path, error) from None


def _require_size(path: str, size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise SourceError(path, f"larger than {bytes_max} bytes")


def chunks_of_stream(stream: BinaryIO, name: str = STDIN_NAME) -> Iterator[bytes]:
    try:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
    except OSError as error:
        raise _refusal(name, error) from None


def _refusal(name: str, error: OSError | ValueError) -> SourceError:
    """The operating system's message without errno and path."""
    reason = error.strerror if isinstance(error, OSError) else None
    return SourceError(name, (reason or str(error)).lower())
