"""Files with several names, which are counted once for the whole volume."""

from collections.abc import Iterable
from typing import Final

LINKS_MAX: Final = 100_000


class LinkedFiles:
    """The inodes with several names of one volume: how many names are known, and the blocks."""

    def __init__(self) -> None:
        self._known: dict[int, list[int]] = {}
        self.blocks = 0

    def __len__(self) -> int:
        return len(self._known)

    def add(self, inode: int, blocks: int) -> bool:
        """Note one more name of a file. False if there are too many files."""
        known = self._known.get(inode)
        if known is None:
            if len(self._known) >= LINKS_MAX:
                return False
            known = self._known[inode] = [0, 0]
        known[0] += 1
        self.blocks += blocks - known[1]
        known[1] = blocks
        return True

    def drop(self, inodes: Iterable[int]) -> None:
        """Forget one name of each of these files."""
        for inode in inodes:
            known = self._known[inode]
            known[0] -= 1
            if not known[0]:
                self.blocks -= known[1]
                del self._known[inode]
