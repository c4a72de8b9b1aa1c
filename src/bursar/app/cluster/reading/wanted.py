"""What a command reads of a cluster.

It is apart from the reading itself, which imports asyncio, so that commands start quickly.
"""

from dataclasses import dataclass

from bursar.app.cluster.ports import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Objects that a command reads."""

    resource: Resource
    namespace: str = ""
    """Empty: all namespaces."""
    all_if: Resource | None = None
    """A kind that is read before. If it has objects, they may concern all namespaces, which then
    are read instead of `namespace`; a kind without namespaces is read only then."""
    is_required: bool = True
    """Whether the command fails if they cannot be read."""
    may_be_absent: bool = False
    """Whether it is usual that a cluster does not have the kind, and nothing to mention."""
    poll_seconds: float | None = None
    """How often to list a kind that cannot be watched; None for a kind that can."""
    is_decoded: bool = True
    """Whether the command wants them as manifests; otherwise it decodes the bodies itself."""
