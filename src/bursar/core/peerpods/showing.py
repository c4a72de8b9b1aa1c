"""Where a pod shows its containers what they ask for: `resourceFieldRef`.

Kubelet reads it from the stored pod. Of what was removed from a container, it shows a limit
as what the worker has, and a request, or huge pages, as nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bursar.core.model.names import is_hugepages
from bursar.core.model.pod import ResourceRequirements
from bursar.core.peerpods.json_document import Json, JsonObject
from bursar.core.peerpods.reading import CONTAINERS, INIT_CONTAINERS


class ShownField(NamedTuple):
    container: str
    side: str
    """`requests` or `limits`."""
    resource: str

    def is_in(self, resources: ResourceRequirements) -> bool:
        if self.side == "limits":
            return self.resource in resources.limits
        return self.side == "requests" and self.resource in resources.requests

    def __str__(self) -> str:
        is_node_size = self.side == "limits" and not is_hugepages(self.resource)
        seen = "what the worker has" if is_node_size else "0"
        return f"{self.side}.{self.resource} of container {self.container} shows {seen}"


def shown_fields(document: JsonObject) -> Iterator[ShownField]:
    """All of them, in environments and volumes. What has another shape shows nothing."""
    spec = _inside(document, "spec")
    for key in (CONTAINERS, INIT_CONTAINERS):
        for container in _listed(spec, key):
            for entry in _listed(container, "env"):
                yield from _fields(_inside(entry, "valueFrom"), container.get("name"))
    for volume in _listed(spec, "volumes"):
        for source in (volume, *_listed(_inside(volume, "projected"), "sources")):
            for item in _listed(_inside(source, "downwardAPI"), "items"):
                yield from _fields(item, None)


def _fields(holder: JsonObject, own: Json) -> Iterator[ShownField]:
    field = _inside(holder, "resourceFieldRef")
    container, path = field.get("containerName") or own, field.get("resource")
    if isinstance(container, str) and isinstance(path, str):
        side, _, resource = path.partition(".")
        yield ShownField(container, side, resource)


def _inside(holder: JsonObject, key: str) -> JsonObject:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def _listed(holder: JsonObject, key: str) -> Sequence[JsonObject]:
    value = holder.get(key)
    if not value or not isinstance(value, list):
        return _NONE
    return [each for each in value if isinstance(each, dict)]


_NONE: Final[Sequence[JsonObject]] = ()
