"""Events on pods that wait: one event per pod, counted while the reason stays the same."""

from typing import Final

from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.core.quota.refusal import Reason, explanation
from bursar.core.quota.releases import Wait

ACTION: Final = "HoldBack"


def record_wait(recorder: EventRecorder[Reason], wait: Wait) -> None:
    """Record an event with all reasons in its note; the first one is the event's reason."""
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
        explanation(wait.refusals),
        action=ACTION,
        type=EventType.WARNING,
    )
