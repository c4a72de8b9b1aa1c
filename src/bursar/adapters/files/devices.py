"""Pods, inventories and ResourceClaims in files, as kubectl prints them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from bursar.adapters.files.manifests import ManifestError, Origin, read_objects_as_written
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Json
from bursar.app.devices.kinds import DEVICES, RESOURCE_CLAIMS
from bursar.app.devices.reports.report import Evidence
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.rows import ClaimDevice
from bursar.core.devices.source import Source
from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.wire.devices.inventory import decode_device_object
from bursar.wire.devices.pod import DevicePodDecoder
from bursar.wire.devices.resource_claim import decode_resource_claim
from bursar.wire.structs.fields import printable

PROBLEM_LENGTH_MAX: Final = 512
DECODED_KINDS: Final = {(each.api_version, each.kind) for each in (PODS, DEVICES, *RESOURCE_CLAIMS)}


def evidence_in_files(
    paths: Sequence[str],
    stdin: BinaryIO,
    sources: Iterable[Source],
    *,
    is_recursive: bool = False,
    see_pod: Callable[[Mapping[str, Json]], None] = lambda _body: None,
) -> Evidence:
    """Read files, folders, and standard input for `-`. Raises `ManifestError`.

    Objects in Lists are read, too. Objects of other kinds are skipped and reported. `see_pod` is
    called with each pod as it was written.
    """
    found = _Found(DevicePodDecoder(sources))
    for body, origin in read_objects_as_written(paths, stdin, is_recursive=is_recursive):
        for each in _items(body):
            found.add(each, origin)
            if each.get("kind") == PODS.kind:
                see_pod(_with_namespace(each))
    return found.evidence()


@dataclass(slots=True)
class _Found:
    """The objects that were read so far."""

    decoder: DevicePodDecoder
    pods: list[DevicePod] = field(default_factory=list)
    inventories: dict[str, Inventory] = field(default_factory=dict)
    dynamic: list[ClaimDevice] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, body: Mapping[str, Json], origin: Origin) -> None:
        version, kind = str(body.get("apiVersion")), str(body.get("kind"))
        if (version, kind) not in DECODED_KINDS:
            group = version.rpartition("/")[0]
            self.skipped[f"{kind}.{group}" if group else kind] += 1
            return
        try:
            self._decode(kind, json.dumps(_with_namespace(body)).encode())
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
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.skipped.items()))
        skipped = [f"skipped: {counts}"] if counts else []
        return Evidence(
            pods=self.pods,
            inventories=self.inventories,
            dynamic=self.dynamic,
            problems=(*self.problems, *skipped),
        )


def _items(body: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """The object itself, or the items of a typed list such as PodList."""
    version, kind, items = body.get("apiVersion"), str(body.get("kind")), body.get("items")
    item_kind = kind.removesuffix("List")
    if (version, item_kind) not in DECODED_KINDS or kind == item_kind:
        yield body
        return
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield {**item, "apiVersion": version, "kind": item_kind}


def _with_namespace(body: Mapping[str, Json]) -> Mapping[str, Json]:
    metadata = body.get("metadata")
    if body.get("kind") == DEVICES.kind or not isinstance(metadata, dict):
        return body
    return {
        **body,
        "metadata": {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE},
    }
