"""Pods with the fields that matter for devices, from the API server or from kubelet's `/pods`.

These structs have fewer fields than those in `wire/model/pod`, because the agent runs on every
node and reads all pods of its node every second. For a pod of 2 KB this module takes 71 µs and
keeps 655 bytes; `wire/model/pod` takes 297 µs and keeps 4,973 bytes. Pods whose bytes did not
change since the last list are not decoded again.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from bursar.core.devices.claim import NO_AMOUNTS, Claims
from bursar.core.devices.pod import DeviceContainer, DevicePod, StatusDevice
from bursar.core.devices.source import Source
from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.wire.devices.annotation import decode_claims
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import (
    FieldError,
    RawResourceList,
    RawTexts,
    decode_quantity,
    printable,
    quoted,
)
from bursar.wire.structs.struct import Struct

if TYPE_CHECKING:
    from bursar.core.storage.pod import StoragePod

LIST_KIND: Final = "PodList"
ITEMS_MAX: Final = 10_000
"""Maximum pods in one list. Kubelet runs 110 by default, and lists some that have ended."""

STATUS_DEVICES_MAX: Final = 1024
"""Maximum devices in one pod's status."""

DIGEST_BYTES: Final = 16
"""Length of the digest by which unchanged pods are found; their bytes would take more memory."""

PROBLEM_LENGTH_MAX: Final = 512

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class _PodMeta(Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    annotations: RawTexts | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Requirements(Struct):
    requests: RawResourceList | None = None
    limits: RawResourceList | None = None


class _Container(Struct):
    name: str | None = None
    restart_policy: str | None = None
    resources: _Requirements | None = None


class _Spec(Struct):
    node_name: str | None = None
    scheduler_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Health(Struct):
    resource_id: str | None = msgspec.field(name="resourceID", default=None)
    health: str | None = None


class _ResourceStatus(Struct):
    name: str | None = None
    resources: list[_Health] | None = None


class _ContainerStatus(Struct):
    name: str | None = None
    allocated_resources_status: list[_ResourceStatus] | None = None


class _Status(Struct):
    phase: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Pod(Struct):
    metadata: _PodMeta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _List(Struct):
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


class DevicePodDecoder:
    def __init__(
        self,
        sources: Iterable[Source],
        *,
        storage: "Callable[[bytes], StoragePod] | None" = None,
    ) -> None:
        """`storage` decodes the pods' local storage too. It raises `ValueError`."""
        self._sources = tuple(sources)
        self._storage = storage
        self._listed: dict[bytes, DevicePod] = {}
        """The pods of the last list, by digest of their bytes."""

    def decode(self, body: bytes) -> DevicePod:
        """Decode one pod. Raises `ValueError`.

        An annotation that cannot be decoded is a problem in the pod's claims, not an error.
        """
        pod = decode_body(body, _Pod)
        return self._pod(pod, self._storage_of(body))

    def decode_list(self, body: bytes) -> Iterator[DevicePod]:
        """Decode kubelet's list of pods. Raises `ValueError` before the first pod.

        A pod that cannot be decoded is left out, so that the other pods keep their devices. Pods
        are decoded one by one: that takes less memory, and the caller may pause in between.
        """
        raw = decode_body(body, _List)
        if raw.kind != LIST_KIND:
            raise ValueError(f"not a {LIST_KIND}: the kind is {quoted(raw.kind or '')}")
        items = raw.items or []
        if len(items) > ITEMS_MAX:
            raise ValueError(f"a list of more than {ITEMS_MAX} pods")
        known = self._listed
        listed: dict[bytes, DevicePod] = {}
        for item in items:
            digest = blake2b(item, digest_size=DIGEST_BYTES).digest()
            pod = known.get(digest) or self._decoded(item)
            if pod is not None:
                listed[digest] = pod
                yield pod
        self._listed = listed

    def _decoded(self, item: msgspec.Raw) -> DevicePod | None:
        try:
            return self.decode(bytes(item))
        except ValueError:
            return None

    def _storage_of(self, body: bytes) -> "StoragePod | None":
        try:
            return None if self._storage is None else self._storage(body)
        except ValueError:
            # The pod keeps its devices, whatever the rest of its spec is.
            return None

    def _pod(self, raw: _Pod, storage: "StoragePod | None") -> DevicePod:
        meta, spec = raw.metadata or _PodMeta(), raw.spec or _Spec()
        status = raw.status or _Status()
        sidecars, init_containers = _init_containers(spec.init_containers or ())
        return DevicePod(
            namespace=meta.namespace or "",
            name=meta.name or "",
            uid=meta.uid or "",
            node=spec.node_name or "",
            created=meta.creation_timestamp or "",
            scheduler=spec.scheduler_name or "",
            sidecars=sidecars,
            containers=tuple([_container(each) for each in spec.containers or ()]),
            init_containers=init_containers,
            claims=self._claims(meta.annotations) if meta.annotations else (),
            status_devices=_status_devices(status),
            is_terminal=status.phase in _TERMINAL,
            is_terminating=meta.deletion_timestamp is not None,
            storage=storage,
        )

    def _claims(self, annotations: RawTexts) -> tuple[Claims, ...]:
        found = (
            _claims_of(source, annotations[source.annotation] or "")
            for source in self._sources
            if source.annotation in annotations
        )
        return tuple(claims for claims in found if claims is not None)


def _claims_of(source: Source, text: str) -> Claims | None:
    try:
        return decode_claims(text, source)
    except ValueError as error:
        return Claims(source=source.name, problem=printable(str(error), PROBLEM_LENGTH_MAX))


def _init_containers(
    raw: Iterable[_Container],
) -> tuple[tuple[DeviceContainer, ...], tuple[DeviceContainer, ...]]:
    """The sidecars, and the init containers that end."""
    sidecars: list[DeviceContainer] = []
    init_containers: list[DeviceContainer] = []
    for each in raw:
        if each.restart_policy == "Always":
            sidecars.append(_container(each))
        else:
            init_containers.append(_container(each, sidecars_before=len(sidecars)))
    return tuple(sidecars), tuple(init_containers)


def _container(raw: _Container, *, sidecars_before: int = 0) -> DeviceContainer:
    asks = NO_AMOUNTS if raw.resources is None else _asks(raw.resources) or NO_AMOUNTS
    return DeviceContainer(name=raw.name or "", asks=asks, sidecars_before=sidecars_before)


def _asks(raw: _Requirements) -> dict[str, int]:
    asks: dict[str, int] = {}
    for amounts in (raw.requests, raw.limits):
        for name, raw_amount in (amounts or {}).items():
            # Extended resources have a domain in their name.
            if "/" not in name:
                continue
            try:
                amount = decode_quantity(raw_amount, name).whole_units
            except FieldError:
                continue
            asks[name] = max(asks.get(name, 0), min(amount, INT64_MAX))
    return asks


def _status_devices(status: _Status) -> tuple[StatusDevice, ...]:
    found = [
        StatusDevice(
            container=container.name or "",
            resource=resource.name or "",
            device=device.resource_id or "",
            health=device.health or "",
        )
        for container in (
            *(status.init_container_statuses or ()),
            *(status.container_statuses or ()),
        )
        for resource in container.allocated_resources_status or ()
        for device in resource.resources or ()
    ]
    return tuple(found[:STATUS_DEVICES_MAX])
