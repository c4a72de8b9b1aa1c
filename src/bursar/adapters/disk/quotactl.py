"""The system calls of project quotas: quotactl(2), and the ioctls of project ids.

`quotactl_fd` (Linux 5.14) takes a descriptor of any file of the filesystem, so that no device node
is needed. Older kernels take the path of the block device.
"""

import ctypes
import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

_QUOTACTL_FD: Final = 443
_PROJECT: Final = 2
_GETQUOTA: Final = 0x800007
_XGETQUOTA: Final = ord("X") << 8 | 3
_XGETQSTATV: Final = ord("X") << 8 | 8
_PROJECT_ACCOUNTING: Final = 1 << 4
_GETXATTR: Final = 0x801C581F
_SETXATTR: Final = 0x401C5820
_INHERIT: Final = 0x200
"""FS_XFLAG_PROJINHERIT: new files get the project id of their folder."""
_FSXATTR: Final = struct.Struct("=5I8x")
_DQBLK: Final = struct.Struct("=8QI4x")
_XQUOTA: Final = struct.Struct("=bbHI6Q")
"""The start of `struct fs_disk_quota`, up to `d_icount`."""
_STATV: Final = struct.Struct("=bBH")
_BUFFER_BYTES: Final = 256
"""Longer than each of the structures that the kernel writes."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Kind(Enum):
    """Filesystems with project quotas, by their names in `/proc/self/mountinfo`."""

    EXT4 = "ext4"
    XFS = "xfs"


@dataclass(frozen=True, slots=True)
class Usage:
    bytes: int
    inodes: int


def has_accounting(descriptor: int, device: str) -> bool:
    """Whether the filesystem counts by project. It takes no rights. Raises `OSError`."""
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    buffer[0] = b"\1"
    _quotactl(_XGETQSTATV, descriptor, device, 0, buffer)
    flags: int = _STATV.unpack_from(buffer.raw)[2]
    return bool(flags & _PROJECT_ACCOUNTING)


def usage_of(descriptor: int, device: str, project: int, kind: Kind) -> Usage:
    """What a project uses. It takes CAP_SYS_ADMIN. Raises `OSError`."""
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    command = _XGETQUOTA if kind is Kind.XFS else _GETQUOTA
    try:
        _quotactl(command, descriptor, device, project, buffer)
    except OSError as error:
        # A project without files.
        if error.errno in {errno.ENOENT, errno.ESRCH} and kind is Kind.XFS:
            return Usage(0, 0)
        raise
    if kind is Kind.XFS:
        *_, blocks, inodes = _XQUOTA.unpack_from(buffer.raw)
        return Usage(blocks * 512, inodes)
    fields = _DQBLK.unpack_from(buffer.raw)
    return Usage(fields[2], fields[5])


def _quotactl(
    command: int, descriptor: int, device: str, project: int, buffer: "ctypes.Array[ctypes.c_char]"
) -> None:
    code = command << 8 | _PROJECT
    if _LIBC.syscall(_QUOTACTL_FD, descriptor, code, project, buffer) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.ENOSYS and device:
        # Also the answer of a kernel that has the call, for a filesystem without quotas.
        if _LIBC.quotactl(code, os.fsencode(device), project, buffer) == 0:
            return
        number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


# ------------------------------------------------------------------ project ids


def project_of(descriptor: int) -> int:
    """The project id of a file or folder; 0 if it has none. Raises `OSError`."""
    found = fcntl.ioctl(descriptor, _GETXATTR, bytes(_FSXATTR.size))
    project: int = _FSXATTR.unpack(found)[3]
    return project


def set_project(descriptor: int, project: int, *, is_folder: bool) -> None:
    """Give a file or folder a project id. New files of a folder get it too. Raises `OSError`."""
    found = fcntl.ioctl(descriptor, _GETXATTR, bytes(_FSXATTR.size))
    flags, size, extents, _, copied = _FSXATTR.unpack(found)
    if is_folder:
        flags |= _INHERIT
    fcntl.ioctl(descriptor, _SETXATTR, _FSXATTR.pack(flags, size, extents, project, copied))
