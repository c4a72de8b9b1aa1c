"""The status of a quota as a document: limits, use, a line for people, and conditions.

What is wanted and what is shown are written down the same way, so that they can be
compared whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeAlias

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Json
from bursar.app.quota.kinds import GROUP, QUOTAS
from bursar.core.model.resources import ResourceList
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.reported import QuotaObject, Reported, ReportedCondition
from bursar.core.quota.statement import Statement

LABEL: Final = GROUP
LABEL_VALUE: Final = "true"
"""The label, and its value, on every object that is kept on behalf of a quota."""

READY: Final = "Ready"
EXCEEDED: Final = "Exceeded"

JsonObject: TypeAlias = Mapping[str, Json]


class ConditionReason(Enum):
    """Why a condition is what it is."""

    LIMITS_IN_FORCE = "LimitsInForce"
    ORDER_UNKNOWN = "OrderUnknown"
    """The limits are in force, but the order that was asked for is none that we know."""
    WITHIN_LIMITS = "WithinLimits"
    LIMITS_EXCEEDED = "LimitsExceeded"


# ------------------------------------------------------------------ what is wanted


def wanted_status(
    kind: QuotaKind, statement: Statement, conditions: Sequence[Json]
) -> dict[str, Json]:
    return _status(kind, statement.total, statement.namespaces, statement.summary, conditions)


def wanted_conditions(
    statement: Statement,
    *,
    order_problem: str = "",
    generation: int = 0,
    before: Sequence[Json],
    now: datetime,
) -> list[Json]:
    """What is true now. Conditions of others stay; what has not changed keeps its time."""
    ours = {READY: _ready(order_problem), EXCEEDED: _exceeded(statement)}
    held = {str(each["type"]): each for each in before if isinstance(each, Mapping)}
    written: list[Json] = []
    for kind, condition in ours.items():
        known = held.get(kind, {})
        is_same = known.get("status") == condition["status"]
        time = known.get("lastTransitionTime") if is_same else None
        written.append(
            {
                "type": kind,
                **condition,
                "lastTransitionTime": time or format_time(now),
                **({"observedGeneration": generation} if generation else {}),
            }
        )
    return written + [each for kind, each in held.items() if kind not in ours]


def _ready(order_problem: str) -> dict[str, str]:
    reason, message = ConditionReason.LIMITS_IN_FORCE, "the limits are in force"
    if order_problem:
        reason, message = ConditionReason.ORDER_UNKNOWN, f"{message}; {order_problem}"
    return {"status": "True", "reason": reason.value, "message": message}


def _exceeded(statement: Statement) -> dict[str, str]:
    if not statement.exceeded:
        reason, message = ConditionReason.WITHIN_LIMITS, "no more is in use than is allowed"
        return {"status": "False", "reason": reason.value, "message": message}
    message = f"more is in use than is allowed: {statement.debts}"
    return {
        "status": "True",
        "reason": ConditionReason.LIMITS_EXCEEDED.value,
        "message": message,
    }


# ------------------------------------------------------------------ what is shown


def shown_status(item: QuotaObject) -> dict[str, Json]:
    """What the object says, as far as it could be read."""
    return _status(
        item.quota.key.kind,
        Reported(hard=item.reported_hard, used=item.reported_used),
        item.reported_namespaces,
        item.reported_summary,
        [_shown_condition(each) for each in item.reported_conditions],
    )


def _shown_condition(condition: ReportedCondition) -> Json:
    generation, changed_at = condition.observed_generation, condition.changed_at
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": "" if changed_at is None else format_time(changed_at),
        **({"observedGeneration": generation} if generation else {}),
    }


def conditions_in(status: JsonObject) -> Sequence[Json]:
    """The conditions of a status in a document; a list, whatever else has been written there."""
    found = status.get("conditions")
    return list(_readable(found)) if isinstance(found, Sequence) else []


def _readable(conditions: Sequence[Json]) -> Iterator[Json]:
    for each in conditions:
        if isinstance(each, Mapping) and isinstance(each.get("type"), str):
            yield each


# ------------------------------------------------------------------ both


def _status(
    kind: QuotaKind,
    total: Reported,
    namespaces: Mapping[str, Reported],
    summary: str,
    conditions: Sequence[Json],
) -> dict[str, Json]:
    if kind is not QuotaKind.CLUSTER:
        return {**_amounts(total), "summary": summary, "conditions": conditions}
    parts: list[Json] = [
        {"namespace": name, "status": _amounts(part)} for name, part in namespaces.items()
    ]
    return {
        "total": _amounts(total),
        "namespaces": parts,
        "summary": summary,
        "conditions": conditions,
    }


def _amounts(reported: Reported) -> dict[str, Json]:
    return {"hard": texts(reported.hard), "used": texts(reported.used)}


def texts(amounts: ResourceList) -> dict[str, Json]:
    return {name: str(amount) for name, amount in amounts.items()}


def format_time(moment: datetime) -> str:
    """As conditions have it: UTC, whole seconds.

    >>> format_time(datetime(2026, 11, 15, 9, 30, tzinfo=UTC))
    '2026-11-15T09:30:00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ------------------------------------------------------------------ objects on behalf of a quota


def kept_metadata(name: str, quota: Quota) -> dict[str, Json]:
    """Of an object that is kept on behalf of a quota, and goes when the quota goes."""
    return {
        "name": name,
        "labels": {LABEL: LABEL_VALUE},
        "ownerReferences": [_controller_reference(quota)],
    }


def is_kept(labels: Mapping[str, str], owner_uid: str, quota: Quota) -> bool:
    """Whether the metadata of an object say that it is kept on behalf of this quota."""
    return labels.get(LABEL) == LABEL_VALUE and owner_uid == quota.uid


def fenced(identity: Identity, operations: Sequence[Json]) -> list[Json]:
    """A JSON patch that is about this very object and no later one of the same name."""
    return [{"op": "test", "path": "/metadata/uid", "value": identity.uid}, *operations]


def keeping(identity: Identity, labels: Mapping[str, str], quota: Quota) -> list[Json]:
    """Operations that put the metadata right, unless somebody else has changed them."""
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": identity.resource_version},
        {"op": "add", "path": "/metadata/labels", "value": {**labels, LABEL: LABEL_VALUE}},
        {
            "op": "add",
            "path": "/metadata/ownerReferences",
            "value": [_controller_reference(quota)],
        },
    ]


def _controller_reference(quota: Quota) -> Json:
    resource = QUOTAS[quota.key.kind]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": quota.key.name,
        "uid": quota.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
