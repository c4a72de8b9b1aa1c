"""Jobs: pods run until enough of them succeeded. A failed pod is replaced immediately."""

from collections.abc import Sequence
from datetime import datetime

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.conditions import is_true, with_conditions
from bursar.adapters.memory.simulation.workloads.effects import Create, Effect, status_change
from bursar.adapters.memory.simulation.workloads.templates import (
    field,
    is_active,
    is_ready,
    new_pod,
    phase_of,
    scaled,
)
from bursar.app.cluster.kinds import JOBS
from bursar.wire.structs.fields import timestamp


def decide_job(owner: Raw, pods: Sequence[Raw], now: datetime) -> list[Effect]:
    if is_true(owner, "Complete"):
        return []
    active = [pod for pod in pods if is_active(pod)]
    counted = sum(phase_of(pod) == "Succeeded" for pod in pods)
    succeeded = max(counted, field(owner, "status", "succeeded", 0))
    wanted = _wanted(owner, succeeded)
    effects = scaled(active, wanted, lambda: _pod(owner))
    is_done = wanted == 0 and not active and succeeded > 0 and not _is_suspended(owner)
    status: Raw = {
        "active": max(wanted, 0),
        "ready": sum(is_ready(pod) for pod in active),
        "succeeded": succeeded,
        "failed": sum(phase_of(pod) == "Failed" for pod in pods),
        "startTime": field(owner, "status", "startTime", timestamp(now)),
    }
    if is_done:
        status |= _completion(owner, now)
    return effects + status_change(JOBS, owner, status)


def _wanted(owner: Raw, succeeded: int) -> int:
    """The number of active pods. Without `completions`, one success completes the Job."""
    if _is_suspended(owner):
        return 0
    parallelism: int = field(owner, "spec", "parallelism", 1)
    completions: int | None = field(owner, "spec", "completions", None)
    if completions is None:
        return 0 if succeeded else parallelism
    return max(0, min(parallelism, completions - succeeded))


def _pod(owner: Raw) -> Create:
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "job-name": name,
        "controller-uid": uid,
    }
    return new_pod(JOBS, owner, labels=labels)


def _is_suspended(owner: Raw) -> bool:
    return bool(field(owner, "spec", "suspend", False))


def _completion(owner: Raw, now: datetime) -> Raw:
    """The status of a complete Job.

    The API accepts the condition `Complete` only together with `SuccessCriteriaMet` or after it.
    """
    reached = {"status": "True", "reason": "CompletionsReached", "lastProbeTime": timestamp(now)}
    message = "Reached expected number of succeeded pods"
    conditions = [
        {"type": kind, "message": message, **reached} for kind in ("SuccessCriteriaMet", "Complete")
    ]
    return {
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "completionTime": timestamp(now),
        "conditions": with_conditions(field(owner, "status", "conditions", ()), conditions, now),
    }
