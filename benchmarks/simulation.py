"""The embedded cluster: pods of a Deployment placed on 50 nodes, by their number.

The simulation runs in virtual time, so its speed is that of the controllers, the scheduler and
the store alone. Four times as many pods should take little more than four times as long.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator
from random import Random

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.simulation.pod_lifecycle import Pace
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import DEPLOYMENTS, NODES, PODS
from bursar.app.cluster.ports import Query
from ratio import Ratio

NODE_COUNT = 50
MANY, FEW = 1_000, 250
ROUNDS = 3
NAMESPACE = "default"


def node(name: str) -> dict[str, object]:
    amounts = {"cpu": "20", "memory": "16Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"bursar.io/simulated": "true"}}
    return {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}


def deployment(replicas: int) -> dict[str, object]:
    labels = {"app": "web"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


async def placed_per_second(count: int) -> float:
    clock, random = VirtualClock(), Random(1)  # noqa: S311 - names, not secrets
    cluster = MemoryCluster(clock, source=random)
    async with Simulation(cluster, clock, pace=Pace(heartbeat=300)):
        for number in range(NODE_COUNT):
            await cluster.create(NODES, node(f"n{number:02}"))
        await cluster.create(DEPLOYMENTS, deployment(count), namespace=NAMESPACE)
        began = time.perf_counter()
        await clock.advance(10)
        took = time.perf_counter() - began
    running = await cluster.list(PODS, Query(field_selector="status.phase=Running"))
    assert len(running.items) == count
    return count / took


def measure() -> Iterator[Ratio]:
    pairs = [
        (asyncio.run(placed_per_second(MANY)), asyncio.run(placed_per_second(FEW)))
        for _ in range(ROUNDS)
    ]
    many, few = (statistics.median(column) for column in zip(*pairs, strict=True))
    yield Ratio("embedded: 1,000 pods placed", many, "250 pods", few, "pods/s", "> 0.5")
