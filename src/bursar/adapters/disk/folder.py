"""What is kept of one folder between two scans, and what one scan finds in it."""

from array import array
from dataclasses import dataclass, field


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
    """How many of the folders were not known before. They are in the budget already."""
    hot: dict[str, int] = field(default_factory=dict)
    links: "array[int]" = field(default_factory=lambda: array("Q"))
    is_racy: bool = False
    problem: str = ""
