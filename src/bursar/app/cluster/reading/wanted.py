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
    """A kind that is read earlier, such as cluster-wide quotas. If the cluster has objects of that
    kind, all namespaces are read instead of `namespace`. If it has none, a cluster-scoped
    `resource` is not read."""
    is_required: bool = True
    """Whether the command fails if the objects cannot be read."""
    may_be_absent: bool = False
    """Whether many clusters lack the kind, so that its absence is not reported."""
    poll_seconds: float | None = None
    """How often to list a kind that cannot be watched; None for a kind that can."""
    is_decoded: bool = True
    """Whether the objects are decoded as manifests; otherwise the command decodes the bodies."""
