"""emptyDir volumes measured by project quotas: the filesystem counts, and nothing is scanned.

The count includes files that were deleted while a process has them open. But a tenant can give its
files another project id, unless its pod has a user namespace of its own. So, as in the kubelet,
volumes of other pods are scanned.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bursar.adapters.disk.beneath import FOLDER, open_beneath
from bursar.adapters.disk.mounts import Mount, mount_of, read_mounts
from bursar.adapters.disk.project_files import (
    FIRST_ID,
    LAST_ID,
    ProjectFiles,
    ProjectFilesError,
    Projects,
)
from bursar.adapters.disk.quotactl import (
    Kind,
    Usage,
    has_accounting,
    project_of,
    set_project,
    usage_of,
)
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.usage import Measure, Way

ENTRIES_MAX: Final = 100_000
"""Most files of a volume that gets a project id. A volume with more files is scanned."""
PROBES_MAX: Final = 128
"""Most ids that are tried for a volume. An id can be in use without being in the files."""
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
MOUNTS_MAX: Final = 1_000


class QuotaCounter:
    """A `Counter` of `NodeDisk`. With `files`, volumes without a project id get one."""

    def __init__(
        self,
        files: ProjectFiles | None = None,
        *,
        needs_user_namespace: bool = True,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`report` gets the reason if a volume that could be counted has to be scanned."""
        self._files = files
        self._needs_user_namespace = needs_user_namespace
        self._report = report
        self._mounts: dict[int, Mount | None] = {}
        """By device: a mount with project quotas, or None without them."""
        self._given_up: set[tuple[int, int]] = set()
        """Volumes, by device and inode, that could not be given an id."""

    def measure(self, path: str, pod: StoragePod) -> Measure | None:
        """The size of a volume; None if it has to be scanned."""
        if self._needs_user_namespace and not pod.has_user_namespace:
            return None
        try:
            with _opened(path) as volume:
                mount = self._mount(volume, path)
                if mount is None:
                    return None
                project = self._project(volume, path, mount)
                if not project:
                    return None
                used = usage_of(volume, mount.source, project, Kind(mount.kind))
        except OSError as error:
            self._report(f"{path}: project quota: {error.strerror}")
            return None
        return Measure(used=used.bytes, inodes=used.inodes, way=Way.QUOTA)

    def forget_gone(self) -> int:
        """Remove ids from the files whose volumes are gone; return how many."""
        if self._files is None:
            return 0
        try:
            with self._files.locked() as found:
                gone = frozenset(
                    each for each, path in found.ours.items() if not Path(path).exists()
                )
                if gone:
                    self._files.write(found.without(gone))
                return len(gone)
        except ProjectFilesError as error:
            self._report(str(error))
            return 0

    # -------------------------------------------------------------- filesystems

    def _mount(self, volume: int, path: str) -> Mount | None:
        device = os.fstat(volume).st_dev
        if device not in self._mounts:
            if len(self._mounts) >= MOUNTS_MAX:
                self._mounts.clear()
            self._mounts[device] = self._find_mount(volume, path)
        return self._mounts[device]

    def _find_mount(self, volume: int, path: str) -> Mount | None:
        mount = mount_of(path, read_mounts())
        if mount is None or mount.kind not in {each.value for each in Kind}:
            return None
        with suppress(OSError):
            return mount if has_accounting(volume, mount.source) else None
        return None

    # -------------------------------------------------------------- project ids

    def _project(self, volume: int, path: str, mount: Mount) -> int:
        """The volume's own project id, assigned if necessary; 0 if it cannot have one."""
        project = project_of(volume)
        with _opened(str(Path(path).parent)) as parent:
            inherited = project_of(parent)
        if project and project != inherited:
            return project
        if project or self._files is None:
            # An id of the whole folder of the kubelet counts all volumes together.
            return 0
        key = os.fstat(volume).st_dev, os.fstat(volume).st_ino
        if key in self._given_up:
            return 0
        try:
            return self._assign(self._files, volume, path, mount)
        except (OSError, ProjectFilesError) as error:
            if len(self._given_up) < ENTRIES_MAX:
                self._given_up.add(key)
            self._report(f"{path}: no project id can be assigned: {error}")
            return 0

    def _assign(self, files: ProjectFiles, volume: int, path: str, mount: Mount) -> int:
        with files.locked() as found:
            project = self._free_id(found, volume, mount)
            # The id is written to the project files first, so that no other program takes it while
            # the files of the volume get it.
            files.write(found.with_project(project, path))
        try:
            _give(volume, project)
        except OSError:
            with suppress(OSError):
                _give(volume, 0)
            with files.locked() as found:
                files.write(found.without(frozenset({project})))
            raise
        return project

    def _free_id(self, found: Projects, volume: int, mount: Mount) -> int:
        taken, project = found.ids, FIRST_ID
        for _ in range(PROBES_MAX):
            while project in taken:
                project += 1
            if project > LAST_ID:
                break
            if _usage(volume, mount, project) == Usage(0, 0):
                return project
            project += 1
        raise ProjectFilesError("no project id is free")


def _usage(volume: int, mount: Mount, project: int) -> Usage:
    try:
        return usage_of(volume, mount.source, project, Kind(mount.kind))
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ESRCH}:
            return Usage(0, 0)
        raise


def _give(volume: int, project: int) -> None:
    """Give the id to a volume and all files in it. Raises `OSError`.

    A folder gets the id before its files: files that are created meanwhile inherit it.
    """
    waiting, seen = [""], 0
    while waiting:
        path = waiting.pop()
        try:
            folder = open_beneath(volume, path)
        except FileNotFoundError:
            continue
        try:
            set_project(folder, project, is_folder=True)
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > ENTRIES_MAX:
                        raise OSError(errno.EFBIG, f"more than {ENTRIES_MAX} files")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{path}/{entry.name}" if path else entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        _give_file(folder, entry.name, project)
        finally:
            os.close(folder)


def _give_file(folder: int, name: str, project: int) -> None:
    # A tenant may have replaced the file by a device or a pipe, which must not be opened for real.
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            return
        opened = os.open(name, FILE, dir_fd=folder)
        try:
            if stat.S_ISREG(os.fstat(opened).st_mode):
                set_project(opened, project, is_folder=False)
        finally:
            os.close(opened)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    opened = os.open(path, FOLDER)
    try:
        yield opened
    finally:
        os.close(opened)
