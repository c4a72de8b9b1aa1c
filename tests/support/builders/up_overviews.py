"""Overviews of made-up clusters for the terminal application of `bursar up`: few and many pods."""

from datetime import UTC, datetime, timedelta

from bursar.app.quota.views.read_model import BooksView, QueuePlace, QuotaLine
from bursar.app.reports.overview import EventLine, Overview, Policies, overview
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import Quantity
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE, QuotaKey, QuotaKind
from support.builders.manifests import node_manifest, pod_manifest
from support.builders.random_objects import as_node, as_pod

NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
READY = [{"type": "Ready", "status": "True"}]
NODE = "cpu=7800m memory=30Gi ephemeral-storage=90Gi pods=110"


def cluster_of(pods: int) -> Overview:
    """A cluster with this many pods, of which nine in ten wait."""
    placed = max(1, pods // 10)
    nodes = nodes_of(pods)
    running = [
        as_pod(
            pod_manifest(
                f"shop/web-{number:04}",
                requests="cpu=500m memory=2Gi",
                phase="Running",
                node=f"node-{number % (len(nodes) - 1)}",
            )
        )
        for number in range(placed)
    ]
    gated = [
        as_pod(pod_manifest(f"research/train-{number:04}", GATE, requests="cpu=2"))
        for number in range(pods - placed - 1)
    ]
    books = books_of([PodKey(pod.namespace, pod.name) for pod in gated])
    events = Policies(events=tuple(events_of(min(pods, 200))))
    return overview(nodes, [*running, *gated, refused()], books, events)


def nodes_of(pods: int) -> list[Node]:
    numbers = range(max(3, min(40, pods // 100)))
    amounts = {f"node-{number}": NODE for number in numbers}
    amounts["gpu"] = f"{NODE} nvidia.com/gpu=4"
    return [as_node(node_manifest(name, text, conditions=READY)) for name, text in amounts.items()]


def refused() -> Pod:
    """A pod that no node takes."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/4 nodes are available: 4 Insufficient cpu. no new claims to "
        "deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful "
        "for scheduling.",
    }
    status = {"phase": "Pending", "conditions": [condition]}
    return as_pod(pod_manifest("shop/yearly-report", requests="cpu=12") | {"status": status})


def books_of(keys: list[PodKey]) -> BooksView:
    """Two quotas, and pods that wait for one of them in this order."""
    return BooksView(
        quotas=(
            quota("research", "gpus", {"requests.nvidia.com/gpu": ("2", "2"), "pods": ("2", "10")}),
            quota(
                "shop", "compute", {"requests.cpu": ("3", "4"), "requests.memory": ("2Gi", "8Gi")}
            ),
        ),
        reasons=dict.fromkeys(
            keys,
            "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: "
            "requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2; missing: "
            "requests.nvidia.com/gpu=1",
        ),
        places={
            key: QueuePlace(position, position - 1, tuple(keys[: min(10, position - 1)]))
            for position, key in enumerate(keys, 1)
        },
    )


def quota(namespace: str, name: str, amounts: dict[str, tuple[str, str]]) -> QuotaLine:
    """A quota with used and hard amounts by resource."""
    return QuotaLine(
        key=QuotaKey(QuotaKind.NAMESPACED, namespace, name),
        used={key: Quantity.parse(used) for key, (used, _) in amounts.items()},
        hard={key: Quantity.parse(hard) for key, (_, hard) in amounts.items()},
        summary="",
    )


def events_of(count: int) -> list[EventLine]:
    """The newest first, one each second before noon."""
    kinds = (
        ("Released", "the quotas have room, and the gate was removed", False),
        ("Placed", "on node-1, requests cpu 500m, memory 2Gi", False),
        ("QuotaExceeded", "exceeded quota: gpus, missing: requests.nvidia.com/gpu=1", True),
    )
    return [
        EventLine(
            time=NOON - timedelta(seconds=number),
            namespace="research",
            kind="Pod",
            name=f"train-{number:04}",
            reason=kinds[number % 3][0],
            note=kinds[number % 3][1],
            is_warning=kinds[number % 3][2],
            count=1 + (number % 3 == 2) * number,
        )
        for number in range(count)
    ]
