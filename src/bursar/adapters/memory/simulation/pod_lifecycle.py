"""The lifecycle of a pod on a simulated node: rejection, start, resize, completion, deletion.

One pure function computes the next step and when it is due, from the pod, the books of the node
and a few times that the node remembers. A kubelet takes the same steps, with containers.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.conditions import (
    find_condition,
    with_conditions,
)
from bursar.adapters.memory.simulation.workloads.effects import Change, Delete, Effect
from bursar.adapters.memory.simulation.workloads.templates import controller_of, field, phase_of
from bursar.app.cluster.kinds import PODS, RESIZE
from bursar.core.model.pod import CONDITION_RESIZE_PENDING, REASON_INFEASIBLE, Pod
from bursar.core.placement.fit import incoming_request, kubelet_refusal, shortfalls_of
from bursar.core.placement.message import (
    KUBELET_STATUS_PREFIX,
    kubelet_message,
    kubelet_reason,
)
from bursar.core.placement.node_books import NodeBooks, pod_key
from bursar.wire.structs.fields import FieldError, decode_time, timestamp

FINISHES_AFTER: Final = "bursar.io/finishes-after"
RESIZES_AFTER: Final = "bursar.io/resizes-after"
RESIZES_TO: Final = "bursar.io/resizes-to"
"""Annotation: what the first container requests after the time in `RESIZES_AFTER`, such as
`cpu=2,memory=4Gi`."""
REASON_DEFERRED: Final = "Deferred"
_NANOS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION: Final = re.compile(r"(?:(\d{1,9})(\.\d{1,9})?(ns|us|ms|s|m|h))", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Durations of the steps on simulated nodes, in seconds."""

    start: float = 1.0
    """Time from binding to running."""
    job: float = 10.0
    """Run time of a pod of a Job that has no annotation for it."""
    grace_max: float = 1.0
    """Longest time until a deleted pod is removed, even if its grace period is longer."""
    resize: float = 1.0
    heartbeat: float = 20.0
    orphan: float = 5.0
    """Time from the deletion of a node to the removal of its pods."""


@dataclass(slots=True, kw_only=True)
class Memory:
    """Times of one pod that its status does not have, or only in whole seconds."""

    seen_at: datetime
    started_at: datetime | None = None
    ending_at: datetime | None = None
    resized_at: datetime | None = None
    has_asked: bool = False
    """Whether the resize that the annotations describe was requested. It is requested once."""
    orphaned_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    due: datetime
    effect: Effect


def next_step(
    raw: Raw, pod: Pod, books: NodeBooks, memory: Memory, pace: Pace, now: datetime
) -> Step | None:
    """The next step of the pod, if nothing changes before; None if there is none."""
    if pod.deleted_at is not None and memory.ending_at is not None:
        patience = memory.ending_at + timedelta(seconds=pace.grace_max)
        end = Delete(resource=PODS, target=raw, grace_seconds=0)
        return Step(due=min(pod.deleted_at, patience), effect=end)
    match phase_of(raw):
        case "Pending":
            due = memory.seen_at + timedelta(seconds=pace.start)
            return Step(due=due, effect=_start(raw, pod, books, now))
        case "Running":
            steps = (
                _finish(raw, memory, pace, now),
                _asked_resize(raw, memory),
                _resize(raw, pod, books, memory, pace, now),
            )
            return min(filter(None, steps), key=lambda step: step.due, default=None)
        case _:
            return None


