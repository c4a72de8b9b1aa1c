"""The story of a cluster: what happened to pods, told from one state to the next.

Kubernetes writes no event when a gate is removed or a pod is resized, and the embedded cluster
writes none when a pod starts or ends. The story has a line for each of these steps.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import nlargest
from typing import Final

from bursar.app.reports.overview import EventLine, PodState, state_of
from bursar.core.model.demand import INCOMING, pod_requests
from bursar.core.model.pod import Pod
from bursar.core.model.resources import ResourceList
from bursar.core.quota.ledger import PodKey
from bursar.wire.cluster.event import SeenEvent

LINES_MAX: Final = 500
"""Lines that are kept, and shown together with the cluster's own events."""


class Story:
    """Compares each state with the one before. A pod that did not change costs one comparison."""

    def __init__(self, *, tells_all: bool) -> None:
        """`tells_all` is for a cluster whose scheduler and nodes write no events."""
        self._tells_all = tells_all
        self._known: dict[PodKey, Pod] = {}
        self._has_begun = False
        self._lines: deque[EventLine] = deque(maxlen=LINES_MAX)

    def see(self, pods: Iterable[Pod], now: datetime) -> None:
        """Take the present state of all pods."""
        known: dict[PodKey, Pod] = {}
        for pod in pods:
            key = PodKey(pod.namespace, pod.name)
            before = self._known.get(key)
            if before is None or before.uid != pod.uid:
                self._lines.extend(self._arrival(pod, now))
            elif before is not pod:
                self._lines.extend(self._steps(before, pod, now))
            known[key] = pod
        self._known, self._has_begun = known, True

    def add(self, line: EventLine) -> None:
        self._lines.append(line)

    def with_events(self, events: Iterable[SeenEvent]) -> tuple[EventLine, ...]:
        """The newest lines and events together, the newest first."""
        lines = [*self._lines, *_event_lines(events)]
        newest = nlargest(LINES_MAX, enumerate(lines), key=lambda each: (each[1].time, each[0]))
        return tuple(line for _, line in newest)

    def _arrival(self, pod: Pod, now: datetime) -> Iterator[EventLine]:
        """A pod that came since the last state, perhaps with a node already."""
        if self._tells_all and self._has_begun and pod.node_name:
            yield _placed(pod, now)

    def _steps(self, before: Pod, after: Pod, now: datetime) -> Iterator[EventLine]:
        if before.scheduling_gates and not after.scheduling_gates:
            yield _line(after, now, "Released", "every quota has room, and the gate was removed")
        was, state = state_of(before), state_of(after)
        held, wanted = pod_requests(before, INCOMING), pod_requests(after, INCOMING)
        if before.node_name and after.node_name and held != wanted:
            yield _line(after, now, "Resized", f"now requests {_amounts(wanted)}")
        if not self._tells_all:
            return
        if after.node_name and not before.node_name:
            yield _placed(after, now)
        if was is state:
            return
        if state is PodState.SUCCEEDED:
            yield _line(after, now, "Finished", f"frees {_amounts(wanted)}")
        elif state is PodState.FAILED:
            yield _line(after, now, "Failed", "the pod has failed", is_warning=True)


def _placed(pod: Pod, now: datetime) -> EventLine:
    taken = _amounts(pod_requests(pod, INCOMING))
    return _line(pod, now, "Placed", f"on {pod.node_name}, takes {taken}")


def _line(
    pod: Pod, now: datetime, reason: str, note: str, *, is_warning: bool = False
) -> EventLine:
    return EventLine(
        time=now,
        namespace=pod.namespace,
        kind="Pod",
        name=pod.name,
        reason=reason,
        note=note,
        is_warning=is_warning,
    )


def _amounts(requests: ResourceList) -> str:
    named = [f"{name} {amount}" for name, amount in sorted(requests.items()) if amount.nanos]
    return ", ".join(named) or "no resources"


def _event_lines(events: Iterable[SeenEvent]) -> Iterator[EventLine]:
    for event in events:
        if event.time is not None:
            yield EventLine(
                time=event.time,
                namespace=event.namespace,
                kind=event.kind,
                name=event.name,
                reason=event.reason,
                note=event.note,
                is_warning=event.is_warning,
                count=event.count,
            )
