"""Loading manifests into the embedded cluster, hand-written or from `kubectl get -o yaml`.

Items of Lists become objects. Unlike a creation through the ports, loading keeps the status, uid
and creation time of the manifest. A namespace that no manifest defines is created if an object
names it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from bursar.adapters.memory.kinds import Kind, Kinds, custom_kind
from bursar.adapters.memory.objects.patches import JsonObject, copied
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS, NAMESPACES
from bursar.app.cluster.ports import ForbiddenError, Json
from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.wire.peerpods.catalogue import API_VERSION, KIND
from bursar.wire.structs.fields import quoted

_FIRST: Final = (
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "Node",
    "LimitRange",
    "ResourceQuota",
)
"""Kinds that other kinds depend on. They are created before all others."""


def is_for_no_cluster(document: Json) -> bool:
    """Whether a document is read by Bursar itself and not stored, such as an InstanceCatalogue."""
    return isinstance(document, Mapping) and (
        (document.get("apiVersion"), document.get("kind")) == (API_VERSION, KIND)
    )


class UnknownKindError(Exception):
    """A document of a kind that the cluster does not serve."""


def known_documents(
    cluster: MemoryCluster, documents: Iterable[Json]
) -> tuple[list[Mapping[str, Json]], list[Mapping[str, Json]]]:
    """The objects of kinds that the cluster serves or the documents define, and the others."""
    objects = [each for document in documents for each in _opened(document)]
    kinds = _kinds_in(cluster.objects.kinds, objects)
    known: list[Mapping[str, Json]] = []
    others: list[Mapping[str, Json]] = []
    for each in objects:
        (known if kinds(each) is not None else others).append(each)
    return known, others


def _raise(_body: Mapping[str, Json], error: ForbiddenError) -> None:
    raise error


async def load_manifests(
    cluster: MemoryCluster,
    documents: Iterable[Json],
    on_refused: Callable[[Mapping[str, Json], ForbiddenError], None] = _raise,
    progress: Callable[[int], None] = lambda _done: None,
) -> int:
    """Create all objects of the documents and return their number. Raises `UnknownKindError`.

    An unknown kind raises before any object is created. An invalid object raises as a creation
    does; the objects before it stay. `on_refused` gets objects that admission refuses. `progress`
    gets the number of objects that are done, before each object.
    """
    entries = [*_recognised(cluster.objects.kinds, documents)]
    entries.sort(key=lambda entry: _rank(entry[0]))
    for number, (kind, body) in enumerate(entries):
        progress(number)
        namespace = ""
        if kind.resource.is_namespaced:
            namespace = (body.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE
            if cluster.objects.find(NAMESPACES, namespace) is None:
                await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
        try:
            await cluster.put_as_written(kind.resource, body, namespace=namespace)
        except ForbiddenError as error:
            on_refused(body, error)
    return len(entries)


def _rank(kind: Kind) -> int:
    name = kind.resource.kind
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _recognised(kinds: Kinds, documents: Iterable[Json]) -> Iterator[tuple[Kind, JsonObject]]:
    objects = [copied(each) for document in documents for each in _opened(document)]
    kind_of = _kinds_in(kinds, objects)
    for number, each in enumerate(objects, start=1):
        kind = kind_of(each)
        if kind is None:
            stated = str(each.get("apiVersion", "")), str(each.get("kind", ""))
            raise UnknownKindError(
                f"object {number}: the embedded cluster knows no kind {quoted(stated[1])} in "
                f"{quoted(stated[0])}"
            )
        yield kind, each


def _kinds_in(
    kinds: Kinds, objects: Iterable[Mapping[str, Json]]
) -> Callable[[Mapping[str, Json]], Kind | None]:
    """How to find the kind of an object, among those of the cluster and those of the objects."""
    coming = [custom_kind(copied(each)) for each in objects if each.get("kind") == CRDS.kind]
    by_name = {
        (kind.resource.api_version, kind.resource.kind): kind for kind in coming if kind is not None
    }

    def kind_of(body: Mapping[str, Json]) -> Kind | None:
        stated = str(body.get("apiVersion", "")), str(body.get("kind", ""))
        return kinds.named(*stated) or by_name.get(stated)

    return kind_of


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
