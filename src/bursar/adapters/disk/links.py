"""Files with several names, which are counted once for the whole volume."""

from collections.abc import Iterable
from typing import Final

from bursar.adapters.disk.budgets import Budget

NAMES_MAX: Final = 100_000
"""Names of such files that are remembered of one volume."""


class LinkedFiles:
    """The inodes with several names of one volume: how many names are known, and the blocks."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: dict[int, list[int]] = {}
        self._names = 0
        self.blocks = 0

    def __len__(self) -> int:
        return len(self._known)

    def add(self, inode: int, blocks: int, spare: int) -> bool:
        """Note one more name of a file. False if there are too many names.

        `spare` of the known names will be dropped, because their folder is listed again.
        """
        if self._names - spare >= NAMES_MAX or not self._budget.has_more(spare):
            return False
        known = self._known.setdefault(inode, [0, 0])
        known[0] += 1
        self.blocks += blocks - known[1]
        known[1] = blocks
        self._names += 1
        self._budget.used += 1
        return True

    def drop(self, inodes: Iterable[int]) -> None:
        """Forget one name of each of these files."""
        for inode in inodes:
            known = self._known[inode]
            known[0] -= 1
            self._names -= 1
            self._budget.used -= 1
            if not known[0]:
                self.blocks -= known[1]
                del self._known[inode]

    def forget(self) -> None:
        """Return all names to the budget. The volume is not scanned any more."""
        self._budget.used -= self._names
        self._known.clear()
        self._names = self.blocks = 0
