"""What files say about devices: pods, inventories and claims as kubectl prints them."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from bursar.adapters.device_evidence import RESOURCE_CLAIMS
from bursar.adapters.device_sources import DEVICES
from bursar.adapters.files.manifests import ManifestError, Origin, read_objects_as_written
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Json
from bursar.app.devices.report import Evidence
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.register import DynamicDevice
from bursar.core.devices.source import Source
from bursar.wire.device_claims import decode_resource_claim
from bursar.wire.device_inventory import decode_device_object
from bursar.wire.device_pod import DevicePodDecoder
from bursar.wire.structs.fields import printable

__all__ = ["ManifestError", "evidence_in_files"]

DEFAULT_NAMESPACE: Final = "default"
"""Where kubectl would create an object whose manifest names no namespace."""
PROBLEM_LENGTH_MAX: Final = 512
READ: Final = {(each.api_version, each.kind) for each in (PODS, DEVICES, *RESOURCE_CLAIMS)}


def evidence_in_files(paths: Sequence[str], stdin: BinaryIO, sources: Iterable[Source]) -> Evidence:
    """Read files, folders, and standard input for `-`. Raises `ManifestError`.

    Lists are opened; objects of other kinds are passed over, and told.
    """
    shelf = _Shelf(DevicePodDecoder(sources))
    for body, origin in read_objects_as_written(paths, stdin):
        for each in _opened(body):
            shelf.put(each, origin)
    return shelf.evidence()


@dataclass(slots=True)
class _Shelf:
    """What was read so far."""

    decoder: DevicePodDecoder
    pods: list[DevicePod] = field(default_factory=list)
    inventories: dict[str, Inventory] = field(default_factory=dict)
    dynamic: list[DynamicDevice] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)

    def put(self, body: Mapping[str, Json], origin: Origin) -> None:
        version, kind = str(body.get("apiVersion")), str(body.get("kind"))
        if (version, kind) not in READ:
            group = version.rpartition("/")[0]
            self.passed_over[f"{kind}.{group}" if group else kind] += 1
            return
        try:
            self._decode(kind, json.dumps(_placed(body)).encode())
        except ValueError as error:
            reason = printable(str(error), PROBLEM_LENGTH_MAX)
            raise ManifestError(f"{origin}: {kind}: {reason}") from None

    def _decode(self, kind: str, body: bytes) -> None:
        if kind == PODS.kind:
            self.pods.append(self.decoder.decode(body))
        elif kind == DEVICES.kind:
            read = decode_device_object(body)
            self.inventories[read.node] = read.inventory
            self.problems.extend(f"{DEVICES} {read.node}: {line}" for line in read.problems)
        else:
            self.dynamic.extend(decode_resource_claim(body))

    def evidence(self) -> Evidence:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.passed_over.items()))
        passed_over = [f"passed over: {counts}"] if counts else []
        return Evidence(
            pods=self.pods,
            inventories=self.inventories,
            dynamic=self.dynamic,
            problems=(*self.problems, *passed_over),
        )


def _opened(body: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """The object; or the objects of a List of kinds that others do not know to open."""
    version, kind, items = body.get("apiVersion"), str(body.get("kind")), body.get("items")
    item_kind = kind.removesuffix("List")
    if (version, item_kind) not in READ or kind == item_kind:
        yield body
        return
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield {**item, "apiVersion": version, "kind": item_kind}


def _placed(body: Mapping[str, Json]) -> Mapping[str, Json]:
    metadata = body.get("metadata")
    if body.get("kind") == DEVICES.kind or not isinstance(metadata, dict):
        return body
    return {
        **body,
        "metadata": {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE},
    }
