"""Fates: why a pod or a container of it does not run, as a sentence with the next step.

The facts come from container statuses and from the pod's reason and message. The words that
Kubernetes uses are kept in the sentence, so that a search finds them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bursar.core.model.names import MEMORY
from bursar.core.model.pod import Container, ContainerState, ContainerStatus, Pod
from bursar.core.model.problem import counted
from bursar.core.model.quantity import Quantity

OOM_KILLED: Final = "OOMKilled"
EVICTED: Final = "Evicted"
CRASH_LOOP: Final = "CrashLoopBackOff"
OUT_OF: Final = "OutOf"
SIGNAL_BASE: Final = 128
"""A process that a signal ended has this exit code plus the number of the signal."""
SIGKILL_CODE: Final = 137
MESSAGE_LENGTH_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What happened, and what to do next."""

    subject: str
    """`pod`, or `container NAME`."""
    reason: str
    """Kubernetes' word, such as `OOMKilled`; may be empty."""
    sentence: str
    next_step: str
    is_failure: bool = True
    """Whether something has to be done. False for a container that is about to start."""


def pod_fates(pod: Pod) -> tuple[Fate, ...]:
    """The fate of the pod, then those of its containers in the order in which they start."""
    whole = _pod_fate(pod)
    return (*([whole] if whole is not None else []), *_container_fates(pod))


# ------------------------------------------------------------------ the pod as a whole


def _pod_fate(pod: Pod) -> Fate | None:
    if not pod.reason:
        return None
    known = _POD_REASONS.get(pod.reason)
    if known is None and pod.reason.startswith(OUT_OF):
        resource = pod.reason.removeprefix(OUT_OF)
        known = (
            f"the kubelet refused the pod, because the node had too little {resource} left",
            "nothing, if a controller made the pod: it makes another one. Else create it again",
        )
    what, step = known or ("the pod failed", "read the message")
    return Fate(
        subject="pod",
        reason=pod.reason,
        sentence=f"{what} ({pod.reason}){_quoted(pod.message)}",
        next_step=step,
    )


_POD_REASONS: Final = {
    EVICTED: (
        "the kubelet ended the pod to protect the node, or because it exceeded a limit of storage",
        "request what the pod needs, or raise the limit that the message names",
    ),
    "Preempting": (
        "the scheduler ended the pod to make room for one of higher priority",
        "raise its priority, or add nodes",
    ),
    "Preempted": (
        "the kubelet ended the pod to admit a critical one",
        "add nodes, or lower the requests of critical pods",
    ),
    "DeadlineExceeded": (
        "the pod ran longer than its activeDeadlineSeconds",
        "raise activeDeadlineSeconds, or make the work shorter",
    ),
    "NodeLost": ("the node stopped answering", "see `kubectl describe node`"),
    "Terminated": ("the node was shut down", "nothing, if a controller made the pod"),
    "NodeShutdown": ("the node was shut down", "nothing, if a controller made the pod"),
    "NodeAffinity": (
        "the kubelet refused the pod, because the labels of the node no longer match",
        "create the pod again, so that the scheduler looks for another node",
    ),
    "UnexpectedAdmissionError": (
        "the kubelet could not give the pod what it asked for, such as devices",
        "read the message, and the log of the device plugin",
    ),
}


# ------------------------------------------------------------------ its containers


def _container_fates(pod: Pod) -> Iterator[Fate]:
    declared = {each.name: each for each in (*pod.init_containers, *pod.containers)}
    inits = {each.name for each in pod.init_containers if not each.is_sidecar}
    for status in (*pod.init_container_statuses, *pod.container_statuses):
        container = declared.get(status.name) or Container(name=status.name)
        fate = _container_fate(pod, container, status, is_init=status.name in inits)
        if fate is not None:
            yield fate


def _container_fate(
    pod: Pod, container: Container, status: ContainerStatus, *, is_init: bool
) -> Fate | None:
    state, last = status.state, status.last_state
    if state is not None and state.kind == "waiting":
        return _waiting(pod, container, status, state)
    if state is not None and state.kind == "terminated":
        if state.exit_code == 0 and state.reason != OOM_KILLED:
            return None
        return _ended(pod, container, status, state)
    if last is not None and last.kind == "terminated" and not is_init:
        ended = last.exit_code != 0 or last.reason == OOM_KILLED
        return _ended(pod, container, status, last, is_running=True) if ended else None
    return None


