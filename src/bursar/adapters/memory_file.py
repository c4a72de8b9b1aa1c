"""Bytes in memory under a path, for libraries that read secrets only from files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_memory(data: bytes) -> Iterator[str]:
    """A path to these bytes. They are never written to a disk."""
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
