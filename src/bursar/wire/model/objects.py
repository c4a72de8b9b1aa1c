"""Documents as Kubernetes objects: decoded kinds, skipped kinds, and errors.

In the API groups of pods, workloads and quotas, an unknown kind is an error, because skipping it
could hide a request. Objects of other groups request no resources and are only counted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.quota.quota import QUOTA_KINDS, QuotaObject
from bursar.wire.documents.stream import Document
from bursar.wire.documents.text import Place
from bursar.wire.documents.tree import LISTED, Value, steps_towards
from bursar.wire.model import namespace as wire_namespace
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.admission_policies import POLICY_KINDS, Policy, decode_policy
from bursar.wire.model.amounts import require_amounts_of_node, require_amounts_of_pod
from bursar.wire.model.workloads.autoscaler import AUTOSCALER_KINDS, Autoscaler, decode_autoscaler
from bursar.wire.model.workloads.workload import WORKLOAD_KINDS, WorkloadTemplate, decode_workload
from bursar.wire.quota.objects import quota_in_manifest
from bursar.wire.structs.fields import FieldError, Step, printable
from bursar.wire.structs.shape import described, shaped


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An object of a kind that is not read."""

    kind: str


Decoded: TypeAlias = (
    Pod | Node | WorkloadTemplate | QuotaObject | NamespaceObject | Policy | Autoscaler | Skipped
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An object with its place in the source."""

    decoded: Decoded
    value: dict[str, Value]
    """The object as written. apiVersion and kind are set, even if only its List has them."""
    document: Document
    written: Value
    """The object in its document."""

    @property
    def place(self) -> Place:
        """Where the object begins in its source. Finding it may take a second reading."""
        return self.document.start_of(self.written)


class ObjectError(ValueError):
    """An object that cannot be decoded: its place, name, field and the reason."""

    def __init__(self, place: Place, subject: str, error: FieldError) -> None:
        super().__init__(f"{place}: {subject}: {error}" if subject else f"{place}: {error}")
        self.place = place
        self.subject = subject
        self.field = error.field
        self.problem = error.problem
        self.found = error.found


def read_objects(document: Document) -> Iterator[Entry]:
    """The objects of a document, including the items of Lists. Raises `ObjectError`."""
    return _read(document, document.value, (), _UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Type:
    """The apiVersion and kind of an object."""

    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of a List, and the type of items that have none."""

    values: list[Value]
    implied: _Type


_UNKNOWN: Final = _Type("", "")
_LIST: Final = _Type("v1", "List")

_KINDS: Final = {
    "v1": frozenset(
        {"Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange"}
        | {"Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate"}
        | {"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"}
    ),
    "apps/v1": frozenset(
        {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}
    ),
    "batch/v1": frozenset({"CronJob", "Job"}),
    "aaq.kubevirt.io/v1alpha1": frozenset(
        {"AAQ", "AAQJobQueueConfig", "ApplicationAwareAppliedClusterResourceQuota"}
        | {"ApplicationAwareClusterResourceQuota", "ApplicationAwareResourceQuota"}
    ),
}
"""API versions in which an unknown kind is an error, with their kinds."""

_SERVED: Final = {
    "": "v1",
    "apps": "apps/v1",
    "batch": "batch/v1",
    "extensions": "apps/v1",
    "aaq.kubevirt.io": "aaq.kubevirt.io/v1alpha1",
}
"""The served version of each API group that has, or had, workloads or quotas."""

_QUOTA_KINDS: Final = {kind.value: kind for kind in QUOTA_KINDS}

_VERSION_SHAPE: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[a-z][-a-z0-9]*")
_KIND_SHAPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_SHAPE_LENGTH_MAX: Final = 253


def _read(
    document: Document, value: Value, steps: tuple[Step, ...], implied: _Type
) -> Iterator[Entry]:
    try:
        decoded = _decode(value, implied)
    except FieldError as error:
        place = document.place_of((*steps, *steps_towards(value, error.field)))
        raise ObjectError(place, _subject(value, implied), error) from None
    if isinstance(decoded, _Items):
        for index, item in enumerate(decoded.values):
            yield from _read(document, item, (*steps, LISTED, index), decoded.implied)
    else:
        yield Entry(
            decoded=decoded,
            value=_told(value, implied),
            document=document,
            written=value,
        )


def _told(value: Value, implied: _Type) -> dict[str, Value]:
    assert isinstance(value, dict), "decoded, so it is an object"
    if value.get("apiVersion") and value.get("kind"):
        return value
    type_ = _type_of(value, implied)
    return {**value, "apiVersion": type_.version, "kind": type_.kind}


def _decode(value: Value, implied: _Type) -> Decoded | _Items:
    if not isinstance(value, dict):
        raise FieldError("", f"a Kubernetes object is expected, found {described(value)}")
    type_ = _type_of(value, implied)
    if type_ == _LIST:
        return _Items(_items(value), _UNKNOWN)
    group = type_.version.rpartition("/")[0]
    if (type_.version, type_.kind) in POLICY_KINDS:
        return decode_policy(type_.kind, value)
    if (type_.version, type_.kind) in AUTOSCALER_KINDS:
        return decode_autoscaler(value)
    if group not in _SERVED:
        return Skipped(kind=f"{type_.kind}.{group}")
    item = type_.kind.removesuffix("List")
    if item not in _kinds(type_.version, group):
        raise FieldError("kind", f"there is no such kind in {type_.version}", type_.kind)
    if item != type_.kind:
        return _Items(_items(value), _Type(type_.version, item))
    return _decode_object(type_.kind, value)


def _decode_object(kind: str, value: dict[str, Value]) -> Decoded:
    if kind == "Pod":
        pod = wire_pod.to_core(shaped(value, wire_pod.Pod))
        _require_name(pod.name)
        require_amounts_of_pod(pod)
        return pod
    if kind == "Node":
        node = wire_node.to_core(shaped(value, wire_node.Node))
        _require_name(node.name)
        require_amounts_of_node(node)
        return node
    if kind in WORKLOAD_KINDS:
        template = decode_workload(kind, value)
        _require_name(template.owner_name)
        return template
    if kind in _QUOTA_KINDS:
        return quota_in_manifest(_QUOTA_KINDS[kind], value)
    if kind == "Namespace":
        return wire_namespace.to_core(shaped(value, wire_namespace.Namespace))
    return Skipped(kind=kind)


def _require_name(name: str) -> None:
    if not name:
        raise FieldError("metadata.name", "required, but missing")


def _kinds(version: str, group: str) -> frozenset[str]:
    if version not in _KINDS:
        problem = f"not a version that Kubernetes serves; use {_SERVED[group]}"
        raise FieldError("apiVersion", problem, version)
    return _KINDS[version]


def _type_of(value: dict[str, Value], implied: _Type) -> _Type:
    return _Type(
        _word(value, "apiVersion", implied.version, _VERSION_SHAPE),
        _word(value, "kind", implied.kind, _KIND_SHAPE),
    )


def _word(value: dict[str, Value], field: str, implied: str, shape: re.Pattern[str]) -> str:
    word = value.get(field)
    if word is None or word == "":
        if not implied:
            raise FieldError(field, "required, but missing")
        return implied
    if not isinstance(word, str):
        raise FieldError(field, f"a string is expected, found {described(word)}")
    if not _is_shaped(word, shape):
        raise FieldError(field, "not a name that Kubernetes could have given", word)
    return word


@lru_cache(maxsize=256)
def _is_shaped(word: str, shape: re.Pattern[str]) -> bool:
    return len(word) <= _SHAPE_LENGTH_MAX and shape.fullmatch(word) is not None


def _items(value: dict[str, Value]) -> list[Value]:
    items = value.get(LISTED)
    if items is None:
        return []
    if not isinstance(items, list):
        raise FieldError(LISTED, f"a list is expected, found {described(items)}")
    return items


def _subject(value: Value, implied: _Type) -> str:
    """The kind and name of an object, such as `Pod default/web`, as far as they are valid."""
    if not isinstance(value, dict):
        return ""
    kind = value.get("kind") or implied.kind
    if not isinstance(kind, str) or not kind:
        return ""
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    namespace = meta.get("namespace") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        return printable(kind)
    if isinstance(namespace, str) and namespace:
        return f"{printable(kind)} {printable(namespace)}/{printable(name)}"
    return f"{printable(kind)} {printable(name)}"
