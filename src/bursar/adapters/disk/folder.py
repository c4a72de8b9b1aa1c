"""What is kept of one folder between two scans, and what one scan finds in it."""

from array import array
from dataclasses import dataclass, field
from typing import Final

FOLDERS_MAX: Final = 150_000
"""Folders of all volumes of a node. They take about 65 MB."""
NAMES_MAX: Final = 200_000
"""Names of files with several names, of all volumes of a node. They take about 50 MB."""
HOT_MAX: Final = 65_536
"""Hot files of all volumes of a node. They take up to 25 MB."""


class Room:
    """How many things of one kind all trees of a node remember. It bounds their memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def has_more(self, spare: int = 0) -> bool:
        """Whether one more fits once `spare` of them are given back."""
        return self.used - spare < self.most


class Rooms:
    """The rooms that the trees of a node share."""

    def __init__(
        self, *, folders: int = FOLDERS_MAX, names: int = NAMES_MAX, hot: int = HOT_MAX
    ) -> None:
        self.folders, self.names, self.hot = Room(folders), Room(names), Room(hot)


class Folder:
    """What is kept of one folder between two scans. A volume can have 50,000 folders."""

    __slots__ = (
        *("name", "parent", "inode", "changed_ns", "is_racy", "is_gone", "scanned_ms"),
        *("blocks", "entries", "children", "hot", "links", "problem"),
    )

    def __init__(self, name: str, parent: "Folder | None", inode: int) -> None:
        self.name = name
        self.parent = parent
        self.inode = inode
        self.changed_ns = -1
        """Change time (ctime) when it was last scanned; tenants cannot set it. -1: not scanned."""
        self.is_racy = False
        """Whether it may have changed without another change time, so that it is scanned again."""
        self.is_gone = False
        self.scanned_ms = 0
        self.blocks = 0
        """Blocks of the folder itself and of its files that have one name."""
        self.entries = 0
        self.children: dict[str, Folder] | None = None
        self.hot: dict[str, int] | None = None
        """Files that changed lately, with their blocks."""
        self.links: array[int] | None = None
        """Inodes of files with several names, once for each name in this folder."""
        self.problem = ""

    @property
    def path(self) -> str:
        """The path below the volume; empty for the volume itself."""
        steps: list[str] = []
        folder = self
        while folder.parent is not None:
            steps.append(folder.name)
            folder = folder.parent
        return "/".join(reversed(steps))


@dataclass(slots=True)
class Listing:
    """What one scan found in a folder."""

    blocks: int
    entries: int = 1
    folders: dict[str, int] = field(default_factory=dict)
    """Folders in it, with their inodes."""
    new_folders: int = 0
    """Those that were not known before. They have taken their room already."""
    hot: dict[str, int] = field(default_factory=dict)
    links: "array[int]" = field(default_factory=lambda: array("Q"))
    is_racy: bool = False
    problem: str = ""
