"""The name under which our socket is found: always there, never half made, and only ours.

Multus takes a missing socket for a kubelet without the API and silently goes on without devices;
a socket that refuses connections makes it try again. So the new one is moved over the old one in
one step, and what is there stays there when we end.
"""

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

PATH_BYTES_MAX: Final = 107
"""What the kernel has room for, with the zero at the end."""
LOCK_SUFFIX: Final = ".lock"
_MADE: Final = "s"
"""A socket's name, before it is moved to where clients look."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode. Whoever listens on a socket keeps its inode, so no other file has it."""


class SocketFileError(Exception):
    """Why we cannot listen there, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPlace:
    path: str
    mode: int = 0o600
    """Whoever may write may connect."""
    group: int | str | None = None
    """To whom the file is given, by number or name; and the folder, if it has to be made."""
    folder_mode: int = 0o750
    """Of the folder, if it has to be made."""


def check_path(path: str) -> None:
    """Refuse what cannot be the path of a socket, whatever is there. Raises `SocketFileError`."""
    if not path:
        raise SocketFileError("the path of a socket is not empty")
    if not path.startswith("/"):
        raise SocketFileError(f"{path}: the path of a socket begins with a slash")
    if path.rpartition("/")[2] in {"", ".", ".."}:
        raise SocketFileError(f"{path}: the path of a socket ends with the name of a file")
    _check_length(path, len(os.fsencode(path)))


def check_own_path(path: str) -> None:
    """The same for a socket that is to be made. Raises `SocketFileError`."""
    check_path(path)
    # It is made one folder deeper, under a name of eight bytes.
    _check_length(path, len(os.fsencode(Path(path).parent)) + len("/.0000/s"))


def _check_length(path: str, length: int) -> None:
    if length > PATH_BYTES_MAX:
        raise SocketFileError(
            f"{path}: {length} bytes are too many for a socket, {PATH_BYTES_MAX} are possible"
        )


def is_same(path: str, other: str) -> bool:
    """Whether both names lead to one socket, through links and mounts as well, be it there or not.

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
    """Which file it is that has this name, if any has."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def held(place: SocketPlace) -> Iterator[None]:
    """Make the folder and be the only one who listens there. Raises `SocketFileError`."""
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
        _sweep(path)
        yield
    finally:
        os.close(lock)


def publish(place: SocketPlace, listen: Callable[[str], None]) -> Identity:
    """Let `listen` make a socket, give it its mode and group, and put it where clients look.

    Returns which file that is. It is made in a folder that nobody else may enter, so that it is
    never open to others than it should be. Raises `SocketFileError`, also if something else than
    a socket is in the way.
    """
    path = Path(place.path)
    with _explained(path):
        _check_that_it_is_a_socket(path)
        cradle = path.parent / f".{secrets.token_hex(2)}"
        cradle.mkdir(mode=0o700)
        try:
            made = cradle / _MADE
            listen(str(made))
            if place.group is not None:
                shutil.chown(made, group=place.group)
            made.chmod(place.mode)
            published = made.stat()
            made.replace(path)
        finally:
            _remove(cradle)
    return published.st_dev, published.st_ino


def _check_that_it_is_a_socket(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not stat.S_ISSOCK(path.stat().st_mode)):
        raise SocketFileError(f"{path}: there is something that is no socket; it is not ours")


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
        if place.group is not None:
            # Whoever may connect has to come as far as the socket.
            shutil.chown(folder, group=place.group)
        folder.chmod(place.folder_mode)
    except (OSError, LookupError):
        folder.rmdir()
        raise


def _sweep(path: Path) -> None:
    """Remove what an agent left behind that was killed while it made its socket."""
    for cradle in path.parent.glob(".[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"):
        # Whatever has anything else in it was not made here.
        with suppress(OSError):
            _remove(cradle)


def _remove(cradle: Path) -> None:
    made = cradle / _MADE
    if made.is_socket():
        made.unlink()
    cradle.rmdir()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except LookupError as error:
        raise SocketFileError(f"{path}: {error.args[0]}") from error
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        raise SocketFileError(f"{path}: {problem.lower()}") from error
