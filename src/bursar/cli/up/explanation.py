"""The explanation of one row of `bursar up`, as text: what Enter or a click opens."""

from collections.abc import Iterator
from typing import Final

from bursar.app.reports.explain import Placement, explain_pod, needs_surroundings
from bursar.app.reports.overview import (
    EventLine,
    NodeLine,
    Overview,
    WaitingLine,
    quota_percent,
)
from bursar.app.reports.surroundings import Surroundings, surroundings_of
from bursar.cli.explain.wording import obstacle_details, remedy_text, too_large_text
from bursar.cli.output.formats import printable
from bursar.cli.up.tables import Pane, RowKey, quota_name, tables_of
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.demand import INCOMING, pod_requests
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import ZERO
from bursar.core.placement.message import event_text
from bursar.core.placement.remedies.obstacles import NodeVerdict

LISTED_MAX: Final = 200
"""Pods that an explanation lists; the others are only counted."""
GONE: Final = "This row is gone: its object was removed, or is in another state now."


def explanation(overview: Overview, pane: Pane, key: RowKey) -> str:
    """The explanation of a row, in lines that may be long."""
    lines: list[str] = []
    match pane:
        case Pane.NODES:
            for node in overview.nodes:
                if node.name == key[0]:
                    lines += _node(node, overview)
        case Pane.QUOTAS:
            lines += _quota(overview, key)
        case Pane.WAITING:
            for waiting in overview.waiting:
                if (waiting.namespace, waiting.name) == key:
                    lines += _waiting(waiting, overview)
        case Pane.EVENTS:
            for event in overview.events:
                if (event.namespace, event.kind, event.name) == key[:3]:
                    lines += _event(event)
    return "\n".join(map(printable, lines)) or GONE


# ------------------------------------------------------------------ nodes and quotas


def _node(node: NodeLine, overview: Overview) -> Iterator[str]:
    yield f"Node:      {node.name}"
    yield f"Ready:     {'yes' if node.is_ready else 'no'}{', cordoned' * node.is_cordoned}"
    yield f"Pods:      {node.pod_count:,}"
    yield ""
    yield "Requested:"
    width = max((len(load.resource) for load in node.loads), default=0)
    for load in node.loads:
        full = "  full" if load.is_full else ""
        yield (
            f"  {load.resource.ljust(width)}  {load.requested} of {load.allocatable}, "
            f"{load.percent}%{full}"
        )
    pods = [
        pod for pod in overview.objects.pods if pod.node_name == node.name and not pod.is_terminated
    ]
    if pods:
        yield ""
        yield "Pods on it:"
        yield from (f"  {_requests_text(pod)}" for pod in pods[:LISTED_MAX])
        yield from _rest(len(pods))


def _requests_text(pod: Pod) -> str:
    requests = pod_requests(pod, INCOMING)
    named = ", ".join(f"{name} {amount}" for name, amount in sorted(requests.items()))
    return f"{pod.namespace}/{pod.name}: {named or 'requests nothing'}"


def _rest(count: int) -> Iterator[str]:
    if count > LISTED_MAX:
        yield f"  and {count - LISTED_MAX:,} more"


def _quota(overview: Overview, key: RowKey) -> Iterator[str]:
    if key[0] == "limits":
        rows = tables_of(overview)[Pane.QUOTAS].rows
        yield from (row.detail for row in rows if row.key[:2] == key[:2])
        yield ""
        yield "A LimitRange sets defaults in new pods of its namespace and refuses pods outside it."
        return
    _, kind, name, _ = key
    for line in overview.quotas:
        if (line.key.kind.value, quota_name(line.key)) != (kind, name):
            continue
        yield f"Quota:     {name}"
        yield f"Kind:      {kind}"
        yield ""
        yield "Used:"
        width = max(map(len, line.hard), default=0)
        for resource, hard in sorted(line.hard.items()):
            used = line.used.get(resource, ZERO)
            note = "  exhausted" if used >= hard else ""
            note += "  not counted" if resource in line.uncounted else ""
            share = quota_percent(line, resource)
            yield f"  {resource.ljust(width)}  {used} of {hard}, {share}%{note}"
        waiting = [each for each in overview.waiting if f" {line.key.name}," in each.reason]
        if waiting:
            yield ""
            yield "Pods that wait for it, in order of release:"
            yield from (
                f"  {each.position or '-'}  {each.namespace}/{each.name}"
                for each in waiting[:LISTED_MAX]
            )
            yield from _rest(len(waiting))


# ------------------------------------------------------------------ pods and events


def _waiting(line: WaitingLine, overview: Overview) -> Iterator[str]:
    yield f"Pod:       {line.namespace}/{line.name}"
    yield f"State:     {line.state.value}"
    yield f"Priority:  {line.priority}"
    if line.position is not None:
        yield f"Position:  {line.position:,} in the queue"
    pod = next(
        (
            pod
            for pod in overview.objects.pods
            if (pod.namespace, pod.name) == (line.namespace, line.name)
        ),
        None,
    )
    if pod is not None:
        yield f"Requests:  {_requests_text(pod).partition(': ')[2]}"
    yield ""
    yield "Why it waits:"
    yield f"  {line.reason}"
    if line.ahead_count:
        yield ""
        yield f"Released before it, of the pods that need the same quota: {line.ahead_count:,}"
        yield from (f"  {ahead}" for ahead in line.ahead)
        if line.ahead_count > len(line.ahead):
            yield f"  and {line.ahead_count - len(line.ahead):,} more"
    if pod is not None:
        yield from _explained(pod, overview)


def _explained(pod: Pod, overview: Overview) -> Iterator[str]:
    """What `bursar explain pod` says of nodes, remedies and next steps."""
    objects = overview.objects
    around = (
        surroundings_of(objects.nodes, objects.pods) if needs_surroundings(pod) else Surroundings()
    )
    found = explain_pod(with_defaults(pod), around)
    if found.placement is not None:
        yield from _placement(found.placement)
    if found.next_steps:
        yield ""
        yield from (f"Next: {step}" for step in found.next_steps)


def _placement(placement: Placement) -> Iterator[str]:
    if placement.message:
        yield ""
        yield "The scheduler's event:"
        yield f"  {event_text(placement.message)}"
    if placement.too_large:
        yield ""
        yield "Larger than any node:"
        yield from (f"  {too_large_text(each)}" for each in placement.too_large)
    yield ""
    yield "Nodes:"
    yield from (f"  {_verdict_text(verdict)}" for verdict in placement.verdicts[:LISTED_MAX])
    yield from _rest(len(placement.verdicts))
    if placement.remedies:
        yield ""
        yield "To let it run, do one of these:"
        yield from (f"  - {remedy_text(remedy)}" for remedy in placement.remedies)


def _verdict_text(verdict: NodeVerdict) -> str:
    if verdict.rejection is None:
        return f"{verdict.node.name}: fits"
    reasons = ", ".join(verdict.rejection.reasons)
    lacks = [
        f"{lack.missing_amount} {lack.resource} missing of {lack.requested_amount}"
        for lack in verdict.shortfalls
    ]
    return "; ".join((f"{verdict.node.name}: {reasons}", *lacks, *obstacle_details(verdict)))


def _event(event: EventLine) -> Iterator[str]:
    name = f"{event.namespace}/{event.name}" if event.namespace else event.name
    times = f", {event.count:,} times" if event.count > 1 else ""
    kind = "Warning" if event.is_warning else "Normal"
    yield f"{event.time.astimezone():%Y-%m-%d %H:%M:%S}  {kind}  {event.reason}{times}"
    yield f"{event.kind} {name}"
    yield f"  {event.note}"
    yield ""
