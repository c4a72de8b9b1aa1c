"""The same simulation on a real API server that has no scheduler, controllers or nodes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bursar.adapters.clock import RealClock
from bursar.adapters.memory.simulation.pod_lifecycle import Pace
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.app.cluster.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from support.cluster.access import a_client, access_of
from support.cluster.simulated_life import World, container, name_of, node, node_of, pod, workload

QUICK = Pace(start=0.05, job=0.1, grace_max=0.05, resize=0.05, heartbeat=5, orphan=0.1)


@pytest.fixture
async def world(control_plane, request) -> AsyncIterator[World]:
    namespace = request.node.name.removeprefix("test_").replace("_", "-")[:50]
    faults: list[str] = []
    async with a_client(access_of(control_plane)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        # In a whole cluster a controller makes it, and no pod is admitted without it.
        await client.create(
            SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=namespace
        )
        simulation = Simulation(
            client,
            RealClock(),
            pace=QUICK,
            report=lambda part, error: faults.append(f"{part}: {error!r}"),
        )
        world = World(client, asyncio.sleep, namespace)
        async with simulation:
            yield world
        for held in await world.all(NODES):
            await client.delete(NODES, world.key(NODES, name_of(held)))
    assert faults == []


async def test_workloads_come_up_and_go(world):
    await world.create(NODES, node("a"), node("b"))
    await world.create(
        DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 3}, terminationGracePeriodSeconds=30)
    )
    await world.create(
        STATEFUL_SETS, workload(STATEFUL_SETS, "db", {"replicas": 2, "serviceName": "db"})
    )
    await world.create(DAEMON_SETS, workload(DAEMON_SETS, "agent", {}))
    await world.create(JOBS, workload(JOBS, "sum", {"parallelism": 2, "completions": 3}))

    await world.eventually(lambda: world.phases("web"), ["Running"] * 3)
    await world.eventually(lambda: world.phases("db"), ["Running"] * 2)
    await world.eventually(lambda: world.phases("sum"), ["Succeeded"] * 3)

    assert [name_of(raw) for raw in await world.pods("db")] == ["db-0", "db-1"]
    assert sorted(node_of(raw) for raw in await world.pods("agent")) == ["a", "b"]

    async def completed() -> list[str]:
        return [held["type"] for held in (await world.status(JOBS, "sum")).get("conditions", [])]

    await world.eventually(completed, ["SuccessCriteriaMet", "Complete"])

    await world.scale("web", 1)
    await world.eventually(lambda: world.phases("web"), ["Running"])

    async def counts() -> tuple[int, int]:
        status = await world.status(DEPLOYMENTS, "web")
        return status["replicas"], status["readyReplicas"]

    await world.eventually(counts, (1, 1))
    for resource, name in (
        (DEPLOYMENTS, "web"),
        (STATEFUL_SETS, "db"),
        (DAEMON_SETS, "agent"),
        (JOBS, "sum"),
    ):
        await world.delete(resource, name)
    await world.eventually(world.pods, [])


async def test_a_pod_that_fits_nowhere_says_so_and_goes_when_there_is_room(world):
    await world.create(NODES, node("small", cpu="1"))
    await world.create(PODS, pod("big", containers=[container(cpu="2")]))

    async def reason() -> tuple[str, str]:
        condition = await world.condition("big", "PodScheduled")
        return condition.get("reason", ""), condition.get("message", "")

    message = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    await world.eventually(reason, ("Unschedulable", message))

    async def events() -> list[tuple[str, str]]:
        return [(raw["reason"], raw["note"]) for raw in await world.all(EVENTS)][-1:]

    await world.eventually(events, [("FailedScheduling", message)])
    await world.create(NODES, node("large", cpu="4"))
    await world.eventually(world.phases, ["Running"])

    assert [node_of(raw) for raw in await world.pods()] == ["large"]


async def test_a_running_pod_is_resized_in_place(world):
    await world.create(NODES, node("a", cpu="3"))
    await world.create(PODS, pod("app", containers=[container(cpu="1")]))
    await world.create(PODS, pod("other", containers=[container(cpu="1")]))
    await world.eventually(world.phases, ["Running", "Running"])

    async def resize(cpu: str) -> None:
        change = {"spec": {"containers": [container(cpu=cpu)]}}
        await world.patch(PODS, "app", change, subresource="resize")

    async def given() -> str:
        status = await world.status(PODS, "app")
        return status["containerStatuses"][0]["allocatedResources"]["cpu"]

    async def pending() -> str:
        return (await world.condition("app", "PodResizePending")).get("reason", "")

    await resize("1500m")
    await world.eventually(given, "1500m")
    await resize("2500m")
    await world.eventually(pending, "Deferred")
    await world.delete(PODS, "other")
    await world.eventually(given, "2500m")
    await world.eventually(pending, "")
