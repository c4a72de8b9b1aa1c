"""Problems of pods' devices: each is reported once, as an event on the pod and as a log line.

Users that may create pods decide how many problems there are. So events and log lines are limited:
a tenant with a thousand broken annotations must not crowd out the reports of others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final

from bursar.app.cluster.events.budget import Budget, TokenBucket
from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.ports import Clock
from bursar.app.devices.counters import ProxyCounts
from bursar.app.devices.ports import Reporter
from bursar.core.devices.allocation import Holdings, PodKey, Problem, ProblemKind, ReportedPod
from bursar.core.devices.conflicts import claimed_twice
from bursar.core.devices.pod import DevicePod

ACTION: Final = "ShowDevices"
BUDGET: Final = Budget(object_burst=5, burst=20, writes_per_second=1, queue_max=200)
"""The event budget of one node. A cluster has thousands of nodes."""
REMEMBERED_MAX: Final = 64
"""Problems of one pod that are remembered. A tenant can give its pod a new one at any time."""
LOG_BURST: Final = 20
LOG_REFILL_S: Final = 10.0


@dataclass(slots=True, eq=False)
class ProblemTracker:
    """Reports each problem once, and counts the problems that exist now."""

    reporter: Reporter
    counts: ProxyCounts
    _reported: dict[tuple[PodKey, str], dict[Problem, None]] = field(
        default_factory=dict, init=False
    )
    """By pod and uid; the problems that were seen last are at the end."""

    def update(
        self,
        pods: Mapping[PodKey, DevicePod],
        holdings: Mapping[PodKey, Holdings],
        reported: Iterable[ReportedPod],
    ) -> None:
        """Report new problems. A pod's latest problems are remembered until it is deleted."""
        standing = _problems(pods, holdings, reported)
        self.counts.standing = Counter(
            problem.kind for problems in standing.values() for problem in problems
        )
        self._reported = {
            (key, uid): known
            for (key, uid), known in self._reported.items()
            if key in pods and pods[key].uid == uid
        }
        for key, problems in standing.items():
            known = self._reported.setdefault((key, pods[key].uid), {})
            for problem in problems:
                is_new = problem not in known
                known.pop(problem, None)
                known[problem] = None
                if is_new:
                    self.counts.problems[problem.kind] += 1
                    self.reporter.report(pods[key], problem)
            excess = len(known) - max(REMEMBERED_MAX, len(problems))
            for problem in list(islice(known, max(0, excess))):
                del known[problem]


def _problems(
    pods: Mapping[PodKey, DevicePod],
    holdings: Mapping[PodKey, Holdings],
    reported: Iterable[ReportedPod],
) -> dict[PodKey, list[Problem]]:
    standing = {key: list(held.problems) for key, held in holdings.items() if held.problems}
    for key, problems in claimed_twice(holdings.values(), reported).items():
        if key in pods:
            standing.setdefault(key, []).extend(problems)
    return standing


# ------------------------------------------------------------------ events on the pod


class DeviceReason(Enum):
    """The `reason` of an event on a pod."""

    UNREADABLE = "DevicesUnreadable"
    """A device annotation cannot be decoded; none of its devices are shown."""
    NOT_SHOWN = "DeviceNotShown"
    """A device of an annotation is not shown, or is shown in another container."""
    CLAIMED_TWICE = "DeviceClaimedTwice"
    """Another pod holds the same device, and one of them holds it whole. Both are shown."""


_REASONS: Final = {
    ProblemKind.UNREADABLE: DeviceReason.UNREADABLE,
    ProblemKind.CLAIMED_TWICE: DeviceReason.CLAIMED_TWICE,
}


def reason_of(problem: Problem) -> DeviceReason:
    return _REASONS.get(problem.kind, DeviceReason.NOT_SHOWN)


class PodEvents:
    """A `Reporter` that records an event on the pod."""

    def __init__(self, recorder: EventRecorder[DeviceReason]) -> None:
        self._recorder = recorder

    def report(self, pod: DevicePod, problem: Problem) -> None:
        self._recorder.record(
            ObjectReference(
                api_version="v1",
                kind="Pod",
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
            ),
            reason_of(problem),
            # Readers of this pod's events may not see pods of other namespaces.
            f"{problem.source}: {problem.text_for_tenants}",
            action=ACTION,
            type=EventType.WARNING,
        )


# ------------------------------------------------------------------ the log


class ProblemLog:
    """A `Reporter` that logs one line, at a limited rate, and then calls the next reporter."""

    def __init__(
        self, say: Callable[[str], None], clock: Clock, *, also: Reporter | None = None
    ) -> None:
        self._say, self._clock, self._also = say, clock, also
        self._bucket = TokenBucket(LOG_BURST, LOG_REFILL_S, clock.monotonic())
        self.dropped = 0
        """Lines dropped by the rate limit since the last line."""

    def report(self, pod: DevicePod, problem: Problem) -> None:
        if self._also is not None:
            self._also.report(pod, problem)
        if not self._bucket.take(self._clock.monotonic()):
            self.dropped += 1
            return
        rest = f" (and {self.dropped} more)" if self.dropped else ""
        self.dropped = 0
        text = f"{problem.kind.value}: {problem.source}: {problem.text}"
        self._say(f"pod {pod.namespace}/{pod.name}: {text}{rest}")
