"""Telling people why a pod waits: one event on the pod, counted while it stays true."""

from typing import Final

from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.core.quota.books import Wait
from bursar.core.quota.refusal import Reason, explanation

COMPONENT: Final = "aaq-controller"
ACTION: Final = "HoldBack"


def tell(recorder: EventRecorder[Reason], wait: Wait) -> None:
    """Record an event. Of several reasons the first gives the event its name; all are told."""
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
