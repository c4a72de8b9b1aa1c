"""The folder in which sidecars make their sockets.

A program that can make a socket there has power over every bill. The folder must belong to root or
to the user of this process. Kubernetes makes an emptyDir that every user may write to, and the
containers of one pod may run as different users. So by default all sockets in it are
used: only containers that mount the folder can reach it. `SidecarTrust.OWNER` is for other folders.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bursar.adapters.sidecars.connection import CallLimits, SidecarConnection
from bursar.app.counting.sidecars.settings import SidecarTrust
from bursar.app.log import Log

LOG: Final = Log("sidecars")
SOCKETS_MAX: Final = 64
"""Sockets of one folder that are tried. Sidecars that were killed leave theirs behind."""


class SocketFolder:
    """A `SidecarSockets`."""

    def __init__(
        self,
        folder: str,
        *,
        trust: SidecarTrust = SidecarTrust.FOLDER,
        limits: CallLimits | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._trust = trust
        self._has_warned = False
        self._limits = limits or CallLimits()

    def find(self) -> Mapping[str, tuple[int, int]]:
        try:
            problem = self._folder_problem()
            if problem:
                LOG.warning("the folder of sidecars is not used", folder=self._folder, why=problem)
                return {}
            with os.scandir(self._folder) as entries:
                found = {each.name: stats for each in entries if (stats := self._usable(each))}
        except OSError as error:
            LOG.warning("the folder of sidecars cannot be read", error=error)
            return {}
        # The newest first: those of ended sidecars are older.
        newest = sorted(found.items(), key=lambda item: item[1].st_mtime_ns, reverse=True)
        return {name: (stats.st_ino, stats.st_mtime_ns) for name, stats in newest[:SOCKETS_MAX]}

    def connect(self, name: str) -> SidecarConnection:
        return SidecarConnection(self._folder / name, self._limits)

    def _usable(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """The status of a socket file; None if the entry must not be used."""
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISSOCK(found.st_mode):
            return None
        is_trusted = self._trust is SidecarTrust.FOLDER or _is_ours(found)
        if not is_trusted:
            LOG.warning("a socket of another user is not used", socket=entry.name)
        return found if is_trusted else None

    def _folder_problem(self) -> str:
        """Why no socket of the folder can be trusted; empty if they can."""
        found = self._folder.stat()
        if not _is_ours(found):
            return f"it belongs to user {found.st_uid}"
        if not found.st_mode & stat.S_IWOTH or found.st_mode & stat.S_ISVTX:
            return ""
        if self._trust is SidecarTrust.OWNER:
            return "every user may write to it"
        if not self._has_warned:
            self._has_warned = True
            LOG.warning(
                "every user that reaches the folder of sidecars can count pods; mount it in this "
                "pod alone, or use --sidecar-trust owner",
                folder=self._folder,
            )
        return ""


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())
