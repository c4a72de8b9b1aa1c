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
from typing import Final

PATH_BYTES_MAX: Final = 107
"""What the kernel has room for, with the zero at the end."""
LOCK_SUFFIX: Final = ".lock"
_MADE: Final = "s"
"""A socket's name, before it is moved to where clients look."""


class SocketFileError(Exception):
    """Why we cannot listen there, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPlace:
    path: str
    mode: int = 0o600
    """Whoever may write may connect."""
    group: int | str | None = None
    """To whom the file is given, by number or name."""
    folder_mode: int = 0o750
    """Of the folder, if it has to be made."""


@contextmanager
def held(place: SocketPlace) -> Iterator[None]:
    """Make the folder and be the only one who listens there. Raises `SocketFileError`."""
    path = Path(place.path)
    _check_length(path)
    with _explained(path):
        if not path.parent.is_dir():
            path.parent.mkdir(mode=place.folder_mode, parents=True)
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


def publish(place: SocketPlace, listen: Callable[[str], None]) -> None:
    """Let `listen` make a socket, give it its mode and group, and put it where clients look.

    It is made in a folder that nobody else may enter, so that it is never open to others than
    it should be. Raises `SocketFileError`, also if something else than a socket is in the way.
    """
    path = Path(place.path)
    with _explained(path):
        if path.is_symlink() or (path.exists() and not stat.S_ISSOCK(path.stat().st_mode)):
            raise SocketFileError(f"{path}: there is something that is no socket; it is not ours")
        cradle = path.parent / f".{secrets.token_hex(2)}"
        cradle.mkdir(mode=0o700)
        try:
            made = cradle / _MADE
            listen(str(made))
            if place.group is not None:
                shutil.chown(made, group=place.group)
            made.chmod(place.mode)
            made.replace(path)
        finally:
            _remove(cradle)


def _check_length(path: Path) -> None:
    # The socket is made one folder deeper, under a name of eight bytes.
    longest = max(len(os.fsencode(path)), len(os.fsencode(path.parent)) + len("/.0000/s"))
    if longest > PATH_BYTES_MAX:
        raise SocketFileError(
            f"{path}: {longest} bytes are too many for a socket, {PATH_BYTES_MAX} are possible"
        )
    if not path.is_absolute():
        raise SocketFileError(f"{path}: the path of a socket begins with a slash")


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
