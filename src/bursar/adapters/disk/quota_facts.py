"""What is known of a folder's filesystem, for the check of project quotas."""

import errno
import os
import struct
from pathlib import Path
from typing import Final

from bursar.adapters.disk.beneath import FOLDER
from bursar.adapters.disk.mounts import mount_of, read_mounts
from bursar.adapters.disk.quotactl import Kind, has_accounting, usage_of
from bursar.core.storage.quota_check import QuotaFacts

SUPERBLOCK: Final = 1024
"""Where the superblock of ext4 begins."""
_MAGIC: Final = 0xEF53
_QUOTA: Final = 0x0100
_PROJECT: Final = 0x2000
_PROBED_ID: Final = 1_048_577


def read_facts(path: str) -> QuotaFacts:
    """Facts of one folder. Raises `OSError` if it cannot be opened."""
    opened = os.open(path, FOLDER)
    try:
        mount = mount_of(path, read_mounts())
        if mount is None:
            return QuotaFacts(path=path)
        counts = _counts(opened, mount.source)
        return QuotaFacts(
            path=path,
            mount=mount.folder,
            kind=mount.kind,
            source=mount.source,
            options=mount.options,
            has_feature=_has_feature(mount.source) if mount.kind == Kind.EXT4.value else None,
            has_accounting=counts,
            may_read=_may_read(opened, mount.source, mount.kind) if counts else None,
        )
    finally:
        os.close(opened)


def _counts(opened: int, device: str) -> bool:
    try:
        return has_accounting(opened, device)
    except OSError:
        return False


def _may_read(opened: int, device: str, kind: str) -> bool:
    try:
        usage_of(opened, device, _PROBED_ID, Kind(kind))
    except ValueError:
        return False
    except OSError as error:
        return error.errno not in {errno.EPERM, errno.EACCES}
    return True


def _has_feature(device: str) -> bool | None:
    """Whether the superblock of ext4 has projects and quotas; None if it cannot be read."""
    try:
        with Path(device).open("rb") as file:
            file.seek(SUPERBLOCK)
            block = file.read(1024)
    except OSError:
        return None
    if len(block) < 1024 or struct.unpack_from("<H", block, 0x38)[0] != _MAGIC:
        return None
    features: int = struct.unpack_from("<I", block, 0x64)[0]
    quota_inode: int = struct.unpack_from("<I", block, 0x26C)[0]
    return bool(features & _QUOTA and features & _PROJECT and quota_inode)
