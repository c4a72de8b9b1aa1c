"""Life stories of a whole embedded cluster, in virtual time."""

import asyncio
import json
from collections import Counter
from random import Random

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.simulation.pod_lifecycle import Pace
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
)
from bursar.app.cluster.ports import EventKind, Patch, PatchKind
from support.cluster.simulated_life import (
    Raw,
    World,
    container,
    embedded_world,
    name_of,
    node,
    node_of,
    pod,
    workload,
)

CPU = [container(cpu="1")]
ONLY_GPU = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
TOLERANT = [{"key": "gpu", "operator": "Exists"}]


async def placed(world: World, app: str = "") -> list[str]:
    return sorted(node_of(raw) for raw in await world.pods(app))


async def test_a_deployment_is_scaled_exchanged_and_deleted():
    async with embedded_world() as world:
        await world.create(NODES, node("a"), node("b"))
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 4}))
        await world.eventually(lambda: world.phases("web"), ["Running"] * 4)

        assert await placed(world) == ["a", "a", "b", "b"]

        await world.scale("web", 6)
        await world.eventually(lambda: world.phases("web"), ["Running"] * 6)
        old = {name_of(raw) for raw in await world.pods("web")}
        change = {"spec": {"template": {"metadata": {"annotations": {"edition": "2"}}}}}
        await world.patch(DEPLOYMENTS, "web", change)

        async def exchanged() -> tuple[int, int]:
            names = {name_of(raw) for raw in await world.pods("web")}
            return len(names), len(names & old)

        await world.eventually(exchanged, (6, 0))
        await world.pause(5)
        status = await world.status(DEPLOYMENTS, "web")

        assert (status["replicas"], status["updatedReplicas"], status["readyReplicas"]) == (6, 6, 6)

        await world.delete(DEPLOYMENTS, "web")
        await world.eventually(world.pods, [])


async def test_an_exchange_keeps_most_pods_ready_even_without_spare_room():
    async with embedded_world() as world:
        await world.create(NODES, node("a", cpu="4"))
        await world.create(
            DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 4}, containers=CPU)
        )
        await world.eventually(lambda: world.phases("web"), ["Running"] * 4)
        change = {"spec": {"template": {"metadata": {"annotations": {"edition": "2"}}}}}
        await world.patch(DEPLOYMENTS, "web", change)
        fewest = 4
        for _ in range(200):
            await world.pause(0.1)
            fewest = min(fewest, (await world.phases("web")).count("Running"))

        assert fewest >= 3
        assert {raw["metadata"]["annotations"]["edition"] for raw in await world.pods()} == {"2"}
        assert await world.phases("web") == ["Running"] * 4


async def test_pods_of_a_removed_node_are_made_anew_elsewhere():
    async with embedded_world() as world:
        await world.create(NODES, node("a"), node("b"))
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 4}))
        await world.eventually(lambda: world.phases("web"), ["Running"] * 4)
        await world.delete(NODES, "a")
        await world.pause(30)

        assert await placed(world) == ["b"] * 4
        assert await world.phases("web") == ["Running"] * 4


async def test_a_node_that_comes_back_at_once_keeps_its_pods():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(PODS, pod("app"))
        await world.pause(60)
        await world.delete(NODES, "a")
        await world.pause(2)
        await world.create(NODES, node("a"))
        await world.pause(60)

        assert await world.phases() == ["Running"]


async def test_a_gated_pod_waits_until_its_gate_is_lifted():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        await world.pause(60)

        assert await world.phases() == ["Pending"]
        assert await placed(world) == [""]

        lift = Patch(
            kind=PatchKind.JSON, body=[{"op": "remove", "path": "/spec/schedulingGates/0"}]
        )
        await world.cluster.patch(PODS, world.key(PODS, "gated"), lift)
        await world.eventually(world.phases, ["Running"])


async def test_the_more_important_pod_gets_the_place_that_becomes_free():
    async with embedded_world() as world:
        classes = {"low": 1, "high": 1000}
        for name, value in classes.items():
            body = {"metadata": {"name": name}, "value": value}
            await world.create(PRIORITY_CLASSES, body)
        await world.create(NODES, node("a", cpu="1"))
        await world.create(PODS, pod("first", containers=CPU))
        await world.eventually(world.phases, ["Running"])
        await world.create(PODS, pod("unimportant", containers=CPU, priorityClassName="low"))
        await world.pause(10)
        await world.create(PODS, pod("important", containers=CPU, priorityClassName="high"))
        await world.pause(10)

        assert (await world.condition("important", "PodScheduled"))["message"] == (
            "0/1 nodes are available: 1 Insufficient cpu."
        )
        assert (await world.condition("unimportant", "PodScheduled"))["message"] == (
            "0/1 nodes are available: 1 Insufficient cpu."
        )

        await world.delete(PODS, "first")
        await world.pause(10)
        running = [name_of(raw) for raw in await world.pods() if node_of(raw)]

        assert running == ["important"]


