"""`/etc/projects` and `/etc/projid`, which say who uses which project id.

The kubelet and xfs_quota read and write the same files. Lines of others, and lines that are not
understood, stay as they are. Both files are locked, `projects` first as the kubelet does, and each
is replaced as a whole: a reader sees the old file or the new one.
"""

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FIRST_ID: Final = 1_048_577
"""The first id that the kubelet gives to a volume."""
LAST_ID: Final = 2**31 - 1
PREFIX: Final = "bursar-"
"""How names in `projid` begin that are ours. The kubelet's begin with `volume`."""
_PROJECT: Final = re.compile(rb"([0-9]{1,10}):(.*)")
_NAME: Final = re.compile(rb"([^#:][^:]*):([0-9]{1,10})")
SIZE_MAX: Final = 16 * 2**20


class ProjectFilesError(Exception):
    """The files cannot be used. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Projects:
    """The content of both files, by lines."""

    projects: tuple[bytes, ...] = ()
    names: tuple[bytes, ...] = ()

    @property
    def ids(self) -> frozenset[int]:
        """Ids that are in either file, and so are taken."""
        found = [_PROJECT.fullmatch(line) for line in self.projects]
        taken = {int(each[1]) for each in found if each is not None}
        named = [_NAME.fullmatch(line) for line in self.names]
        return frozenset(taken | {int(each[2]) for each in named if each is not None})

    @property
    def ours(self) -> Mapping[int, str]:
        """Ids that we have given, with their folders."""
        named = [_NAME.fullmatch(line) for line in self.names]
        prefix = PREFIX.encode()
        ids = {int(each[2]) for each in named if each is not None and each[1].startswith(prefix)}
        found = [_PROJECT.fullmatch(line) for line in self.projects]
        return {
            int(each[1]): os.fsdecode(each[2])
            for each in found
            if each is not None and int(each[1]) in ids
        }

    def with_project(self, project: int, path: str) -> "Projects":
        return Projects(
            (*self.projects, b"%d:%s" % (project, os.fsencode(path))),
            (*self.names, b"%s%d:%d" % (PREFIX.encode(), project, project)),
        )

    def without(self, ids: frozenset[int]) -> "Projects":
        """The files without these ids of Bursar's. Lines of other programs stay."""
        ours = ids & self.ours.keys()
        gone = {b"%s%d:%d" % (PREFIX.encode(), each, each) for each in ours}
        return Projects(
            tuple(line for line in self.projects if _id_of(line) not in ours),
            tuple(line for line in self.names if line not in gone),
        )


def _id_of(line: bytes) -> int | None:
    found = _PROJECT.fullmatch(line)
    return None if found is None else int(found[1])


class ProjectFiles:
    """The files `projects` and `projid` of one folder, by default `/etc`."""

    def __init__(self, folder: str = "/etc") -> None:
        self._projects, self._names = Path(folder, "projects"), Path(folder, "projid")

    @contextmanager
    def locked(self) -> Iterator[Projects]:
        """Hold the locks of both files. Raises `ProjectFilesError`."""
        with ExitStack() as stack:
            try:
                texts = [stack.enter_context(_locked(each)) for each in self._paths]
            except OSError as error:
                raise ProjectFilesError(f"{error.filename}: {error.strerror}") from None
            projects, names = (tuple(text.splitlines()) for text in texts)
            yield Projects(projects, names)

    def write(self, wanted: Projects) -> None:
        """Replace both files, names first as the kubelet does. Call it while they are locked.

        Raises `ProjectFilesError`.
        """
        try:
            _replace(self._names, wanted.names)
            _replace(self._projects, wanted.projects)
        except OSError as error:
            raise ProjectFilesError(f"{error.filename}: {error.strerror}") from None

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self._projects, self._names


@contextmanager
def _locked(path: Path) -> Iterator[bytes]:
    """The content of a file that is locked. It is created if it is missing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        opened = os.open(path, flags, 0o644)
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode) or found.st_size > SIZE_MAX:
                raise ProjectFilesError(f"{path}: not a plain file of a few lines")
            fcntl.flock(opened, fcntl.LOCK_EX)
            if _is_current(path, opened):
                yield os.pread(opened, SIZE_MAX, 0)
                return
        finally:
            os.close(opened)
        # Another program replaced the file while this one waited for the lock.


def _is_current(path: Path, opened: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(opened))
    return False


def _replace(path: Path, lines: tuple[bytes, ...]) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    opened, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
