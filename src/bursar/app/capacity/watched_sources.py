"""The informers that capacity is computed from, in a controller."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bursar.app.capacity.sources import CapacityPlaces
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import CONFIG_MAPS, NODES
from bursar.app.cluster.observe import RunningInformer, Watched, observe, observe_one
from bursar.app.cluster.ports import Clock, Key
from bursar.core.model.pod_row import PodRow
from bursar.core.peerpods.capacity import CapacityNode, Declared
from bursar.wire.capacity import decode_capacity_node


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySources:
    """The informers that capacity depends on."""

    nodes: Informer[Sighting[CapacityNode]]
    declarations: tuple[Informer[Sighting[Declared]], ...]
    pods: Informer[PodRow]
    """Shared with the quota books; the caller that made it runs it."""

    def informers(self) -> tuple[RunningInformer, ...]:
        """The informers that only capacity needs, which the capacity controller runs."""
        declarations: tuple[RunningInformer, ...] = self.declarations
        return (self.nodes, *declarations)


def capacity_sources(
    cluster: Watched,
    clock: Clock,
    random: Random,
    *,
    places: CapacityPlaces,
    pods: Informer[PodRow],
) -> CapacitySources:
    def declarations(key: Key, decode: Callable[[bytes], Declared]) -> Informer[Sighting[Declared]]:
        return observe_one(cluster, clock, random, CONFIG_MAPS, decode, key)

    return CapacitySources(
        nodes=observe(cluster, clock, random, NODES, decode_capacity_node),
        declarations=tuple(declarations(*each) for each in places.config_maps()),
        pods=pods,
    )