async def test_taints_keep_pods_away_until_they_are_taken_off():
    async with embedded_world() as world:
        await world.create(NODES, node("gpu") | {"spec": {"taints": ONLY_GPU}})
        await world.create(PODS, pod("plain"), pod("tolerant", tolerations=TOLERANT))
        await world.pause(10)

        assert [(name_of(raw), node_of(raw)) for raw in await world.pods()] == [
            ("plain", ""),
            ("tolerant", "gpu"),
        ]
        assert (await world.condition("plain", "PodScheduled"))["message"].startswith(
            "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
        )

        await world.patch(NODES, "gpu", {"spec": {"taints": []}})
        await world.eventually(world.phases, ["Running", "Running"])


async def test_a_job_runs_so_many_at_a_time_and_completes():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        spec = {"parallelism": 2, "completions": 5}
        await world.create(JOBS, workload(JOBS, "sum", spec))
        most = 0
        for _ in range(300):
            await world.pause(0.2)
            phases = await world.phases("sum")
            most = max(most, sum(phase != "Succeeded" for phase in phases))
        status = await world.status(JOBS, "sum")

        assert most == 2
        assert await world.phases("sum") == ["Succeeded"] * 5
        assert status["succeeded"] == 5
        assert [held["type"] for held in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]


async def test_numbered_pods_come_in_order_and_go_in_reverse():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(
            STATEFUL_SETS, workload(STATEFUL_SETS, "db", {"replicas": 3, "serviceName": "db"})
        )
        seen: list[list[str]] = []
        for _ in range(100):
            await world.pause(0.1)
            names = [name_of(raw) for raw in await world.pods()]
            if names not in seen:
                seen.append(names)
        await world.scale("db", 1, STATEFUL_SETS)
        for _ in range(100):
            await world.pause(0.1)
            names = [name_of(raw) for raw in await world.pods()]
            if names != seen[-1]:
                seen.append(names)

        assert [names for names in seen if names] == [
            ["db-0"],
            ["db-0", "db-1"],
            ["db-0", "db-1", "db-2"],
            ["db-0", "db-1"],
            ["db-0"],
        ]


async def test_daemons_follow_the_nodes_that_match():
    async with embedded_world() as world:
        await world.create(NODES, node("a", labels={"disk": "fast"}), node("b"))
        await world.create(
            DAEMON_SETS, workload(DAEMON_SETS, "agent", {}, nodeSelector={"disk": "fast"})
        )
        await world.eventually(lambda: world.phases("agent"), ["Running"])
        await world.create(NODES, node("c", labels={"disk": "fast"}))
        await world.eventually(lambda: placed(world), ["a", "c"])
        await world.patch(NODES, "a", {"metadata": {"labels": {"disk": "slow"}}})
        await world.eventually(lambda: placed(world), ["c"])
        await world.pause(5)

        assert (await world.status(DAEMON_SETS, "agent"))["numberReady"] == 1


async def test_a_pod_finishes_when_its_annotation_says_so():
    async with embedded_world() as world:
        await world.create(NODES, node("a", cpu="1"))
        brief = {"bursar.io/finishes-after": "1m30s"}
        await world.create(PODS, pod("brief", annotations=brief, containers=CPU))
        await world.create(PODS, pod("next", containers=CPU))
        await world.pause(90)

        assert await world.phases() == ["Pending", "Running"]

        await world.pause(3)

        assert await world.phases() == ["Running", "Succeeded"]


async def test_a_pod_has_run_while_nobody_simulated_it():
    clock, source = VirtualClock(), Random(1)  # noqa: S311 - names, not secrets
    cluster = MemoryCluster(clock, source=source)
    world = World(cluster, clock.advance, namespace="default")
    brief = {"bursar.io/finishes-after": "1m30s"}
    await world.create(NODES, node("a"))
    await world.create(PODS, pod("brief", annotations=brief))
    async with Simulation(cluster, clock):
        await world.eventually(world.phases, ["Running"])
    await world.pause(60)

    async with Simulation(cluster, clock):
        await world.pause(20)
        assert await world.phases() == ["Running"]

        await world.pause(10)
        assert await world.phases() == ["Succeeded"]