def parsed_duration(text: str) -> timedelta | None:
    """A duration in Go's notation; None for any other text.

    >>> parsed_duration("1m30s"), parsed_duration("half an hour")
    (datetime.timedelta(seconds=90), None)
    """
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        return None
    nanos = sum(int(float(part[1] + (part[2] or "")) * _NANOS[part[3]]) for part in parts)
    return timedelta(microseconds=nanos // 1000)


def start_time(raw: Raw) -> datetime | None:
    """The start time of the pod in whole seconds; None if its status has none."""
    text = field(raw, "status", "startTime", None)
    try:
        return decode_time(text, "status.startTime") if isinstance(text, str) else None
    except FieldError:
        return None


def is_resize_pending(raw: Raw) -> bool:
    return find_condition(raw, CONDITION_RESIZE_PENDING) is not None


def differs_in_size(raw: Raw) -> bool:
    """Whether the spec of a running pod requests other amounts than were allocated."""
    given = {
        status["name"]: status.get("resources") or {}
        for status in field(raw, "status", "containerStatuses", ())
    }
    return any(
        container["name"] in given and given[container["name"]] != _amounts(container)
        for container in raw["spec"]["containers"]
    )


# ------------------------------------------------------------------ start


def _start(raw: Raw, pod: Pod, books: NodeBooks, now: datetime) -> Effect:
    alone = _without(books, pod)
    lack = kubelet_refusal(pod, alone)
    if lack is not None:
        return _status(
            raw,
            {
                "phase": "Failed",
                "reason": kubelet_reason(lack),
                "message": KUBELET_STATUS_PREFIX + kubelet_message(lack),
                "startTime": timestamp(now),
            },
        )
    conditions = [
        {"type": kind, "status": "True"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    running = {"running": {"startedAt": timestamp(now)}}
    done = {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": timestamp(now),
            "finishedAt": timestamp(now),
        }
    }
    inits = [
        _container_status(c, running if c.get("restartPolicy") == "Always" else done)
        for c in raw["spec"].get("initContainers") or ()
    ]
    status = {
        "phase": "Running",
        "startTime": timestamp(now),
        "conditions": with_conditions(field(raw, "status", "conditions", ()), conditions, now),
        "containerStatuses": [_container_status(c, running) for c in raw["spec"]["containers"]],
    }
    return _status(raw, status | ({"initContainerStatuses": inits} if inits else {}))


def _container_status(container: Raw, state: Raw) -> Raw:
    is_running = "running" in state
    amounts = _amounts(container)
    status = {
        "name": container["name"],
        "image": container.get("image") or "",
        "imageID": "",
        "ready": is_running or container.get("restartPolicy") != "Always",
        "started": is_running,
        "restartCount": 0,
        "state": state,
    }
    if amounts:
        status["resources"] = amounts
    if amounts.get("requests"):
        status["allocatedResources"] = amounts["requests"]
    return status


def _amounts(container: Raw) -> Raw:
    resources = container.get("resources") or {}
    return {name: resources[name] for name in ("requests", "limits") if resources.get(name)}


# ------------------------------------------------------------------ finish


def _finish(raw: Raw, memory: Memory, pace: Pace, now: datetime) -> Step | None:
    duration = _running_time(raw, pace)
    if duration is None or memory.started_at is None:
        return None
    conditions = [
        {"type": kind, "status": "False", "reason": "PodCompleted"}
        for kind in ("ContainersReady", "Ready")
    ]
    statuses = [
        {**status, "ready": False, "started": False, "state": _ended(status, now)}
        for status in field(raw, "status", "containerStatuses", ())
    ]
    status = {
        "phase": "Succeeded",
        "conditions": with_conditions(field(raw, "status", "conditions", ()), conditions, now),
        "containerStatuses": statuses,
    }
    return Step(due=memory.started_at + duration, effect=_status(raw, status))


def _running_time(raw: Raw, pace: Pace) -> timedelta | None:
    text = (raw["metadata"].get("annotations") or {}).get(FINISHES_AFTER)
    if text is not None:
        return parsed_duration(text)
    controller = controller_of(raw)
    is_job = controller is not None and controller["kind"] == "Job"
    return timedelta(seconds=pace.job) if is_job else None


def _ended(status: Raw, now: datetime) -> Raw:
    started = ((status.get("state") or {}).get("running") or {}).get("startedAt", timestamp(now))
    terminated = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": started,
        "finishedAt": timestamp(now),
    }
    return {"terminated": terminated}


# ------------------------------------------------------------------ resize


def _asked_resize(raw: Raw, memory: Memory) -> Step | None:
    """The resize that the pod's annotations ask for. Quotas and LimitRanges may refuse it."""
    annotations = raw["metadata"].get("annotations") or {}
    delay = parsed_duration(annotations.get(RESIZES_AFTER, ""))
    if delay is None or memory.started_at is None or memory.has_asked:
        return None
    pairs = [part.partition("=") for part in annotations.get(RESIZES_TO, "").split(",")]
    wanted = {name.strip(): amount.strip() for name, sign, amount in pairs if sign}
    first, *others = raw["spec"]["containers"]
    resources = {
        side: {
            **amounts,
            **{name: wanted[name] for name in wanted if side == "requests" or name in amounts},
        }
        for side, amounts in {"requests": {}, **_amounts(first)}.items()
    }
    containers = [{**first, "resources": {**(first.get("resources") or {}), **resources}}, *others]
    change = Change(
        resource=PODS, target=raw, patch={"spec": {"containers": containers}}, subresource=RESIZE
    )
    return Step(due=memory.started_at + delay, effect=change)


def _resize(
    raw: Raw, pod: Pod, books: NodeBooks, memory: Memory, pace: Pace, now: datetime
) -> Step | None:
    if memory.resized_at is None or not differs_in_size(raw):
        return None
    effect = _resized(raw, pod, books, now)
    if effect is None:
        return None
    return Step(due=memory.resized_at + timedelta(seconds=pace.resize), effect=effect)


def _resized(raw: Raw, pod: Pod, books: NodeBooks, now: datetime) -> Effect | None:
    current = field(raw, "status", "conditions", ())
    lacks = shortfalls_of(incoming_request(pod), _without(books, pod))
    if not lacks:
        specs = {container["name"]: container for container in raw["spec"]["containers"]}
        statuses = [
            {
                **status,
                "resources": _amounts(specs[status["name"]]),
                "allocatedResources": _amounts(specs[status["name"]]).get("requests", {}),
            }
            for status in field(raw, "status", "containerStatuses", ())
        ]
        settled = with_conditions(current, (), now, without=(CONDITION_RESIZE_PENDING,))
        return _status(raw, {"conditions": settled, "containerStatuses": statuses})
    hopeless = next((lack for lack in lacks if not lack.eviction_may_help), None)
    condition = {
        "type": CONDITION_RESIZE_PENDING,
        "status": "True",
        "reason": REASON_INFEASIBLE if hopeless else REASON_DEFERRED,
        "message": _infeasible_text(hopeless.resource, hopeless.requested, hopeless.allocatable)
        if hopeless
        else f"Node didn't have enough resource: {lacks[0].resource}",
    }
    told = find_condition(raw, CONDITION_RESIZE_PENDING)
    if told is not None and all(told.get(name) == value for name, value in condition.items()):
        return None
    return _status(raw, {"conditions": with_conditions(current, [condition], now)})


def _infeasible_text(resource: str, requested: int, capacity: int) -> str:
    return (
        f"Node didn't have enough capacity: {resource}, requested: {requested}, "
        f"capacity: {capacity}"
    )


def _without(books: NodeBooks, pod: Pod) -> NodeBooks:
    others = [entry for entry in books.entries if pod_key(entry.pod) != pod_key(pod)]
    return NodeBooks(books.node, entries=others)


def _status(raw: Raw, status: Raw) -> Change:
    return Change(resource=PODS, target=raw, patch={"status": status}, subresource="status")
