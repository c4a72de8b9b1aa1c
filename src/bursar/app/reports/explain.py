"""The report of `explain pod`: why a pod does not run, and what would let it run.

A pod waits for a quota or another scheduling gate, then for a node, then for its containers. The
report is about the first of these that has not happened.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from bursar.app.reports.surroundings import Surroundings
from bursar.core.explain.fate import Fate, pod_fates
from bursar.core.model.pod import DEFAULT_SCHEDULER, Pod
from bursar.core.placement.attempt import Attempt
from bursar.core.placement.choice import choose, scores_of
from bursar.core.placement.fit_index import FitIndex
from bursar.core.placement.message import GATED_REASON, NO_NODES, gates_text
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.remedies.obstacles import NodeVerdict, verdicts
from bursar.core.placement.remedies.remedy import Remedy, TooLarge, remedies, too_large
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE

ALWAYS_UNCHECKED: Final = (
    "scheduler extenders, plugins that are not on by default, and pods nominated to a node"
)
REPLICAS_TRIED_MAX: Final = 100
"""Most replicas of a workload that are placed one after the other."""


class Answer(Enum):
    """Where a pod is on its way, from a closed list."""

    RUNS = "Runs"
    FITS = "Fits"
    """The pod has no node yet, and fits at least one node."""
    STARTING = "Starting"
    SUCCEEDED = "Succeeded"
    QUOTA = "WaitsForQuota"
    GATES = "WaitsForGates"
    """The pod has scheduling gates that are not Bursar's."""
    NO_NODE = "NoNodeFits"
    UNKNOWN = "NotDecided"
    """Nodes or pods could not be read, so that nothing can be said about nodes."""
    FAILING = "ContainersFail"
    FAILED = "Failed"

    @property
    def is_good(self) -> bool:
        return self in {Answer.RUNS, Answer.FITS, Answer.STARTING, Answer.SUCCEEDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which nodes a pod fits, why the others refuse it, and what would change that."""

    verdicts: tuple[NodeVerdict, ...]
    message: str
    """The scheduler's message; empty if a node fits."""
    best: str
    """The node with the best score among those that fit; empty if there is none."""
    remedies: tuple[Remedy, ...]
    too_large: tuple[TooLarge, ...]
    replicas: int = 1
    """How many pods like this one are wanted."""
    replicas_fitting: int = 0
    """How many of them fit, placed one after the other."""

    @property
    def is_never(self) -> bool:
        """Whether no node of the cluster is large enough, even if it were empty."""
        return bool(self.too_large)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExplanation:
    pod: Pod
    answer: Answer
    summary: str
    """The answer in one sentence."""
    owner: str = ""
    """The workload whose template the pod is; empty for a pod."""
    scheduler_said: str = ""
    """The message that the scheduler wrote into the pod, if there is one."""
    placement: Placement | None = None
    fates: tuple[Fate, ...] = ()
    next_steps: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    """What may also keep the pod from a node, and was not checked."""


def needs_surroundings(pod: Pod) -> bool:
    """Whether nodes decide about the pod."""
    return not pod.node_name and not pod.is_terminated and not pod.scheduling_gates


def waits_for_quota(pod: Pod) -> bool:
    """Whether the pod has Bursar's scheduling gate."""
    return GATE in pod.scheduling_gates and not pod.is_terminated


def explain_pod(
    pod: Pod,
    surroundings: Surroundings,
    *,
    quota: str = "",
    owner: str = "",
    replicas: int | None = None,
) -> PodExplanation:
    """Explain a pod. `quota` says why it waits behind Bursar's gate."""
    if needs_surroundings(pod):
        return _explain_waiting(pod, surroundings, owner, replicas)
    fates = pod_fates(pod)
    answer, summary = _reached(pod, fates, quota)
    if answer is Answer.QUOTA:
        steps: tuple[str, ...] = (
            "bursar queue and bursar describe quota show the quota and the order",
        )
    elif answer is Answer.GATES:
        steps = ("the controller that set the gate has to remove it",)
    else:
        steps = tuple(dict.fromkeys(fate.next_step for fate in fates if fate.is_failure))
    return PodExplanation(
        pod=pod, answer=answer, summary=summary, owner=owner, fates=fates, next_steps=steps
    )


def explain_pods(
    pods: Sequence[Pod], surroundings: Surroundings, quotas: Mapping[PodKey, str]
) -> list[PodExplanation]:
    """Explain many pods in short: with the scheduler's message, without each node's verdict."""
    index = FitIndex(surroundings.nodes, surroundings.namespaces)
    found = []
    for pod in pods:
        if needs_surroundings(pod) and surroundings.is_complete:
            found.append(_in_short(pod, index, surroundings.nodes))
        else:
            quota = quotas.get(PodKey(pod.namespace, pod.name), "")
            found.append(explain_pod(pod, surroundings, quota=quota))
    return found


def _in_short(pod: Pod, index: FitIndex, nodes: Sequence[NodeBooks]) -> PodExplanation:
    message = index.message(pod)
    return PodExplanation(
        pod=pod,
        answer=Answer.FITS if message is None else Answer.NO_NODE,
        summary=message or "at least one node would take the pod",
        scheduler_said=scheduler_said(pod),
        unchecked=tuple(unchecked(pod, nodes)),
    )


def _reached(pod: Pod, fates: Sequence[Fate], quota: str) -> tuple[Answer, str]:
    """The answer for a pod about which nodes have nothing to say."""
    failures = [fate for fate in fates if fate.is_failure]
    first = f": {failures[0].subject}: {failures[0].sentence}" if failures else ""
    if pod.phase == "Succeeded":
        return Answer.SUCCEEDED, "the pod has done its work"
    if pod.phase == "Failed":
        return Answer.FAILED, f"the pod has failed{first}"
    if waits_for_quota(pod):
        return Answer.QUOTA, f"the pod waits for a quota: {quota or gates_text((GATE,))}"
    if pod.scheduling_gates:
        return Answer.GATES, f"the pod is {gates_text(pod.scheduling_gates)}"
    if failures:
        return Answer.FAILING, f"the pod has a node, but does not work{first}"
    if pod.phase == "Running":
        return Answer.RUNS, f"the pod runs on {pod.node_name}"
    return Answer.STARTING, f"the pod is starting on {pod.node_name}"


# ------------------------------------------------------------------ a pod without a node


def _explain_waiting(
    pod: Pod, surroundings: Surroundings, owner: str, replicas: int | None
) -> PodExplanation:
    said = scheduler_said(pod)
    if not surroundings.is_complete:
        seen = f"; the scheduler wrote: {said}" if said else ""
        return PodExplanation(
            pod=pod,
            answer=Answer.UNKNOWN,
            summary=f"the pod waits for a node, and the nodes could not be checked{seen}",
            owner=owner,
            scheduler_said=said,
            next_steps=("ask an administrator to run the same command",),
            unchecked=surroundings.missing,
        )
    placement = check_placement(pod, surroundings, 1 if replicas is None else replicas)
    answer, summary = _judged(placement, len(surroundings.nodes))
    return PodExplanation(
        pod=pod,
        answer=answer,
        summary=summary,
        owner=owner,
        scheduler_said=said,
        placement=placement,
        unchecked=tuple(unchecked(pod, surroundings.nodes)),
    )


def _judged(placement: Placement, node_count: int) -> tuple[Answer, str]:
    fitting = sum(verdict.fits for verdict in placement.verdicts)
    wanted, fits = placement.replicas, placement.replicas_fitting
    if not node_count:
        return Answer.NO_NODE, NO_NODES
    if placement.is_never:
        return Answer.NO_NODE, "never: the pod is larger than any node"
    if not fitting:
        return Answer.NO_NODE, f"none of the {node_count} nodes takes the pod"
    if fits < wanted:
        return Answer.NO_NODE, f"{fits} of {wanted} replicas fit"
    those = f"{fitting} of {node_count} nodes would take the pod; the first choice is"
    return Answer.FITS, f"{those} {placement.best}"


def check_placement(pod: Pod, surroundings: Surroundings, replicas: int = 1) -> Placement:
    """Check a pod against every node."""
    nodes = surroundings.nodes
    attempt = Attempt(pod, nodes, surroundings.namespaces)
    found = verdicts(attempt, nodes)
    fitting = [verdict.books for verdict in found if verdict.fits]
    message = ""
    if not fitting:
        rejections = [verdict.rejection for verdict in found if verdict.rejection is not None]
        message = attempt.message(rejections) if nodes else NO_NODES
    return Placement(
        verdicts=found,
        message=message,
        best=_best(pod, fitting),
        remedies=remedies(attempt.request, found),
        too_large=too_large(attempt.request, nodes),
        replicas=replicas,
        replicas_fitting=_fitting_replicas(pod, surroundings, replicas) if fitting else 0,
    )


def _best(pod: Pod, fitting: Sequence[NodeBooks]) -> str:
    if not fitting:
        return ""
    scores = scores_of(pod, fitting)
    return min(scores, key=lambda name: (-scores[name], name))


def _fitting_replicas(pod: Pod, surroundings: Surroundings, replicas: int) -> int:
    """Place replicas one after the other, in books of their own."""
    if replicas <= 1:
        return replicas
    nodes = [NodeBooks(books.node, entries=books.entries) for books in surroundings.nodes]
    by_name = {books.node.name: books for books in nodes}
    for number in range(min(replicas, REPLICAS_TRIED_MAX)):
        chosen = choose(pod, nodes, surroundings.namespaces).node
        if not chosen:
            return number
        by_name[chosen].assign(replace(pod, uid=f"{pod.name}/{number}", node_name=chosen))
    return replicas


def scheduler_said(pod: Pod) -> str:
    """The message that the scheduler wrote into the condition `PodScheduled`."""
    for condition in pod.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return "" if condition.reason == GATED_REASON else condition.message
    return ""


def unchecked(pod: Pod, nodes: Sequence[NodeBooks]) -> Iterator[str]:
    """What may also keep the pod from a node, and is not computed."""
    if pod.rules.volumes:
        yield f"volumes: {', '.join(pod.rules.volumes)}"
    if pod.claim_names:
        yield f"device claims: {', '.join(pod.claim_names)}"
    if pod.scheduler_name not in {"", DEFAULT_SCHEDULER}:
        yield f"the rules of the scheduler {pod.scheduler_name}, if it has others"
    if pod.priority_class and pod.priority is None:
        yield f"preemption: the priority of PriorityClass {pod.priority_class} is not known"
    if pod.runtime_class and not pod.overhead:
        yield f"the overhead and nodes of RuntimeClass {pod.runtime_class}"
    known = {name for books in nodes for name in books.allocatable.scalars}
    absent = sorted(Attempt(pod, ()).request.scalars.keys() - known)
    if absent:
        yield f"whether a scheduler extender or a DeviceClass supplies {', '.join(absent)}"
    yield ALWAYS_UNCHECKED
