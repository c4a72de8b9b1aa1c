"""Files that are small by nature, such as tokens and certificates, read within bounds."""

import os
from pathlib import Path
from typing import Final, TypeAlias

FILE_BYTES_MAX: Final = 16 * 2**20
"""Largest file accepted. A kubeconfig of a thousand clusters with their certificates has 5 MiB."""

Stamp: TypeAlias = tuple[int, int, int]


class SmallFileError(Exception):
    """A file that cannot be read, and why; the caller knows which."""


def read_small(path: str) -> bytes:
    """The whole file. Raises `FileNotFoundError`, and `SmallFileError` for all else."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SmallFileError((reason or str(error)).lower()) from None
    if len(data) > FILE_BYTES_MAX:
        raise SmallFileError(f"larger than {FILE_BYTES_MAX} bytes")
    return data


def stamp(path: str) -> Stamp | None:
    """What changes when the file does; None while there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path would cost more than the call
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
