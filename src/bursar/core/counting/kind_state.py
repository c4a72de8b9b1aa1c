"""Whether the objects of a kind are known to a counter."""

from enum import Enum


class KindState(Enum):
    ABSENT = "absent"
    """The kind is not installed in the cluster, so there are no objects of it."""
    SYNCING = "syncing"
    """The kind may be installed, but its objects have not been listed yet."""
    SYNCED = "synced"
