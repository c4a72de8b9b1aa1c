"""What a filesystem lacks to count by project, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

EXT4: Final = "ext4"
XFS: Final = "xfs"
OPTIONS: Final = frozenset({"prjquota", "pquota"})
"""Mount options that turn the accounting on. `pqnoenforce` does it without limits, on XFS."""
XFS_OPTIONS: Final = OPTIONS | {"pqnoenforce"}


class Lack(Enum):
    FILESYSTEM = "filesystem"
    FEATURE = "feature"
    MOUNT_OPTION = "mountOption"
    KERNEL = "kernel"
    RIGHTS = "rights"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFacts:
    """What is known of the filesystem of one folder."""

    path: str
    mount: str = ""
    kind: str = ""
    """Type of the filesystem, such as `ext4`."""
    source: str = ""
    """The block device."""
    options: frozenset[str] = frozenset()
    has_feature: bool | None = None
    """Whether ext4 was made with projects and their quotas; None if it cannot be read."""
    has_accounting: bool = False
    may_read: bool | None = None
    """Whether this process may read figures; None if there are none to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPart:
    what: Lack
    text: str
    commands: tuple[str, ...] = ()
    """What an administrator runs."""


def missing_parts(facts: QuotaFacts) -> tuple[MissingPart, ...]:
    """What is missing, in the order in which to do it; empty if project quotas work."""
    if facts.kind not in {EXT4, XFS}:
        kind = facts.kind or "this filesystem"
        text = f"{kind} has no project quotas; put the folder on ext4 or XFS"
        return (MissingPart(what=Lack.FILESYSTEM, text=text),)
    if facts.has_accounting:
        return _rights(facts)
    return tuple(_ext4(facts) if facts.kind == EXT4 else _xfs(facts))


def _rights(facts: QuotaFacts) -> tuple[MissingPart, ...]:
    if facts.may_read is not False:
        return ()
    text = "project quotas work, but this process may not read them; it needs CAP_SYS_ADMIN"
    return (MissingPart(what=Lack.RIGHTS, text=text),)


def _ext4(facts: QuotaFacts) -> Iterator[MissingPart]:
    device = facts.source or "DEVICE"
    if facts.has_feature is not True:
        maybe = "" if facts.has_feature is False else ", as far as can be seen"
        yield MissingPart(
            what=Lack.FEATURE,
            text=f"the filesystem was not made with project quotas{maybe}; "
            "unmount it and add them, or make it anew",
            commands=(
                f"umount {facts.mount}",
                f"tune2fs -O project -Q prjquota {device}",
                f"mkfs.ext4 -O project,quota -E quotatype=prjquota {device}   # a new one",
            ),
        )
    if not facts.options & OPTIONS:
        yield MissingPart(
            what=Lack.MOUNT_OPTION,
            text="the filesystem is not mounted with prjquota",
            commands=(f"{device} {facts.mount} ext4 defaults,prjquota 0 0   # in /etc/fstab",),
        )
    elif facts.has_feature is not False:
        yield MissingPart(
            what=Lack.KERNEL,
            text="the filesystem has project quotas, and the kernel does not count by them",
            commands=("modprobe quota_v2",),
        )


def _xfs(facts: QuotaFacts) -> Iterator[MissingPart]:
    if facts.options & XFS_OPTIONS:
        text = "mounted with prjquota, and the kernel does not count: it lacks CONFIG_XFS_QUOTA"
        yield MissingPart(what=Lack.KERNEL, text=text)
        return
    device = facts.source or "DEVICE"
    commands = (f"{device} {facts.mount} xfs defaults,prjquota 0 0   # in /etc/fstab",)
    if facts.mount == "/":
        commands = ("rootflags=prjquota   # on the kernel's command line",)
    yield MissingPart(
        what=Lack.MOUNT_OPTION,
        text="the filesystem is not mounted with prjquota; a remount does not turn it on",
        commands=commands,
    )
