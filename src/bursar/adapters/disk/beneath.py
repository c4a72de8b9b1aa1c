"""Open folders that tenants can change, without leaving them.

A tenant can replace a folder of its volume by a symlink at any moment, also between two system
calls of a scan. So no step of a path may be a symlink or a mount point. Linux 5.6 has `openat2` for
that; without it each step is opened by itself.
"""

import ctypes
import errno
import os
from typing import Final

_OPENAT2: Final = 437
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE: Final = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
MISSING: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ESTALE, errno.EAGAIN}
)
"""Errors of a folder that is gone, or was replaced by something that is not followed."""


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_HOW: Final = _How(FOLDER, 0, _RESOLVE)


class _Kernel:
    """Whether the kernel, and the container's seccomp profile, have `openat2`."""

    has_openat2 = True


def open_beneath(root: int, path: str) -> int:
    """Open the folder `path` below the folder `root`. Raises `OSError`.

    An empty path opens `root` again. The caller closes the descriptor.
    """
    if path and _Kernel.has_openat2:
        opened: int = _LIBC.syscall(
            _OPENAT2, root, os.fsencode(path), ctypes.byref(_HOW), ctypes.sizeof(_HOW)
        )
        if opened >= 0:
            return opened
        code = ctypes.get_errno()
        if code not in {errno.ENOSYS, errno.EPERM}:
            raise OSError(code, os.strerror(code))
        _Kernel.has_openat2 = False
    return open_by_steps(root, path)


def open_by_steps(root: int, path: str) -> int:
    """`open_beneath` for kernels without `openat2`. A bind mount of the same filesystem is entered.

    Raises `OSError`.
    """
    device = os.fstat(root).st_dev
    opened = os.dup(root)
    for step in path.split("/") if path else ["."]:
        try:
            below = os.open(step, FOLDER, dir_fd=opened)
        finally:
            os.close(opened)
        opened = below
    if os.fstat(opened).st_dev != device:
        os.close(opened)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return opened
