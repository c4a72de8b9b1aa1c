"""A pool: how much of one extended resource the pods of the cluster may hold together.

A pool is written as a ClusterResource. No node has the resource, so the scheduler asks the extender
instead of counting it per node.
"""

from dataclasses import dataclass
from typing import Final

from bursar.core.model.quantity import Quantity
from bursar.core.model.selectors.selector import Selector

SHARES_MAX: Final = 32
"""Most shares of a pool. Every pod that the pool holds has one entry for each share it is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The most that some namespaces may hold of a pool."""

    name: str
    selector: Selector
    """The namespaces, by their labels."""
    maximum: Quantity
    is_per_namespace: bool = False
    """Each namespace has its own maximum. False: the maximum is for all of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The spec of a ClusterResource, with the metadata that the books need."""

    name: str
    uid: str = ""
    generation: int = 0
    created_at: str = ""
    """The creationTimestamp, whose text sorts by time."""
    resource: str
    capacity: Quantity
    selector: Selector | None = None
    """The namespaces whose pods may use the pool. None: all of them."""
    shares: tuple[Share, ...] = ()
    problem: str = ""
    """Why the spec cannot be used; empty if it can. Pods that request the resource then wait."""

    @property
    def age_rank(self) -> tuple[str, str]:
        """Of two pools with the same resource, the one with the lower rank is in use."""
        return (self.created_at, self.name)
