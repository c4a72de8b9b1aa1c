"""Decoding of quotas: ResourceQuota, ClusterResourceQuota and the two kinds of AAQ.

An error in the spec makes the quota unreadable, because a quota with a part of its limits would let
pods through. An error in the status does not: a controller writes it again, so an unreadable
status counts as empty.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import msgspec

from bursar.core.model.selectors.selector import (
    LabelExpression,
    LabelSelector,
    Selector,
    SelectorError,
    selector_of,
)
from bursar.core.quota.quota import (
    NO_NAMESPACES,
    ORDER_ANNOTATION,
    AppliedQuota,
    NamespaceSelector,
    Order,
    Quota,
    QuotaKey,
    QuotaKind,
    QuotaObject,
    Reported,
    ReportedCondition,
)
from bursar.core.quota.scopes import EXISTS, ScopeRule
from bursar.core.sharing import no_labels
from bursar.wire.documents.tree import Value
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import (
    FieldError,
    RawResourceList,
    RawTexts,
    decode_resources,
    decode_texts,
    decode_time,
    quoted,
)
from bursar.wire.structs.metadata import (
    Condition,
    MatchExpression,
    ObjectMeta,
    controller_of,
    required_name,
)
from bursar.wire.structs.shape import shaped
from bursar.wire.structs.struct import Struct

# ------------------------------------------------------------------ how it is written


class ScopeExpression(Struct):
    scope_name: str | None = None
    operator: str | None = None
    values: list[str | None] | None = None


class ScopeSelector(Struct):
    match_expressions: list[ScopeExpression] | None = None


class QuotaSpec(Struct):
    hard: RawResourceList | None = None
    scopes: list[str | None] | None = None
    scope_selector: ScopeSelector | None = None


class RawSelector(Struct):
    match_labels: RawTexts | None = None
    match_expressions: list[MatchExpression] | None = None


class NamespacesSelector(Struct):
    labels: RawSelector | None = None
    annotations: RawTexts | None = None


class ClusterQuotaSpec(Struct):
    quota: QuotaSpec | None = None
    selector: NamespacesSelector | None = None


class Totals(Struct):
    hard: RawResourceList | None = None
    used: RawResourceList | None = None


class QuotaStatus(Totals):
    summary: str | None = None
    conditions: list[Condition] | None = None


class NamespaceTotals(Struct):
    namespace: str | None = None
    status: Totals | None = None


class ClusterQuotaStatus(Struct):
    total: Totals | None = None
    namespaces: list[NamespaceTotals] | None = None
    summary: str | None = None
    conditions: list[Condition] | None = None


class NamespacedQuota(Struct):
    """ResourceQuota and ApplicationAwareResourceQuota, which have the same fields."""

    metadata: ObjectMeta | None = None
    spec: QuotaSpec | None = None
    status: QuotaStatus | None = None


class ClusterQuota(Struct):
    """ClusterResourceQuota and ApplicationAwareClusterResourceQuota, which have the same fields."""

    metadata: ObjectMeta | None = None
    spec: ClusterQuotaSpec | None = None
    status: ClusterQuotaStatus | None = None


# ------------------------------------------------------------------ reading


class _Whole(Struct):
    spec: object = None


class _Applied(Struct):
    metadata: ObjectMeta
    spec: object = None
    status: dict[str, object] | None = None


_APPLIED: Final = msgspec.json.Decoder(_Applied)


def decode_quota(kind: QuotaKind, body: bytes) -> QuotaObject:
    """Decode a quota from an API server. Raises `FieldError` or another `ValueError`.

    A negative limit is accepted: the schema of AAQ's kinds allows it, and a quota that admits
    nothing is safer than one that is ignored.
    """
    if kind.is_cluster_wide:
        read = _from_cluster_quota(kind, decode_body(body, ClusterQuota))
        return replace(read, spec=decode_body(body, _Whole).spec)
    return _from_namespaced_quota(kind, decode_body(body, NamespacedQuota))


def decode_applied_quota(body: bytes) -> AppliedQuota:
    """Read the copy of a cluster-wide quota. Raises `ValueError`."""
    raw = _APPLIED.decode(body)
    meta = raw.metadata
    return AppliedQuota(
        labels=decode_texts(meta.labels),
        owner_uid=_owner_uid(meta),
        is_deleting=bool(meta.deletion_timestamp),
        spec=raw.spec,
        status=raw.status or {},
    )


def quota_in_manifest(kind: QuotaKind, value: Value) -> QuotaObject:
    """Decode a quota from a manifest. Raises `FieldError`, also for negative limits."""
    if kind.is_cluster_wide:
        read, parent = _from_cluster_quota(kind, shaped(value, ClusterQuota)), "spec.quota"
    else:
        read, parent = _from_namespaced_quota(kind, shaped(value, NamespacedQuota)), "spec"
    for name, amount in read.quota.hard.items():
        if amount.is_negative:
            problem = f"Invalid value: {quoted(str(amount))}: must be greater than or equal to 0"
            raise FieldError(f"{parent}.hard[{name}]", problem)
    return read


def _from_namespaced_quota(kind: QuotaKind, raw: NamespacedQuota) -> QuotaObject:
    meta, spec = raw.metadata or ObjectMeta(), raw.spec or QuotaSpec()
    order, order_problem = _order(meta)
    quota = Quota(
        key=QuotaKey(kind, meta.namespace or "", required_name(meta)),
        uid=meta.uid or "",
        hard=decode_resources(spec.hard, "spec.hard"),
        scopes=scopes_of(spec),
        order=order,
    )
    return assembled(quota, meta, report_of(raw), order_problem=order_problem)


def _from_cluster_quota(kind: QuotaKind, raw: ClusterQuota) -> QuotaObject:
    meta, spec = raw.metadata or ObjectMeta(), raw.spec or ClusterQuotaSpec()
    if spec.quota is None:
        raise FieldError("spec.quota", "required, but missing")
    if spec.selector is None:
        # An empty selector, in contrast, selects every namespace.
        raise FieldError("spec.selector", "required, but missing")
    order, order_problem = _order(meta)
    quota = Quota(
        key=QuotaKey(kind, "", required_name(meta)),
        uid=meta.uid or "",
        hard=decode_resources(spec.quota.hard, "spec.quota.hard"),
        scopes=scopes_of(spec.quota),
        selector=NamespaceSelector(
            labels=None if spec.selector.labels is None else _selector(spec.selector.labels),
            annotations=decode_texts(spec.selector.annotations),
        ),
        order=order,
    )
    return assembled(quota, meta, report_of(raw), order_problem=order_problem)


def _order(meta: ObjectMeta) -> tuple[Order, str]:
    text = (meta.annotations or {}).get(ORDER_ANNOTATION)
    if not text:
        return Order.BACKFILL, ""
    try:
        return Order(text), ""
    except ValueError:
        known = ", ".join(order.value for order in Order)
        field = f"metadata.annotations[{ORDER_ANNOTATION}]"
        return Order.BACKFILL, f"{field}: {quoted(text)} is none of {known}"


def scopes_of(spec: QuotaSpec) -> tuple[ScopeRule, ...]:
    return (
        *(ScopeRule(scope or "", EXISTS, is_listed=True) for scope in spec.scopes or ()),
        *_scope_rules(spec),
    )


def _scope_rules(spec: QuotaSpec) -> Iterator[ScopeRule]:
    for raw in (spec.scope_selector and spec.scope_selector.match_expressions) or ():
        yield ScopeRule(raw.scope_name or "", raw.operator or "", _texts(raw.values))


def label_selector(raw: RawSelector) -> LabelSelector:
    """The selector as it is written. It may be invalid."""
    return LabelSelector(
        match_labels=decode_texts(raw.match_labels),
        match_expressions=tuple(
            LabelExpression(
                key=each.key or "", operator=each.operator or "", values=_texts(each.values)
            )
            for each in raw.match_expressions or ()
        ),
    )


def _selector(raw: RawSelector) -> Selector:
    try:
        return selector_of(label_selector(raw))
    except SelectorError as error:
        raise FieldError("spec.selector.labels", str(error)) from None


def _texts(raw: list[str | None] | None) -> tuple[str, ...]:
    return tuple(text or "" for text in raw or ())


# ------------------------------------------------------------------ the status


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A decoded status."""

    total: Reported = field(default_factory=Reported)
    namespaces: Mapping[str, Reported] = field(default_factory=lambda: NO_NAMESPACES)
    summary: str = ""
    conditions: tuple[ReportedCondition, ...] = ()
    problem: str = ""


