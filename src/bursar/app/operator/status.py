"""The status of AAQ objects: what it should be, and the patches that write it."""

from datetime import datetime

from bursar.app.cluster.ports import Json, Patch, PatchKind
from bursar.core.operator.conditions import Condition, Judgement
from bursar.wire.aaq import AaqObject, AaqStatus, WrittenCondition
from bursar.wire.structs.fields import timestamp


def wanted_status(aaq: AaqObject, judgement: Judgement, version: str, now: datetime) -> AaqStatus:
    """The status for a judgement. A condition that did not change keeps its time."""
    before = {each.type: each for each in aaq.status.conditions}
    return AaqStatus(
        phase=judgement.phase.value,
        operator_version=version,
        target_version=version,
        observed_version=version if judgement.is_complete else aaq.status.observed_version,
        conditions=tuple(
            _written(each, before.get(each.type), now) for each in judgement.conditions
        ),
    )


def _written(
    condition: Condition, before: WrittenCondition | None, now: datetime
) -> WrittenCondition:
    status = "True" if condition.is_true else "False"
    is_same = before is not None and before.status == status and before.since
    return WrittenCondition(
        type=condition.type,
        status=status,
        reason=condition.reason.value,
        message=condition.message,
        since=before.since if before is not None and is_same else timestamp(now),
    )


def status_patch(aaq: AaqObject, status: AaqStatus, now: datetime) -> Patch:
    """Write the status of this object, and not of one of the same name that came after it."""
    conditions: list[Json] = [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": each.since,
            "lastHeartbeatTime": timestamp(now),
        }
        for each in status.conditions
    ]
    written: dict[str, Json] = {
        "phase": status.phase,
        "operatorVersion": status.operator_version,
        "targetVersion": status.target_version,
        "observedVersion": status.observed_version,
        "conditions": conditions,
    }
    body: Json = {"metadata": {"uid": aaq.uid}, "status": written}
    return Patch(kind=PatchKind.MERGE, body=body)
