"""Events on pods that wait, and on quotas that look enforced and are not.

One event per object, counted while the reason stays the same.
"""

from enum import Enum
from typing import Final

from bursar.app.admission.pods import queue_is_full
from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.wait_text import wait_text
from bursar.core.quota.quota import Quota
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import Wait

ACTION: Final = "HoldBack"
QUOTA_ACTION: Final = "Enforce"


class QuotaReason(Enum):
    """The reason of an event about a quota that looks enforced and is not."""

    WITHOUT_SIDECAR = "CountedWithoutSidecar"
    """A sidecar failed, and the settings allow to count without it."""
    WRITE_REFUSED = "WriteRefused"
    """The API server refused an object that the controller keeps for the quota, or its status."""
    UNREADABLE = "Unreadable"
    """The spec cannot be read. Pods that the quota may cover wait."""
    INVALID = "Invalid"
    """The API server would refuse a ResourceQuota with this spec."""
    GATING_MISMATCH = "GatingMismatch"
    """Policies or webhooks gate other namespaces than the controller targets."""


class QueueReason(Enum):
    """The reason of an event about the waiting pods of a namespace."""

    FULL = "TooManyWaitingPods"
    """The namespace has as many waiting pods as it may have: new pods are refused."""


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
        wait_text(wait.refusals, cost),
        action=ACTION,
        type=EventType.WARNING,
    )


def record_uncounted(recorder: EventRecorder[Reason], quota: Quota, message: str) -> None:
    """Record on a quota that no counter charges some of its names."""
    recorder.record(
        _reference(quota),
        Reason.NOT_COUNTED,
        message,
        action=QUOTA_ACTION,
        type=EventType.WARNING,
    )


def record_problem(
    recorder: EventRecorder[QuotaReason], quota: Quota, reason: QuotaReason, message: str
) -> None:
    """Record on a quota why it is not in force as its author may think."""
    recorder.record(_reference(quota), reason, message, action=QUOTA_ACTION, type=EventType.WARNING)


def record_mismatch(
    recorder: EventRecorder[QuotaReason], about: ObjectReference, message: str
) -> None:
    """Record on a policy's binding or a webhook configuration that it selects other namespaces."""
    recorder.record(
        about, QuotaReason.GATING_MISMATCH, message, action=QUOTA_ACTION, type=EventType.WARNING
    )


def record_full(recorder: EventRecorder[QueueReason], namespace: str, most: int) -> None:
    """Record on a namespace that no more pods may wait in it."""
    recorder.record(
        # In the namespace itself, where its users read events.
        ObjectReference(api_version="v1", kind="Namespace", namespace=namespace, name=namespace),
        QueueReason.FULL,
        queue_is_full(namespace, str(most)),
        action=ACTION,
        type=EventType.WARNING,
    )


def _reference(quota: Quota) -> ObjectReference:
    resource = QUOTAS[quota.key.kind]
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=quota.key.namespace,
        name=quota.key.name,
        uid=quota.uid,
    )
