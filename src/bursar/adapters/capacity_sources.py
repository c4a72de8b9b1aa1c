"""Where capacity is declared, and how a cluster is followed or read for it."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from bursar.adapters.identity import locate
from bursar.adapters.observed import Cluster, observe
from bursar.adapters.reading_once import read_all
from bursar.app.capacity.work import CapacitySources
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import CONFIG_MAPS, NODES, PODS
from bursar.app.cluster.ports import Clock, ForbiddenError, Key, NotFoundError, Query, Reader
from bursar.app.install.access import CAPACITY_CONFIG, PRESET_CONFIG, PRESET_NAMESPACE
from bursar.core.model.pod_row import PodRow
from bursar.core.model.selector import Selector
from bursar.core.model.selector_text import parse_selector
from bursar.core.peerpods.capacity import VM_RESOURCE, CapacityNode, Declaration, Declared
from bursar.wire.capacity import decode_capacity_node, decode_declarations, preset_decoder
from bursar.wire.model.pod_row import PodRowDecoder

PRESET_SELECTOR: Final = parse_selector("katacontainers.io/kata-runtime=true")
"""The label that upstream's runtime class asks of nodes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlaces:
    """Where declarations are, and which nodes the preset is for."""

    namespace: str
    """Where Bursar is installed."""
    preset_namespace: str = PRESET_NAMESPACE
    preset_name: str = PRESET_CONFIG
    preset_selector: Selector = PRESET_SELECTOR
    preset_resource: str = VM_RESOURCE
    """What pods are made to ask for; both sides have to agree on it."""


def capacity_sources(
    cluster: Cluster,
    clock: Clock,
    random: Random,
    *,
    places: CapacityPlaces,
    pods: Informer[PodRow],
) -> CapacitySources:
    """Informers that have not been run yet, beside one of pods that others run."""

    def declarations(
        namespace: str, name: str, decode: Callable[[bytes], Declared]
    ) -> Informer[Sighting[Declared]]:
        query = Query(namespace=namespace, field_selector=f"metadata.name={name}")
        return observe(cluster, clock, random, CONFIG_MAPS, decode, query=query)

    return CapacitySources(
        nodes=observe(cluster, clock, random, NODES, decode_capacity_node),
        declarations=(
            declarations(places.namespace, CAPACITY_CONFIG, decode_declarations),
            declarations(
                places.preset_namespace,
                places.preset_name,
                preset_decoder(places.preset_selector, places.preset_resource),
            ),
        ),
        pods=pods,
    )


# ------------------------------------------------------------------ reading once


async def read_node(reader: Reader, name: str) -> Sighting[CapacityNode]:
    """One node. Raises `NotFoundError`, or `ValueError` if it cannot be read."""
    return _sighted(await reader.get(NODES, Key("", name)))


async def read_nodes(reader: Reader, label_selector: str = "") -> list[Sighting[CapacityNode]]:
    """All nodes with these labels."""
    return await read_all(reader, NODES, Query(label_selector=label_selector), _sighted)


async def read_declared(reader: Reader, places: CapacityPlaces) -> Declared:
    """All that is declared, ours and the preset; what we may not read is a problem."""
    kinds = (
        (Key(places.namespace, CAPACITY_CONFIG), decode_declarations),
        (
            Key(places.preset_namespace, places.preset_name),
            preset_decoder(places.preset_selector, places.preset_resource),
        ),
    )
    found: list[Declaration] = []
    problems: list[str] = []
    for key, decode in kinds:
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
    """All pods, or those on one node."""
    query = Query(field_selector=f"spec.nodeName={node}" if node else "")
    return await read_all(reader, PODS, query, PodRowDecoder().decode)


def _sighted(body: bytes) -> Sighting[CapacityNode]:
    identity = locate(body)
    if identity is None:
        raise ValueError("an object without a name")
    return Sighting(identity, decode_capacity_node(body))
