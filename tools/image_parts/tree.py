"""Files of an image in memory, and the layers that they are written to.

Nothing is unpacked on disk, so building needs neither root nor the image's owners and modes on the
file system of the machine. All files belong to root.
"""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

GZIP_LEVEL: Final = 6
"""Level 9 takes four times as long and saves less than one percent."""


class ImageError(Exception):
    """The image cannot be built; the message says why."""


class UnavailableError(ImageError):
    """The machine lacks a program, or cannot reach the packages."""


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    target: str


@dataclass(frozen=True)
class Folder:
    mode: int = 0o755


Tree = dict[str, File | Link | Folder]
"""Files by their path, without a slash at the start."""


@dataclass(frozen=True)
class Layer:
    title: str
    tar: bytes

    @cached_property
    def blob(self) -> bytes:
        """The compressed layer. It holds no time and no name."""
        return gzip.compress(self.tar, GZIP_LEVEL, mtime=0)

    @property
    def diff_id(self) -> str:
        return digest_of(self.tar)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def with_parents(tree: Tree) -> Tree:
    """The tree with an entry for each folder that a file of it lies in."""
    folders = {str(parent) for name in tree for parent in PurePosixPath(name).parents}
    return {**{name: Folder() for name in folders - {"."}}, **tree}


def layer_of(title: str, tree: Tree, *, below: Collection[str], mtime: int) -> Layer:
    """Write the tree as a layer. Folders that a layer `below` has are left out.

    Every entry has the same time, so the layer depends on the files alone.
    """
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in sorted(with_parents(tree).items()):
            if isinstance(entry, Folder) and name in below:
                continue
            info = tarfile.TarInfo(name)
            info.mtime = mtime
            match entry:
                case File(data, mode):
                    info.size, info.mode = len(data), mode
                    tar.addfile(info, io.BytesIO(data))
                case Link(target):
                    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
                    tar.addfile(info)
                case Folder(mode):
                    info.type, info.mode = tarfile.DIRTYPE, mode
                    tar.addfile(info)
    return Layer(title, written.getvalue())
