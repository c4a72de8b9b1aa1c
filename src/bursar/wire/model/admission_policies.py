"""Decoding of the objects that admission reads: LimitRange, RuntimeClass, PriorityClass."""

from typing import Final, TypeAlias

from bursar.core.model.admission.classes import PriorityClass, RuntimeClass
from bursar.core.model.admission.limit_range import LimitRange, LimitRangeItem
from bursar.core.model.pod import Toleration
from bursar.wire.documents.tree import Value
from bursar.wire.model import pod as wire_pod
from bursar.wire.structs.fields import RawResourceList, RawTexts, decode_resources, decode_texts
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.shape import shaped
from bursar.wire.structs.struct import Struct

Policy: TypeAlias = LimitRange | RuntimeClass | PriorityClass

POLICY_KINDS: Final = {
    ("v1", "LimitRange"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
}


class RawItem(Struct):
    type: str | None = None
    min: RawResourceList | None = None
    max: RawResourceList | None = None
    default: RawResourceList | None = None
    default_request: RawResourceList | None = None
    max_limit_request_ratio: RawResourceList | None = None


class LimitRangeSpec(Struct):
    limits: list[RawItem] | None = None


class RawLimitRange(Struct):
    metadata: ObjectMeta | None = None
    spec: LimitRangeSpec | None = None


class Overhead(Struct):
    pod_fixed: RawResourceList | None = None


class Scheduling(Struct):
    node_selector: RawTexts | None = None
    tolerations: list[wire_pod.Toleration] | None = None


class RawRuntimeClass(Struct):
    metadata: ObjectMeta | None = None
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


class RawPriorityClass(Struct):
    metadata: ObjectMeta | None = None
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


def decode_policy(kind: str, value: Value) -> Policy:
    """Decode an object of a kind in `POLICY_KINDS`. Raises `FieldError`."""
    if kind == "LimitRange":
        return _limit_range(shaped(value, RawLimitRange))
    if kind == "RuntimeClass":
        return _runtime_class(shaped(value, RawRuntimeClass))
    raw = shaped(value, RawPriorityClass)
    return PriorityClass(
        name=required_name(raw.metadata or ObjectMeta()),
        value=raw.value or 0,
        is_default=bool(raw.global_default),
        preemption_policy=raw.preemption_policy or "PreemptLowerPriority",
    )


def _limit_range(raw: RawLimitRange) -> LimitRange:
    meta, spec = raw.metadata or ObjectMeta(), raw.spec or LimitRangeSpec()
    return LimitRange(
        namespace=meta.namespace or "",
        name=required_name(meta),
        items=tuple(
            _item(item, f"spec.limits[{index}]") for index, item in enumerate(spec.limits or ())
        ),
    )


def _item(raw: RawItem, field: str) -> LimitRangeItem:
    return LimitRangeItem(
        type=raw.type or "",
        min=decode_resources(raw.min, f"{field}.min"),
        max=decode_resources(raw.max, f"{field}.max"),
        default=decode_resources(raw.default, f"{field}.default"),
        default_request=decode_resources(raw.default_request, f"{field}.defaultRequest"),
        max_ratio=decode_resources(raw.max_limit_request_ratio, f"{field}.maxLimitRequestRatio"),
    )


def _runtime_class(raw: RawRuntimeClass) -> RuntimeClass:
    scheduling = raw.scheduling or Scheduling()
    return RuntimeClass(
        name=required_name(raw.metadata or ObjectMeta()),
        overhead=None
        if raw.overhead is None
        else decode_resources(raw.overhead.pod_fixed, "overhead.podFixed"),
        node_selector=decode_texts(scheduling.node_selector),
        tolerations=tuple(
            Toleration(
                key=each.key or "",
                operator=each.operator or "",
                value=each.value or "",
                effect=each.effect or "",
            )
            for each in scheduling.tolerations or ()
        ),
    )
