"""Koordinator's Device object: the devices of a node.

An entry that cannot be decoded is left out and reported. The other entries are kept: a device that
is missing in the inventory is rejected for every pod.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from bursar.core.devices.claim import NO_AMOUNTS
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.wire.devices.values import decode_amount, require_word
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawResourceList, RawTexts, printable
from bursar.wire.structs.metadata import Named
from bursar.wire.structs.struct import Struct

VENDOR_LABEL: Final = "node.koordinator.sh/gpu-vendor"
MODEL_LABEL: Final = "node.koordinator.sh/gpu-model"

DEVICES_MAX: Final = 2**14
"""More devices than an object of the API server has room for."""
FUNCTIONS_MAX: Final = 256
PROBLEM_LENGTH_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceObject:
    """The inventory of one node, and the problems of entries that were left out."""

    node: str
    """The name of the node, which is the name of the object."""
    inventory: Inventory
    problems: tuple[str, ...] = ()
    """One line each, safe to print."""


class _Topology(Struct):
    node_id: int | None = msgspec.field(name="nodeID", default=None)
    bus_id: str | None = msgspec.field(name="busID", default=None)


class _Function(Struct):
    minor: int | None = None
    bus_id: str | None = msgspec.field(name="busID", default=None)


class _FunctionGroup(Struct):
    vfs: list[_Function] | None = None


class _Device(Struct):
    type: str | None = None
    id: str | None = None
    minor: int | None = None
    health: bool | None = None
    labels: RawTexts | None = None
    resources: RawResourceList | None = None
    topology: _Topology | None = None
    vf_groups: list[_FunctionGroup] | None = None


class _Spec(Struct):
    devices: list[msgspec.Raw] | None = None


class _Object(Struct):
    metadata: Named | None = None
    spec: _Spec | None = None


def decode_inventory(body: bytes) -> Inventory:
    """The inventory without its problems. Raises `ValueError` if the body is no Device object."""
    return decode_device_object(body).inventory


def decode_device_object(body: bytes) -> DeviceObject:
    """The inventory and its problems. Raises `ValueError` if the body is no Device object."""
    raw = decode_body(body, _Object)
    entries = (raw.spec or _Spec()).devices or []
    problems: list[str] = []
    if len(entries) > DEVICES_MAX:
        problems.append(f"more than {DEVICES_MAX} devices; those beyond are left out")
    devices = tuple(_readable(entries[:DEVICES_MAX], problems))
    return DeviceObject(
        node=(raw.metadata or Named()).name or "",
        inventory=Inventory(devices),
        problems=tuple(problems),
    )


def _readable(entries: Iterable[msgspec.Raw], problems: list[str]) -> Iterator[Device]:
    seen: set[tuple[str, int]] = set()
    for index, entry in enumerate(entries):
        where = f"spec.devices[{index}]"
        try:
            device = _device(decode_body(bytes(entry), _Device), where)
        except ValueError as error:
            text = str(error)
            line = text if text.startswith(where) else f"{where}: {text}"
            problems.append(printable(line, PROBLEM_LENGTH_MAX))
            continue
        if (device.kind, device.minor) in seen:
            problems.append(f"{where}: there is a {device.kind} with minor {device.minor} already")
        seen.add((device.kind, device.minor))
        yield device


def _device(raw: _Device, where: str) -> Device:
    if not raw.type:
        raise ValueError(f"{where}: no type")
    if raw.minor is None and not raw.id:
        raise ValueError(f"{where}: neither an id nor a minor")
    topology, labels = raw.topology or _Topology(), raw.labels or {}
    numa = topology.node_id
    return Device(
        kind=require_word(raw.type, f"{where}.type"),
        minor=-1 if raw.minor is None else raw.minor,
        id=require_word(raw.id or "", f"{where}.id"),
        # Koordinator always writes it; a missing boolean is false in the API.
        is_healthy=bool(raw.health),
        numa=None if numa is None or numa < 0 else numa,
        address=require_word(topology.bus_id or "", f"{where}.topology.busID"),
        vendor=require_word(labels.get(VENDOR_LABEL) or "", f"{where}.labels"),
        model=require_word(labels.get(MODEL_LABEL) or "", f"{where}.labels"),
        functions=_functions(raw, f"{where}.vfGroups"),
        amounts={
            require_word(name, f"{where}.resources"): decode_amount(amount, f"{where}.resources")
            for name, amount in (raw.resources or {}).items()
        }
        or NO_AMOUNTS,
    )


def _functions(raw: _Device, where: str) -> tuple[Function, ...]:
    functions = [each for group in raw.vf_groups or () for each in group.vfs or ()]
    if len(functions) > FUNCTIONS_MAX:
        raise ValueError(f"{where}: more than {FUNCTIONS_MAX} functions")
    return tuple(
        Function(
            address=require_word(each.bus_id, f"{where}.busID"),
            minor=-1 if each.minor is None else each.minor,
        )
        for each in functions
        if each.bus_id
    )