def report_of(raw: NamespacedQuota | ClusterQuota) -> Report:
    """What the status says. If it cannot be read, the report has only the problem."""
    try:
        if isinstance(raw, ClusterQuota):
            return _cluster_report(raw.status or ClusterQuotaStatus())
        status = raw.status or QuotaStatus()
        return _report(status, status.conditions, status.summary)
    except FieldError as error:
        return Report(problem=str(error))


def _report(
    total: Totals, conditions: list[Condition] | None, summary: str | None, path: str = "status"
) -> Report:
    return Report(
        total=_totals(total, path),
        summary=summary or "",
        conditions=tuple(
            _condition(each, f"status.conditions[{index}]")
            for index, each in enumerate(conditions or ())
        ),
    )


def _cluster_report(status: ClusterQuotaStatus) -> Report:
    total = _report(
        status.total or Totals(), status.conditions, status.summary, path="status.total"
    )
    namespaces = {
        each.namespace or "": _totals(each.status or Totals(), f"status.namespaces[{index}].status")
        for index, each in enumerate(status.namespaces or ())
    }
    return replace(total, namespaces=namespaces)


def _totals(raw: Totals, path: str) -> Reported:
    return Reported(
        hard=decode_resources(raw.hard, f"{path}.hard"),
        used=decode_resources(raw.used, f"{path}.used"),
    )


def _condition(raw: Condition, path: str) -> ReportedCondition:
    return ReportedCondition(
        type=raw.type or "",
        status=raw.status or "",
        reason=raw.reason or "",
        message=raw.message or "",
        changed_at=decode_time(raw.last_transition_time, f"{path}.lastTransitionTime"),
        observed_generation=raw.observed_generation or 0,
    )


def assembled(
    quota: Quota,
    meta: ObjectMeta,
    report: Report,
    *,
    order_problem: str = "",
    spec: object = None,
) -> QuotaObject:
    return QuotaObject(
        quota=quota,
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        created_at=_created_at(meta),
        is_deleting=bool(meta.deletion_timestamp),
        owner_uid=_owner_uid(meta),
        # Only those of managed quotas are looked at.
        labels=no_labels() if quota.key.kind.holds_pods else decode_texts(meta.labels),
        spec=spec,
        order_problem=order_problem,
        reported_hard=report.total.hard,
        reported_used=report.total.used,
        reported_namespaces=report.namespaces,
        reported_summary=report.summary,
        reported_conditions=report.conditions,
        status_problem=report.problem,
    )


def _owner_uid(meta: ObjectMeta) -> str:
    owner = controller_of(meta)
    return (owner and owner.uid) or ""


def _created_at(meta: ObjectMeta) -> datetime | None:
    """The creation time. An invalid one is ignored, because it is only displayed."""
    try:
        return decode_time(meta.creation_timestamp, "metadata.creationTimestamp")
    except FieldError:
        return None
