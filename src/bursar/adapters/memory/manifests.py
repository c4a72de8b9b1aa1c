"""Loading manifests into the embedded cluster, hand-written or from `kubectl get -o yaml`.

Items of Lists become objects. Unlike a creation through the ports, loading keeps the status, uid
and creation time of the manifest. A namespace that no manifest defines is created if an object
names it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from bursar.adapters.memory.kinds import CRDS, NAMESPACES, Kind, Kinds, custom_kind
from bursar.adapters.memory.objects.patches import JsonObject, copied
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.ports import Json
from bursar.wire.peerpods.catalogue import API_VERSION, KIND
from bursar.wire.structs.fields import quoted

DEFAULT_NAMESPACE: Final = "default"
_FIRST: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "RuntimeClass", "Node")
"""Kinds that other kinds depend on. They are created before all others."""


def is_for_no_cluster(document: Json) -> bool:
    """Whether a document is read by Bursar itself and not stored, such as an InstanceCatalogue."""
    return isinstance(document, Mapping) and (
        (document.get("apiVersion"), document.get("kind")) == (API_VERSION, KIND)
    )


class UnknownKindError(Exception):
    """A document of a kind that the cluster does not serve."""


async def load_manifests(cluster: MemoryCluster, documents: Iterable[Json]) -> int:
    """Create all objects of the documents and return their number. Raises `UnknownKindError`.

    An unknown kind raises before any object is created. An invalid object raises as a creation
    does; the objects before it stay.
    """
    entries = [*_recognised(cluster.objects.kinds, documents)]
    entries.sort(key=lambda entry: _rank(entry[0]))
    for kind, body in entries:
        namespace = ""
        if kind.resource.is_namespaced:
            namespace = (body.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE
            if cluster.objects.find(NAMESPACES, namespace) is None:
                await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
        await cluster.put_as_written(kind.resource, body, namespace=namespace)
    return len(entries)


def _rank(kind: Kind) -> int:
    name = kind.resource.kind
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _recognised(kinds: Kinds, documents: Iterable[Json]) -> Iterator[tuple[Kind, JsonObject]]:
    objects = [copied(each) for document in documents for each in _opened(document)]
    coming = [custom_kind(each) for each in objects if each.get("kind") == CRDS.kind]
    by_name = {
        (kind.resource.api_version, kind.resource.kind): kind for kind in coming if kind is not None
    }
    for number, each in enumerate(objects, start=1):
        stated = str(each.get("apiVersion", "")), str(each.get("kind", ""))
        kind = kinds.named(*stated) or by_name.get(stated)
        if kind is None:
            raise UnknownKindError(
                f"object {number}: the embedded cluster knows no kind {quoted(stated[1])} in "
                f"{quoted(stated[0])}"
            )
        yield kind, each


def _opened(document: Json) -> Iterator[Mapping[str, Json]]:
    if not isinstance(document, Mapping):
        raise UnknownKindError("a document that is not an object")
    items = document.get("items")
    if (
        str(document.get("kind", "")).endswith("List")
        and isinstance(items, Sequence)
        and not isinstance(items, str)
    ):
        for item in items:
            yield from _opened(item)
    else:
        yield document
