"""Events on the AAQ object, with AAQ's reasons where it has them."""

from enum import Enum
from typing import Final

from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.operator.applied import Write
from bursar.app.operator.kinds import Target
from bursar.app.quota.kinds import AAQS
from bursar.wire.aaq import AaqObject

ACTION: Final = "Install"


class OperatorReason(Enum):
    """The reason of an event on an AAQ object."""

    DEPLOY_STARTED = "DeployStarted"
    DEPLOY_COMPLETED = "DeployCompleted"
    UPGRADE_STARTED = "UpgradeStarted"
    CONFIG_ERROR = "ConfigError"
    VERSION_REFUSED = "VersionRefused"
    DEGRADED = "Degraded"
    DELETE_STARTED = "DeleteStarted"
    DELETE_BLOCKED = "DeleteBlocked"
    CREATED = "CreateResourceSuccess"
    UPDATED = "UpdateResourceSuccess"
    DELETED = "DeleteResourceSuccess"
    FAILED = "UpdateResourceFailed"


_WRITES: Final = {
    Write.CREATED: (OperatorReason.CREATED, "Successfully created resource"),
    Write.REPAIRED: (OperatorReason.UPDATED, "Successfully updated resource"),
    Write.DELETED: (OperatorReason.DELETED, "Successfully deleted resource"),
    Write.FAILED: (OperatorReason.FAILED, "Failed to write resource"),
}


def reference(aaq: AaqObject) -> ObjectReference:
    return ObjectReference(api_version=AAQS.api_version, kind=AAQS.kind, name=aaq.name, uid=aaq.uid)


def record_write(
    recorder: EventRecorder[OperatorReason], aaq: AaqObject, write: str, target: Target, words: str
) -> None:
    """Record what was done to an object of the installation."""
    reason, text = _WRITES[write]
    note = f"{text} {target.resource.kind} {target.key.name}"
    recorder.record(
        reference(aaq),
        reason,
        f"{note}: {words}" if words else note,
        action=ACTION,
        type=EventType.WARNING if words else EventType.NORMAL,
    )
