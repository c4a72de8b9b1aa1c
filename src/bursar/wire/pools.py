"""Decoding of ClusterResources. A spec that cannot be used becomes a pool with a problem.

A pool with a problem gives nothing to any pod. If its object were skipped instead, the pods that it
limits would not be limited.
"""

from bursar.core.model.names import is_extended
from bursar.core.model.quantity import NANOS_PER_UNIT, ZERO, Quantity
from bursar.core.model.selectors.selector import Selector, SelectorError, selector_of
from bursar.core.pools.pool import SHARES_MAX, Pool, Share
from bursar.wire.quota.objects import RawSelector, label_selector
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import FieldError, Scalar, decode_quantity, quoted
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.struct import Struct

RESOURCE_LENGTH_MAX = 253


class RawShare(Struct):
    name: str | None = None
    namespace_selector: RawSelector | None = None
    maximum: Scalar = None
    per_namespace: bool | None = None


class PoolSpec(Struct):
    resource_name: str | None = None
    capacity: Scalar = None
    namespace_selector: RawSelector | None = None
    shares: list[RawShare] | None = None


class ClusterResource(Struct):
    metadata: ObjectMeta | None = None
    spec: PoolSpec | None = None


def decode_pool(body: bytes) -> Pool:
    """Decode a ClusterResource. Raises `FieldError` or another `ValueError`."""
    return to_core(decode_body(body, ClusterResource))


def to_core(raw: ClusterResource) -> Pool:
    meta, spec = raw.metadata or ObjectMeta(), raw.spec or PoolSpec()
    name = required_name(meta)
    resource, capacity, selector, problem = spec.resource_name or "", ZERO, None, ""
    shares: tuple[Share, ...] = ()
    try:
        _require_resource(resource)
        capacity = _whole(spec.capacity, "capacity")
        shares = _shares(spec.shares or [])
        selector = _selector(spec.namespace_selector, "namespaceSelector")
    except FieldError as error:
        problem = str(error)
    return Pool(
        name=name,
        uid=meta.uid or "",
        generation=meta.generation or 0,
        created_at=meta.creation_timestamp or "",
        resource=resource,
        capacity=capacity,
        selector=selector,
        shares=shares,
        problem=problem,
    )


def _require_resource(name: str) -> None:
    if len(name) > RESOURCE_LENGTH_MAX or not is_extended(name):
        raise FieldError(
            "resourceName", f"{quoted(name)} is not an extended resource such as example.com/foo"
        )


def _whole(raw: Scalar, field: str) -> Quantity:
    amount = decode_quantity(raw, field)
    if raw is None or amount < ZERO or amount.nanos % NANOS_PER_UNIT:
        raise FieldError(field, "a whole number of at least 0 is expected")
    return amount


def _shares(raw: list[RawShare]) -> tuple[Share, ...]:
    if len(raw) > SHARES_MAX:
        raise FieldError("shares", f"more than {SHARES_MAX}")
    shares: dict[str, Share] = {}
    for index, each in enumerate(raw):
        field = f"shares[{index}]"
        selector = _selector(each.namespace_selector, f"{field}.namespaceSelector")
        if not each.name or "/" in each.name or each.name in shares:
            raise FieldError(f"{field}.name", "a name of its own is required")
        if selector is None:
            raise FieldError(f"{field}.namespaceSelector", "required, but missing")
        shares[each.name] = Share(
            name=each.name,
            selector=selector,
            maximum=_whole(each.maximum, f"{field}.maximum"),
            is_per_namespace=bool(each.per_namespace),
        )
    return tuple(shares.values())


def _selector(raw: RawSelector | None, field: str) -> Selector | None:
    if raw is None:
        return None
    try:
        return selector_of(label_selector(raw))
    except SelectorError as error:
        raise FieldError(field, str(error)) from None
