"""The cluster at a glance as a plain line and as a document."""

from typing import TypeAlias

from bursar.app.counting.uncounted import what_would_count
from bursar.app.quota.views.read_model import QuotaLine
from bursar.app.reports.overview import EventLine, Full, NodeLine, Overview, PodState

Document: TypeAlias = dict[str, object]


def as_dict(overview: Overview) -> Document:
    """The state as plain data; quantities are their text."""
    return {
        "nodes": [_node(node) for node in overview.nodes],
        "pods": {state.value: overview.counts.get(state, 0) for state in PodState},
        "waiting": [
            {
                "namespace": line.namespace,
                "name": line.name,
                "state": line.state.value,
                "reason": line.reason,
                "priority": line.priority,
                "position": line.position,
            }
            for line in overview.waiting
        ],
        "quotas": [_quota(line) for line in overview.quotas],
        "full": [_full(each) for each in overview.full],
        "events": [_event(line) for line in overview.events],
    }


def _event(line: EventLine) -> Document:
    return {
        "time": line.time.isoformat(timespec="seconds"),
        "type": "Warning" if line.is_warning else "Normal",
        "reason": line.reason,
        "kind": line.kind,
        "namespace": line.namespace,
        "name": line.name,
        "note": line.note,
        "count": line.count,
    }


def _full(full: Full) -> Document:
    if full.quota is None:
        return {"node": full.node, "resource": full.resource}
    key = full.quota
    return {
        "quota": key.name,
        "kind": key.kind.value,
        "namespace": key.namespace,
        "resource": full.resource,
    }


def _node(node: NodeLine) -> Document:
    return {
        "name": node.name,
        "ready": node.is_ready,
        "cordoned": node.is_cordoned,
        "pods": node.pod_count,
        "resources": {
            load.resource: {
                "requested": str(load.requested),
                "allocatable": str(load.allocatable),
                "percent": load.percent,
            }
            for load in node.loads
        },
    }


def _quota(line: QuotaLine) -> Document:
    return {
        "kind": line.key.kind.value,
        "namespace": line.key.namespace,
        "name": line.key.name,
        "hard": {name: str(amount) for name, amount in line.hard.items()},
        "used": {name: str(amount) for name, amount in line.used.items()},
        "notCounted": [
            {"resource": name, "message": what_would_count(name)} for name in line.uncounted
        ],
    }


def summary(overview: Overview) -> str:
    """One line: how many pods are in which state."""
    told = [
        f"{overview.counts[state]} {state.value}"
        for state in PodState
        if overview.counts.get(state)
    ]
    return ", ".join(told) or "no pods"
