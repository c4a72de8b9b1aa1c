"""The socket file of the agent: it always exists, is replaced atomically, and belongs to one agent.

If the socket is missing, Multus assumes a kubelet without the API and continues without devices. If
the socket refuses connections, Multus retries. So a new socket is renamed over the old one, and the
file stays when the agent ends.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from bursar.app.bad_input import BadInputError

PATH_BYTES_MAX: Final = 107
"""The kernel's limit of a socket path, without the zero byte at the end."""
LOCK_SUFFIX: Final = ".lock"
_NEW_NAME: Final = "s"
"""The name of a new socket before it is renamed to its path."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a file. An inode is not reused while a program listens on the socket."""


class SocketFileError(BadInputError):
    """The agent cannot listen on the path. The text says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPlace:
    path: str
    mode: int = 0o600
    """Users with write permission may connect."""
    group: int | str | None = None
    """Group of the file, by number or name; and of the folder, if it is created."""
    folder_mode: int = 0o750
    """Mode of the folder, if it is created."""


def check_path(path: str) -> None:
    """Raise `SocketFileError` if the path cannot be that of a socket. No file is accessed."""
    if not path:
        raise SocketFileError("the path of a socket is not empty")
    if not path.startswith("/"):
        raise SocketFileError(f"{path}: the path of a socket begins with a slash")
    if path.rpartition("/")[2] in {"", ".", ".."}:
        raise SocketFileError(f"{path}: the path of a socket ends with the name of a file")
    _check_length(path, len(os.fsencode(path)))


def check_own_path(path: str) -> None:
    """Raise `SocketFileError` if the agent could not create a socket at the path."""
    check_path(path)
    # The socket is created in a subfolder, under a name of eight bytes.
    _check_length(path, len(os.fsencode(Path(path).parent)) + len("/.0000/s"))


def _check_length(path: str, length: int) -> None:
    if length > PATH_BYTES_MAX:
        raise SocketFileError(
            f"{path}: {length} bytes are too many for a socket, {PATH_BYTES_MAX} are possible"
        )


def is_same(path: str, other: str) -> bool:
    """Whether both paths name one socket, also through links and mounts. It need not exist.

    >>> is_same("/nowhere/kubelet.sock", "/nowhere//here/../kubelet.sock")
    True
    """
    first, second = Path(os.path.realpath(path)), Path(os.path.realpath(other))
    return (
        first == second
        or (first.name == second.name and _is_one_file(first.parent, second.parent))
        or _is_one_file(first, second)
    )


def _is_one_file(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


def identity(path: str | Path) -> Identity | None:
    """The identity of the file at the path; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def lock_socket(place: SocketPlace) -> Iterator[None]:
    """Create the folder and lock the path against other agents. Raises `SocketFileError`."""
    check_own_path(place.path)
    path = Path(place.path)
    with _explained(path):
        _check_that_it_is_a_socket(path)
        _make_folder(path, place)
        lock = os.open(f"{path}{LOCK_SUFFIX}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SocketFileError(f"{path}: another agent serves this socket") from error
        _remove_leftovers(path)
        yield
    finally:
        os.close(lock)


def publish(place: SocketPlace, listen: Callable[[str], None]) -> Identity:
    """Let `listen` create a socket, set its mode and group, and rename it to the path of `place`.

    Returns the identity of the file. The socket is created in a folder that only this user may
    enter, so it is never open to other users than it should be. Raises `SocketFileError`, also if
    the path is a file other than a socket.
    """
    path = Path(place.path)
    with _explained(path):
        _check_that_it_is_a_socket(path)
        private = path.parent / f".{os.urandom(2).hex()}"
        private.mkdir(mode=0o700)
        try:
            new = private / _NEW_NAME
            listen(str(new))
            _set_group(new, place.group)
            new.chmod(place.mode)
            published = new.stat()
            new.replace(path)
        finally:
            _remove(private)
    return published.st_dev, published.st_ino


def _check_that_it_is_a_socket(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not stat.S_ISSOCK(path.stat().st_mode)):
        raise SocketFileError(f"{path}: this is not a socket, and is not replaced")


def _make_folder(path: Path, place: SocketPlace) -> None:
    folder = path.parent
    if folder.is_dir():
        return
    for each in (folder, *folder.parents):
        if os.path.lexists(each):
            if not each.is_dir():
                raise SocketFileError(f"{path}: {each} is no folder")
            break
    folder.mkdir(mode=place.folder_mode, parents=True)
    try:
        # Users that may connect must be able to enter the folder.
        _set_group(folder, place.group)
        folder.chmod(place.folder_mode)
    except (OSError, LookupError):
        folder.rmdir()
        raise


def _set_group(path: Path, group: int | str | None) -> None:
    if group is None:
        return
    if isinstance(group, str):
        import grp  # noqa: PLC0415 - most agents give the socket to no group

        try:
            group = grp.getgrnam(group).gr_gid
        except KeyError:
            raise LookupError(f"no such group: {group!r}") from None
    os.chown(path, -1, group)


def _remove_leftovers(path: Path) -> None:
    """Remove the private folders of agents that were killed while they created a socket."""
    for private in path.parent.glob(".[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"):
        # A folder with other content is not an agent's, and rmdir fails.
        with suppress(OSError):
            _remove(private)


def _remove(private: Path) -> None:
    new = private / _NEW_NAME
    if new.is_socket():
        new.unlink()
    private.rmdir()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except LookupError as error:
        raise SocketFileError(f"{path}: {error.args[0]}") from error
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        raise SocketFileError(f"{path}: {problem.lower()}") from error