def _waiting(
    pod: Pod, container: Container, status: ContainerStatus, state: ContainerState
) -> Fate | None:
    if state.reason == CRASH_LOOP:
        last = status.last_state
        if last is not None and last.kind == "terminated":
            return _ended(pod, container, status, last)
    what, step, fails = _WAITING.get(
        state.reason,
        ("it cannot start", "read the message and the events of the pod", True),
    )
    if not state.reason:
        return None
    return Fate(
        subject=f"container {container.name}",
        reason=state.reason,
        sentence=f"{what} ({state.reason}){_quoted(state.message)}",
        next_step=step.format(image=container.image or "the image"),
        is_failure=fails,
    )


_PULL: Final = "check the name {image}, that it exists, and imagePullSecrets for its registry"
_WAITING: Final = {
    "ContainerCreating": ("it is being created", "wait", False),
    "PodInitializing": ("it waits for the init containers", "wait", False),
    "ImagePullBackOff": ("its image cannot be pulled, and is tried again", _PULL, True),
    "ErrImagePull": ("its image cannot be pulled", _PULL, True),
    "InvalidImageName": ("its image has no valid name", "correct the name {image}", True),
    "ErrImageNeverPull": (
        "its image is not on the node, and imagePullPolicy Never forbids to pull it",
        "load {image} onto the node, or change imagePullPolicy",
        True,
    ),
    "CreateContainerConfigError": (
        "it names a ConfigMap, Secret or key that does not exist",
        "create what the message names",
        True,
    ),
    "CreateContainerError": (
        "the runtime could not create it",
        "read the message and the events of the pod",
        True,
    ),
    "RunContainerError": (
        "the runtime could not start it",
        "check its command, mounts and security context",
        True,
    ),
    CRASH_LOOP: ("it ended again and again", "read its log", True),
}


def _ended(
    pod: Pod,
    container: Container,
    status: ContainerStatus,
    state: ContainerState,
    *,
    is_running: bool = False,
) -> Fate:
    if state.reason == OOM_KILLED:
        what, step = _out_of_memory(pod, container)
    else:
        what, step = _by_exit_code(container, state)
    ways = [state.reason] if state.reason else []
    ways.append(f"exit code {state.exit_code}")
    times = status.restart_count
    again = f"; restarted {counted(times, 'time')}" if times else ""
    now = ", and runs again" if is_running else ""
    return Fate(
        subject=f"container {container.name}",
        reason=state.reason,
        sentence=f"{what} ({', '.join(ways)}{again}){now}{_quoted(state.message)}",
        next_step=step,
        is_failure=not (is_running and status.ready),
    )


def _out_of_memory(pod: Pod, container: Container) -> tuple[str, str]:
    limit = memory_limit(pod, container)
    if limit is None:
        return (
            "the kernel ended it, because the node had no memory left",
            "give it a memory request that it keeps to, and a limit",
        )
    return (
        f"the kernel ended it, because it used more memory than its limit of {limit}",
        "raise the memory limit, or make the program use less",
    )


def memory_limit(pod: Pod, container: Container) -> Quantity | None:
    """The memory limit of a container, or else that of its pod; None if there is none."""
    own = container.resources.limits.get(MEMORY)
    if own is not None and not own.is_zero:
        return own
    whole = pod.resources.limits.get(MEMORY) if pod.resources is not None else None
    return whole if whole is not None and not whole.is_zero else None


def _by_exit_code(container: Container, state: ContainerState) -> tuple[str, str]:
    log = f"read its log: kubectl logs --previous -c {container.name}"
    if state.reason == "ContainerStatusUnknown":
        return "it was lost when the pod ended", "nothing, if a controller made the pod"
    return _EXIT_CODES.get(state.exit_code, (_signal(state.exit_code), log))


def _signal(code: int) -> str:
    number = code - SIGNAL_BASE
    return f"signal {number} ended it" if 0 < number < 65 else "it failed"


_EXIT_CODES: Final = {
    126: ("its command cannot be executed", "check the command, and that the file is executable"),
    127: ("its command was not found", "check the command, and the PATH of the image"),
    SIGKILL_CODE: (
        "SIGKILL ended it: a liveness probe failed, or it did not end in time after SIGTERM",
        "see the events of the pod: kubectl describe pod",
    ),
    139: ("it accessed memory that it may not (SIGSEGV)", "a fault of the program: read its log"),
    143: (
        "SIGTERM ended it: it was asked to end",
        "see the events of the pod for the reason: kubectl describe pod",
    ),
}


def _quoted(message: str) -> str:
    """The message of Kubernetes, on one line and of bounded length."""
    text = " ".join(message.split())
    if len(text) > MESSAGE_LENGTH_MAX:
        text = f"{text[:MESSAGE_LENGTH_MAX]}..."
    return f": {text}" if text else ""
