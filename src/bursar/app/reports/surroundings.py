"""The nodes, pods and namespaces that decide where a pod can go, read once from a cluster.

All reads use the caller's own rights, so a report never shows an object that the caller may not
read. What may not be read is named in `missing`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
from bursar.app.cluster.ports import EVERYTHING, ForbiddenError, Key, Query, Reader, Resource
from bursar.app.cluster.reading.listing import list_all
from bursar.core.model.defaulting import node_with_defaults, with_defaults
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.placement.node_books import NodeBooks
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.node import decode_node
from bursar.wire.model.pod import decode_pod

Progress = Callable[[str, int], None]
"""Called with a kind and the number of its objects that have been read so far."""

ON_NODES: Final = Query(
    field_selector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
)
"""The pods that take room on nodes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The nodes of a cluster with the pods on them."""

    nodes: tuple[NodeBooks, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of namespaces, for pod affinity that selects namespaces."""
    missing: tuple[str, ...] = ()
    """Kinds that could not be read, each with the reason."""

    @property
    def is_complete(self) -> bool:
        return not self.missing


def surroundings_of(
    nodes: Sequence[Node], pods: Sequence[Pod], namespaces: Sequence[NamespaceObject] = ()
) -> Surroundings:
    """The surroundings from objects. Of nodes with the same name the last one counts."""
    on_nodes: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node_name and not pod.is_terminated:
            on_nodes.setdefault(pod.node_name, []).append(with_defaults(pod))
    known = {node.name: node_with_defaults(node) for node in nodes}
    return Surroundings(
        nodes=tuple(NodeBooks(known[name], on_nodes.get(name, ())) for name in sorted(known)),
        namespaces={each.name: each.labels for each in namespaces},
    )


async def read_pod(reader: Reader, namespace: str, name: str) -> Pod:
    """Raises `NotFoundError` or another `ClusterError`."""
    return decode_pod(await reader.get(PODS, Key(namespace, name)))


async def read_pods(reader: Reader, namespace: str, problems: list[str]) -> list[Pod]:
    """All pods of a namespace; of all namespaces if it is empty. Raises `ClusterError`."""
    return await list_all(reader, PODS, Query(namespace=namespace), decode_pod, problems=problems)


async def read_surroundings(
    reader: Reader, *, progress: Progress = lambda _kind, _count: None
) -> Surroundings:
    """List nodes, the pods on them, and namespaces. Raises `ClusterError`."""
    missing: list[str] = []

    async def objects(
        resource: Resource, decode: Callable[[bytes], T], query: Query = EVERYTHING
    ) -> list[T]:
        try:
            return await list_all(
                reader,
                resource,
                query,
                decode,
                problems=missing,
                progress=lambda count: progress(resource.plural, count),
            )
        except ForbiddenError as error:
            missing.append(f"{resource.plural} of the cluster: {error}")
            return []

    nodes = await objects(NODES, decode_node)
    pods = await objects(PODS, decode_pod, ON_NODES)
    namespaces = await objects(NAMESPACES, decode_namespace)
    return replace(surroundings_of(nodes, pods, namespaces), missing=tuple(missing))
