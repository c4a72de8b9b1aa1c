"""Where capacity is declared, and the lists that capacity is computed from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bursar.app.capacity.places import CAPACITY_CONFIG, PRESET_CONFIG, PRESET_NAMESPACE
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import CONFIG_MAPS, NODES, PODS
from bursar.app.cluster.ports import ForbiddenError, Key, NotFoundError, Query, Reader
from bursar.app.cluster.reading.listing import list_all
from bursar.app.cluster.sighting import sighted
from bursar.core.model.pod_row import PodRow
from bursar.core.model.selectors.selector import Selector
from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.capacity import CapacityNode, Declaration, Declared
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.wire.capacity import decode_capacity_node, decode_declarations, preset_decoder
from bursar.wire.model.pod_row import PodRowDecoder

PRESET_SELECTOR: Final = parse_selector("katacontainers.io/kata-runtime=true")
"""The node label that the runtime class of upstream's peer pods selects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlaces:
    """Which ConfigMaps declare capacity, and for which nodes the preset is."""

    namespace: str
    """The namespace in which Bursar is installed."""
    preset_namespace: str = PRESET_NAMESPACE
    preset_name: str = PRESET_CONFIG
    preset_selector: Selector = PRESET_SELECTOR
    preset_resource: str = VM_RESOURCE
    """The resource that rewritten peer pods request; it must match the webhook's setting."""

    def config_maps(self) -> tuple[tuple[Key, Callable[[bytes], Declared]], ...]:
        """Each ConfigMap with the decoder of its declarations."""
        preset = preset_decoder(self.preset_selector, self.preset_resource)
        return (
            (Key(self.namespace, CAPACITY_CONFIG), decode_declarations),
            (Key(self.preset_namespace, self.preset_name), preset),
        )


# ------------------------------------------------------------------ reading once


async def read_node(reader: Reader, name: str) -> Sighting[CapacityNode]:
    """One node. Raises `NotFoundError`, or `ValueError` if it cannot be decoded."""
    return _decode_node(await reader.get(NODES, Key("", name)))


async def read_nodes(reader: Reader, label_selector: str = "") -> list[Sighting[CapacityNode]]:
    return await list_all(reader, NODES, Query(label_selector=label_selector), _decode_node)


async def read_declared(reader: Reader, places: CapacityPlaces) -> Declared:
    """All declarations. A ConfigMap that may not be read, or cannot be decoded, is a problem."""
    found: list[Declaration] = []
    problems: list[str] = []
    for key, decode in places.config_maps():
        try:
            declared = decode(await reader.get(CONFIG_MAPS, key))
        except NotFoundError:
            continue
        except (ForbiddenError, ValueError) as error:
            problems.append(f"{key}: {error}")
            continue
        found += declared.declarations
        problems += [f"{key}: {problem}" for problem in declared.problems]
    return Declared(declarations=tuple(found), problems=tuple(problems))


async def read_rows(reader: Reader, *, node: str = "") -> list[PodRow]:
    """All pods, or the pods on one node."""
    query = Query(field_selector=f"spec.nodeName={node}" if node else "")
    return await list_all(reader, PODS, query, PodRowDecoder().decode)


_decode_node: Final = sighted(decode_capacity_node)
