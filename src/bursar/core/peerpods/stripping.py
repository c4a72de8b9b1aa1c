"""The document of a peer pod without its resources, and with its VM.

Only branches on the way to a resource are made anew. In upstream's mode a container's
`resources` is replaced whole, as upstream does; in the effective mode fields in it that we
do not know stay.
"""

from typing import Final

from bursar.core.peerpods.json_document import Json, JsonObject
from bursar.core.peerpods.reading import CONTAINERS, INIT_CONTAINERS, object_in, objects_in
from bursar.core.peerpods.settings import Mode, PeerPodSettings

ONE_VM: Final = "1"

_RESOURCES: Final = "resources"
_SIDES: Final = ("requests", "limits")
_KNOWN: Final = frozenset({*_SIDES, "claims"})


def stripped(document: JsonObject, settings: PeerPodSettings) -> JsonObject:
    """The document with nothing in its containers but the VM and what is kept."""
    spec = dict(object_in(document, "spec", "spec"))
    for key in (CONTAINERS, INIT_CONTAINERS):
        containers = objects_in(spec, key, f"spec.{key}")
        emptied: list[Json] = [
            _emptied(container, settings, has_vm=key == CONTAINERS and index == 0)
            for index, container in enumerate(containers)
        ]
        if emptied:
            spec[key] = emptied
    if settings.mode is Mode.EFFECTIVE and spec.get(_RESOURCES):
        unknown = _unknown(object_in(spec, _RESOURCES, "spec.resources"))
        if unknown:
            spec[_RESOURCES] = unknown
        else:
            del spec[_RESOURCES]
    return {**document, "spec": spec}


def _emptied(container: JsonObject, settings: PeerPodSettings, *, has_vm: bool) -> JsonObject:
    held = object_in(container, _RESOURCES, _RESOURCES)
    is_effective = settings.mode is Mode.EFFECTIVE
    left: JsonObject = _unknown(held) if is_effective else {}
    for side in _SIDES:
        entries: JsonObject = {}
        if is_effective:
            amounts = object_in(held, side, side)
            entries = {name: text for name, text in amounts.items() if name in settings.kept}
        if has_vm:
            entries[settings.vm_resource] = ONE_VM
        if entries:
            left[side] = entries
    return {**container, _RESOURCES: left} if left or held else container


def _unknown(resources: JsonObject) -> JsonObject:
    return {key: value for key, value in resources.items() if key not in _KNOWN}
