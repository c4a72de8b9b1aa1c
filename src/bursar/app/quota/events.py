"""Events on pods that wait, and on quotas that look enforced and are not.

One event per object, counted while the reason stays the same.
"""

from typing import Final

from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.quota.kinds import QUOTAS
from bursar.core.quota.quota import Quota
from bursar.core.quota.refusal import Reason, explanation
from bursar.core.quota.releases import Wait

ACTION: Final = "HoldBack"
QUOTA_ACTION: Final = "Enforce"


def record_wait(recorder: EventRecorder[Reason], wait: Wait, cost: str = "") -> None:
    """Record an event with all reasons in its note; the first one is the event's reason.

    `cost` says which counters charge the pod and why, if it is not counted natively.
    """
    row = wait.row
    recorder.record(
        ObjectReference(
            api_version="v1",
            kind="Pod",
            namespace=row.namespace,
            name=row.name,
            uid=row.stamp.uid,
        ),
        wait.refusals[0].reason,
        explanation(wait.refusals) + (f"; counted as {cost}" if cost else ""),
        action=ACTION,
        type=EventType.WARNING,
    )


def record_uncounted(recorder: EventRecorder[Reason], quota: Quota, message: str) -> None:
    """Record on a quota that no counter charges some of its names."""
    resource = QUOTAS[quota.key.kind]
    recorder.record(
        ObjectReference(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=quota.key.namespace,
            name=quota.key.name,
            uid=quota.uid,
        ),
        Reason.NOT_COUNTED,
        message,
        action=QUOTA_ACTION,
        type=EventType.WARNING,
    )
