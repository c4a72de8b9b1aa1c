"""Who hears of what was not taken over from a pod's annotations: the pod's events, and the log.

Whoever may create pods decides how much there is to be told. So both have a small budget: a
tenant who writes nonsense to a thousand pods must not drown everybody else's news.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from bursar.app.cluster.events.budget import Budget, TokenBucket
from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.ports import Clock
from bursar.app.devices.ports import Reporter
from bursar.core.devices.allocation import Problem, ProblemKind
from bursar.core.devices.pod import DevicePod

COMPONENT: Final = "bursar-agent"
ACTION: Final = "ShowDevices"
BUDGET: Final = Budget(object_burst=5, burst=20, writes_per_second=1, queue_max=200)
"""Of one node. A cluster has thousands."""
LOG_BURST: Final = 20
LOG_REFILL_S: Final = 10.0


class DeviceReason(Enum):
    """Why an event is on a pod."""

    UNREADABLE = "DevicesUnreadable"
    """An annotation about devices cannot be read; nothing of it is shown."""
    NOT_SHOWN = "DeviceNotShown"
    """A device is written on the pod and is not shown, or not where it was written."""
    CLAIMED_TWICE = "DeviceClaimedTwice"
    """Another pod has the same device, and one of them has it whole. Both are shown."""


_REASONS: Final = {
    ProblemKind.UNREADABLE: DeviceReason.UNREADABLE,
    ProblemKind.CLAIMED_TWICE: DeviceReason.CLAIMED_TWICE,
}


def reason_of(problem: Problem) -> DeviceReason:
    return _REASONS.get(problem.kind, DeviceReason.NOT_SHOWN)


class PodEvents:
    """A `Reporter` that records an event about the pod."""

    def __init__(self, recorder: EventRecorder[DeviceReason]) -> None:
        self._recorder = recorder

    def tell(self, pod: DevicePod, problem: Problem) -> None:
        self._recorder.record(
            ObjectReference(
                api_version="v1",
                kind="Pod",
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
            ),
            reason_of(problem),
            # Whoever may see this pod reads it, and may not know of others.
            f"{problem.source}: {problem.text_for_tenants}",
            action=ACTION,
            type=EventType.WARNING,
        )


class ProblemLog:
    """A `Reporter` that says it in one line, and then tells the next one."""

    def __init__(
        self, say: Callable[[str], None], clock: Clock, *, also: Reporter | None = None
    ) -> None:
        self._say, self._clock, self._also = say, clock, also
        self._bucket = TokenBucket(LOG_BURST, LOG_REFILL_S, clock.monotonic())
        self.unsaid = 0
        """Lines that were too many since the last one."""

    def tell(self, pod: DevicePod, problem: Problem) -> None:
        if self._also is not None:
            self._also.tell(pod, problem)
        if not self._bucket.take(self._clock.monotonic()):
            self.unsaid += 1
            return
        rest = f" (and {self.unsaid} more)" if self.unsaid else ""
        self.unsaid = 0
        said = f"{problem.kind.value}: {problem.source}: {problem.text}"
        self._say(f"pod {pod.namespace}/{pod.name}: {said}{rest}")
