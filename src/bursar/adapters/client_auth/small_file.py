"""Bounded reads of files that should be small: tokens, certificates, kubeconfigs."""

import os
from pathlib import Path
from typing import Final, TypeAlias

FILE_BYTES_MAX: Final = 16 * 2**20
"""Largest file accepted. A kubeconfig of a thousand clusters with their certificates has 5 MiB."""

Fingerprint: TypeAlias = tuple[int, int, int]


class SmallFileError(Exception):
    """The reason why a file cannot be read. It does not name the file; the caller adds that."""


def read_small(path: str) -> bytes:
    """Return the content. Raises `FileNotFoundError`; every other failure is a `SmallFileError`."""
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


def fingerprint(path: str) -> Fingerprint | None:
    """Modification time, size and inode, which differ after a change; None without a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path would cost more than the call
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
