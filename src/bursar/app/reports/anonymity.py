"""Replace the names of namespaces, pods, nodes and workloads, each name always by the same one.

Labels and images keep their names, since selectors and sizes depend on them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from bursar.app.cluster.ports import Json
from bursar.app.reports.redaction import Object
from bursar.core.model.namespace import NAME_LABEL

POD_LABEL: Final = "statefulset.kubernetes.io/pod-name"
HOST_LABEL: Final = "kubernetes.io/hostname"
KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces of every cluster. Some of them are treated in a special way."""
_PLACES: Final = {
    "namespace": "namespace",
    "namespaces": "namespace",
    "nodeName": "node",
    "hostname": "pod",
    NAME_LABEL: "namespace",
    POD_LABEL: "pod",
    HOST_LABEL: "node",
}
"""Fields and labels whose texts are names of objects, with the kind of object."""
_DROPPED: Final = frozenset({"message", "generateName", "hostIP", "hostIPs", "podIP", "podIPs"})
_DROPPED_OF_NODES: Final = frozenset({"addresses", "podCIDR", "podCIDRs", "providerID"})
_NODE_KEYS: Final = frozenset({HOST_LABEL, "metadata.name"})
"""Keys of node affinity whose values are names of nodes."""
_KINDS: Final = {"Namespace": "namespace", "Pod": "pod", "Node": "node"}


class Anonymous:
    """Replaces names by invented ones such as `pod-1`, the same for each occurrence."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def objects(self, values: Iterable[Object]) -> list[Object]:
        return [self._renamed(value) for value in values]

    def _name(self, what: str, name: str) -> str:
        if what == "namespace" and name in KEPT_NAMESPACES:
            return name
        key = (what, name)
        if key not in self._names:
            self._counts[what] = self._counts.get(what, 0) + 1
            self._names[key] = f"{what}-{self._counts[what]}"
        return self._names[key]

    def _renamed(self, value: Object) -> Object:
        kind = str(value.get("kind"))
        renamed = {
            name: self._part(part) if name != "metadata" else part for name, part in value.items()
        }
        metadata = value.get("metadata")
        if isinstance(metadata, Mapping):
            renamed["metadata"] = self._metadata(kind, metadata)
        return renamed

    def _metadata(self, kind: str, metadata: Mapping[str, Json]) -> Object:
        kept = {name: self._field(name, part) for name, part in metadata.items()}
        for dropped in _DROPPED:
            kept.pop(dropped, None)
        own_name = metadata.get("name")
        if isinstance(own_name, str) and kind in _KINDS:
            kept["name"] = self._name(_KINDS[kind], own_name)
        owners = metadata.get("ownerReferences")
        if isinstance(owners, list | tuple):
            kept["ownerReferences"] = [
                {**owner, "name": self._name("owner", str(owner.get("name")))}
                for owner in owners
                if isinstance(owner, Mapping)
            ]
        return kept

    def _part(self, part: Json) -> Json:
        if isinstance(part, Mapping):
            dropped = _DROPPED | _DROPPED_OF_NODES
            if part.get("key") in _NODE_KEYS:
                return {**part, "values": self._field("nodeName", part.get("values"))}
            return {
                name: self._field(name, inner)
                for name, inner in part.items()
                if name not in dropped
            }
        if isinstance(part, list | tuple):
            return [self._part(each) for each in part]
        return part

    def _field(self, name: str, part: Json) -> Json:
        what = _PLACES.get(name)
        if what is not None and isinstance(part, str):
            return self._name(what, part)
        if what is not None and isinstance(part, list | tuple):
            return [self._name(what, each) if isinstance(each, str) else each for each in part]
        return self._part(part)
