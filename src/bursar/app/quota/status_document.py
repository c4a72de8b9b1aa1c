"""The status of a quota as a document: limits, usage, a summary line and conditions.

The wanted and the stored status are built the same way, so that they can be compared whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from bursar.app.cluster.patches import put
from bursar.app.cluster.ports import Json
from bursar.app.quota.kinds import LABEL, LABEL_VALUE, QUOTAS
from bursar.core.model.resources import ResourceList
from bursar.core.quota.quota import Quota, QuotaKind, QuotaObject, Reported, ReportedCondition
from bursar.core.quota.views.statement import Statement
from bursar.wire.structs.fields import printable, timestamp

MESSAGE_MAX: Final = 4000
"""Length of the message of the condition Ready."""
READY: Final = "Ready"
EXCEEDED: Final = "Exceeded"

JsonObject: TypeAlias = Mapping[str, Json]


class QuotaProblems(NamedTuple):
    """What is wrong with a quota, for its condition Ready. An empty text is no problem."""

    uncounted: str = ""
    """The names that no counter charges."""
    left_out: str = ""
    """Why pods under the quota are counted without a sidecar."""
    order_problem: str = ""
    """What is wrong with the order annotation."""
    unreadable: str = ""
    """What of the spec cannot be read."""
    refused: str = ""
    """How the API server refused the managed ResourceQuota."""
    invalid: str = ""
    """What the API server would refuse in a ResourceQuota with the same spec."""
    not_enforced: str = ""
    """The names whose managed ResourceQuota is not in force."""
    not_gated: str = ""
    """Why no pod is held: pods are not gated in the namespaces of the quota."""
    copy_refused: str = ""
    """How the API server refused a copy of a cluster-wide quota."""


class ConditionReason(Enum):
    """The `reason` of a condition."""

    LIMITS_IN_FORCE = "LimitsInForce"
    ORDER_UNKNOWN = "OrderUnknown"
    """The limits are in force, but the order annotation has an unknown value."""
    UNREADABLE = "Unreadable"
    """The spec cannot be read. Pods that the quota may cover wait."""
    WRITE_REFUSED = "WriteRefused"
    """The API server refused the ResourceQuota that enforces some of the limits, or a copy."""
    INVALID = "Invalid"
    """The API server would refuse a ResourceQuota with this spec."""
    NOT_ENFORCED = "NotEnforced"
    """The ResourceQuota that enforces some of the limits is missing, or not in force yet."""
    NOT_GATED = "NotGated"
    """The quota covers only namespaces where pods are not gated."""
    NOT_COUNTED = "NotCounted"
    """No counter charges some of the names, so their limits hold no pod."""
    WITHOUT_SIDECAR = "CountedWithoutSidecar"
    """The limits are in force, but pods are counted without a sidecar that failed."""
    WITHIN_LIMITS = "WithinLimits"
    LIMITS_EXCEEDED = "LimitsExceeded"


# ------------------------------------------------------------------ the wanted status


def wanted_status(
    kind: QuotaKind, statement: Statement, conditions: Sequence[Json]
) -> dict[str, Json]:
    return _status(kind, statement.total, statement.namespaces, statement.summary, conditions)


def wanted_conditions(
    statement: Statement,
    problems: QuotaProblems,
    *,
    generation: int = 0,
    before: Sequence[Json],
    now: datetime,
) -> list[Json]:
    """Our conditions as of now, and the conditions that others wrote.

    A condition whose status has not changed keeps its lastTransitionTime.
    """
    ours = {READY: _ready(problems), EXCEEDED: _exceeded(statement)}
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
                "lastTransitionTime": time or timestamp(now),
                **({"observedGeneration": generation} if generation else {}),
            }
        )
    return written + [each for kind, each in held.items() if kind not in ours]


def _ready(problems: QuotaProblems) -> dict[str, str]:
    lacking = [(reason, text) for reason, text in _not_in_force(problems) if text]
    if lacking:
        status, reason = "False", lacking[0][0]
        messages = [text for _, text in lacking]
    else:
        status, reason, messages = "True", _reason_in_force(problems), ["the limits are in force"]
    messages += filter(None, (problems.left_out, problems.order_problem, problems.copy_refused))
    message = printable("; ".join(messages), MESSAGE_MAX)
    return {"status": status, "reason": reason.value, "message": message}


def _not_in_force(problems: QuotaProblems) -> Iterator[tuple[ConditionReason, str]]:
    """Why limits are not in force, the gravest first. The texts may be empty."""
    unreadable, uncounted = problems.unreadable, problems.uncounted
    if unreadable:
        unreadable = f"the spec cannot be used, so pods that it may cover wait: {unreadable}"
    yield ConditionReason.UNREADABLE, unreadable
    yield ConditionReason.WRITE_REFUSED, problems.refused
    if not problems.refused:
        yield ConditionReason.INVALID, problems.invalid
        yield ConditionReason.NOT_ENFORCED, problems.not_enforced
    yield ConditionReason.NOT_GATED, problems.not_gated
    if uncounted:
        uncounted = f"not in force, because nothing counts them: {uncounted}"
    yield ConditionReason.NOT_COUNTED, uncounted


def _reason_in_force(problems: QuotaProblems) -> ConditionReason:
    if problems.copy_refused:
        return ConditionReason.WRITE_REFUSED
    if problems.left_out:
        return ConditionReason.WITHOUT_SIDECAR
    return (
        ConditionReason.ORDER_UNKNOWN if problems.order_problem else ConditionReason.LIMITS_IN_FORCE
    )


def _exceeded(statement: Statement) -> dict[str, str]:
    if not statement.exceeded:
        reason, message = ConditionReason.WITHIN_LIMITS, "usage is within the limits"
        return {"status": "False", "reason": reason.value, "message": message}
    message = f"usage exceeds the limits: {statement.debts}"
    return {
        "status": "True",
        "reason": ConditionReason.LIMITS_EXCEEDED.value,
        "message": message,
    }


# ------------------------------------------------------------------ the stored status


def shown_status(item: QuotaObject) -> dict[str, Json]:
    """The status that the object holds, as far as it could be decoded."""
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
        "lastTransitionTime": "" if changed_at is None else timestamp(changed_at),
        **({"observedGeneration": generation} if generation else {}),
    }


def conditions_in(status: JsonObject) -> Sequence[Json]:
    """The conditions of a status; an empty list if the field is not a list."""
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


# ------------------------------------------------------------------ objects owned by a quota


def owned_metadata(name: str, quota: Quota) -> dict[str, Json]:
    """Metadata of an object that the controller keeps for a quota and that is deleted with it."""
    return {
        "name": name,
        "labels": {LABEL: LABEL_VALUE},
        "ownerReferences": [_controller_reference(quota)],
    }


def is_owned(labels: Mapping[str, str], owner_uid: str, quota: Quota) -> bool:
    """Whether an object has our label and this quota as its controller."""
    return labels.get(LABEL) == LABEL_VALUE and owner_uid == quota.uid


def ownership_operations(labels: Mapping[str, str], quota: Quota) -> list[Json]:
    """Operations that set label and owner; to be fenced by the resourceVersion of `labels`."""
    return [
        put("/metadata/labels", {**labels, LABEL: LABEL_VALUE}),
        put("/metadata/ownerReferences", [_controller_reference(quota)]),
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
