"""A node report as plain data, for `-o json` and `-o yaml`: quantities are their text."""

from collections.abc import Mapping
from typing import TypeAlias

from bursar.app.reports.node import Allocation, NodeReport, PodLine, Share, WaitingPod
from bursar.core.model.resources import ResourceList

Document: TypeAlias = dict[str, object]


def as_dict(report: NodeReport) -> Document:
    """The report in camel case. A percentage of something the node does not offer is null."""
    return {
        "name": report.node.name,
        "capacity": _texts(report.node.capacity),
        "allocatable": _texts(report.node.allocatable),
        "pods": [_pod(pod) for pod in report.pods],
        "allocated": {each.resource: _allocation(each) for each in report.allocated},
        "stillFits": _texts(report.free),
        "waiting": [_waiting(pod) for pod in report.waiting],
        "valid": not report.problems,
        "errors": [str(problem) for problem in report.problems],
    }


def _texts(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _pod(pod: PodLine) -> Document:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "requests": _amounts(pod.requests),
        "limits": _amounts(pod.limits),
        "requestsPercent": _percentages(pod.requests),
        "limitsPercent": _percentages(pod.limits),
    }


def _waiting(pod: WaitingPod) -> Document:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "fits": pod.fits,
        "reasons": list(pod.reasons),
        "missing": {
            lack.resource: {
                "reason": lack.reason,
                "requested": str(lack.requested_amount),
                "free": str(lack.free_amount),
            }
            for lack in pod.shortfalls
        },
    }


def _amounts(shares: Mapping[str, Share]) -> dict[str, str]:
    return {name: str(share.amount) for name, share in shares.items()}


def _percentages(shares: Mapping[str, Share]) -> dict[str, int | None]:
    return {name: share.percent for name, share in shares.items()}


def _allocation(allocation: Allocation) -> Document:
    return {
        "requests": str(allocation.requests.amount),
        "limits": str(allocation.limits.amount),
        "requestsPercent": allocation.requests.percent,
        "limitsPercent": allocation.limits.percent,
    }