@pytest.mark.parametrize("start_time", [None, "", "yesterday", 7, "2036-01-01T00:00:00Z"])
async def test_a_pod_that_cannot_have_started_when_it_says_starts_now(start_time):
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        brief = pod("brief", annotations={"bursar.io/finishes-after": "30s"}, nodeName="a")
        status = {"phase": "Running", "startTime": start_time}
        await world.cluster.put_as_written(PODS, brief | {"status": status}, namespace="story")
        await world.pause(29)
        assert await world.phases() == ["Running"]

        await world.pause(2)
        assert await world.phases() == ["Succeeded"]


async def test_a_resize_is_granted_deferred_or_impossible():
    async with embedded_world() as world:
        await world.create(NODES, node("a", cpu="4"))
        await world.create(PODS, pod("app", containers=CPU), pod("other", containers=CPU))
        await world.eventually(world.phases, ["Running", "Running"])

        async def resized(cpu: str) -> tuple[str, str]:
            change = {"spec": {"containers": [container(cpu=cpu)]}}
            await world.patch(PODS, "app", change, subresource="resize")
            return await outcome()

        async def outcome() -> tuple[str, str]:
            await world.pause(5)
            status = (await world.status(PODS, "app"))["containerStatuses"][0]
            reason = (await world.condition("app", "PodResizePending")).get("reason", "")
            return status["allocatedResources"]["cpu"], reason

        def room(cpu: str) -> Raw:
            return {"status": {"allocatable": {"cpu": cpu}}}

        assert await resized("2") == ("2", "")
        assert await resized("3500m") == ("2", "Deferred")

        await world.patch(NODES, "a", room("3"), subresource="status")
        assert await outcome() == ("2", "Infeasible")
        await world.patch(NODES, "a", room("5"), subresource="status")
        assert await outcome() == ("3500m", "")


async def test_a_pod_put_on_a_full_node_by_name_is_refused_by_it():
    async with embedded_world() as world:
        await world.create(NODES, node("a", cpu="1"))
        await world.create(PODS, pod("first", containers=CPU))
        await world.eventually(world.phases, ["Running"])
        await world.create(PODS, pod("forced", containers=CPU, nodeName="a"))
        await world.pause(5)
        status = await world.status(PODS, "forced")

        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")


async def test_nodes_report_themselves_alive():
    async with embedded_world() as world:
        stranger = node("stranger")
        stranger["metadata"]["labels"] = {}
        await world.create(NODES, node("a"), stranger)
        await world.pause(100)
        ready = [
            held
            for held in (await world.status(NODES, "a"))["conditions"]
            if held["type"] == "Ready"
        ]

        assert [held["status"] for held in ready] == ["True"]
        assert ready[0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
        assert ready[0]["lastHeartbeatTime"] >= "2026-01-01T00:01:20Z"
        assert not (await world.status(NODES, "stranger")).get("conditions")


async def test_hundreds_of_pods_find_their_place_on_fifty_nodes():
    async with embedded_world(pace=Pace(heartbeat=300)) as world:
        await world.create(NODES, *(node(f"n{number:02}", cpu="20") for number in range(50)))
        await world.create(
            DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 300}, containers=CPU)
        )
        await world.pause(10)

        assert await world.phases() == ["Running"] * 300
        assert Counter(await placed(world)) == {f"n{number:02}": 6 for number in range(50)}


async def history(seed: int) -> list[tuple[str, ...]]:
    """Everything that happens to pods in a small story, moment by moment."""
    events: list[tuple[str, ...]] = []

    async with embedded_world(seed=seed) as world:

        async def record() -> None:
            async for event in world.cluster.watch(PODS, send_initial=True):
                if event.kind is not EventKind.BOOKMARK:
                    raw: Raw = json.loads(event.body)
                    phase = raw.get("status", {}).get("phase", "")
                    events.append(
                        (
                            event.resource_version,
                            event.kind.value,
                            name_of(raw),
                            raw["metadata"]["uid"],
                            phase + node_of(raw),
                        )
                    )

        recorder = asyncio.create_task(record())
        await world.create(NODES, node("a"), node("b"))
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 5}))
        await world.create(JOBS, workload(JOBS, "sum", {"parallelism": 3, "completions": 6}))
        await world.pause(20)
        await world.delete(NODES, "b")
        await world.scale("web", 2)
        await world.pause(60)
        recorder.cancel()
        await asyncio.gather(recorder, return_exceptions=True)
    return events


async def test_the_same_seed_gives_the_same_history():
    first = await history(7)

    assert len(first) > 50
    assert await history(7) == first
    assert await history(8) != first
