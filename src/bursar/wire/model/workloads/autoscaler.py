"""Decoding of HorizontalPodAutoscalers: what they scale, and between which numbers."""

from dataclasses import dataclass
from typing import Final

from bursar.wire.documents.tree import Value
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.shape import shaped
from bursar.wire.structs.struct import Struct

AUTOSCALER_KINDS: Final = frozenset(
    {
        ("autoscaling/v1", "HorizontalPodAutoscaler"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """A HorizontalPodAutoscaler, as far as it says how many pods a workload may have."""

    namespace: str
    name: str
    target_kind: str
    target_name: str
    minimum: int
    maximum: int


class Target(Struct):
    kind: str | None = None
    name: str | None = None


class AutoscalerSpec(Struct):
    scale_target_ref: Target | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None


class RawAutoscaler(Struct):
    metadata: ObjectMeta | None = None
    spec: AutoscalerSpec | None = None


def decode_autoscaler(value: Value) -> Autoscaler:
    """Decode an object of a kind in `AUTOSCALER_KINDS`. Raises `FieldError`."""
    raw = shaped(value, RawAutoscaler)
    meta = raw.metadata or ObjectMeta()
    spec = raw.spec or AutoscalerSpec()
    target = spec.scale_target_ref or Target()
    minimum = 1 if spec.min_replicas is None else spec.min_replicas
    return Autoscaler(
        namespace=meta.namespace or "",
        name=meta.name or "",
        target_kind=target.kind or "",
        target_name=target.name or "",
        minimum=minimum,
        maximum=minimum if spec.max_replicas is None else spec.max_replicas,
    )
