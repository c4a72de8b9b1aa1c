"""How much all volumes of a node may keep in memory together."""

from typing import Final

FOLDERS_MAX: Final = 150_000
"""Folders of all volumes of a node. They take about 65 MB."""
NAMES_MAX: Final = 200_000
"""Names of files with several names, of all volumes of a node. They take about 50 MB."""
HOT_MAX: Final = 65_536
"""Hot files of all volumes of a node. They take up to 25 MB."""


class Budget:
    """How many things of one kind the trees of a node keep. It bounds their memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def has_more(self, spare: int = 0) -> bool:
        """Whether one more fits when `spare` of them have been returned."""
        return self.used - spare < self.limit


class Budgets:
    """The budgets that the trees of a node share."""

    def __init__(
        self, *, folders: int = FOLDERS_MAX, names: int = NAMES_MAX, hot: int = HOT_MAX
    ) -> None:
        self.folders, self.names, self.hot = Budget(folders), Budget(names), Budget(hot)
