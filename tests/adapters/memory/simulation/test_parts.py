"""The parts under bad conditions: watches that end, parts that fail, a world that changes."""

import asyncio
from collections import Counter
from random import Random

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.simulation.inbox import Inbox
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.adapters.memory.simulation.workloads.templates import first_to_go, template_hash
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODS, REPLICA_SETS
from bursar.app.cluster.ports import Key, NotFoundError, UnavailableError
from support.builders.manifests import pod_manifest
from support.cluster.simulated_life import (
    World,
    container,
    embedded_world,
    name_of,
    node,
    node_of,
    pod,
    workload,
)
from support.faults.line import Line
from support.seeds import one_quick

SEEDS = [1, 2, 3]


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a story, not a secret


async def a_cluster() -> tuple[MemoryCluster, VirtualClock]:
    clock = VirtualClock()
    cluster = MemoryCluster(clock, source=seeded(1))
    await cluster.create(NAMESPACES, {"metadata": {"name": "story"}})
    return cluster, clock


async def test_what_went_while_no_watch_was_open_is_still_told():
    cluster, clock = await a_cluster()
    await cluster.create(PODS, pod("kept"), namespace="story")
    await cluster.create(PODS, pod("lost"), namespace="story")
    async with Inbox(cluster, clock, [PODS, NODES]) as inbox:
        first = await inbox.take()
        cluster.cut_watches()
        await clock.settle()
        await cluster.delete(PODS, Key("story", "lost"), grace_seconds=0)
        await cluster.create(PODS, pod("new"), namespace="story")
        await clock.advance(1)
        second = {change.key.name: change.body is not None for change in inbox.drain()}

    assert [change.key.name for change in first] == ["kept", "lost"]
    assert second["new"]
    assert not second["lost"]


async def test_an_empty_inbox_waits_only_so_long():
    cluster, clock = await a_cluster()
    async with Inbox(cluster, clock, [NODES]) as inbox, clock.running():
        assert await inbox.take(5) == []

    assert clock.monotonic() == 5


class Unreliable(Line):
    """A cluster in front of which the network is down now and then."""

    def __init__(self, cluster: MemoryCluster, rng: Random) -> None:
        super().__init__(cluster)
        self._rng, self.is_down = rng, True

    async def pass_on(self, request):
        if request.verb in {"create", "patch"}:
            self._fail_by_chance("the connection broke")
        answer = await request.send()
        if request.verb == "patch":
            self._fail_by_chance("the answer was lost")
        return answer

    def _fail_by_chance(self, message: str) -> None:
        if self.is_down and self._rng.random() < 0.2:
            raise UnavailableError(message)


async def test_a_part_that_fails_is_reported_and_starts_again():
    cluster, clock = await a_cluster()
    network = Unreliable(cluster, seeded(3))
    faults: Counter[str] = Counter()

    def report(part: str, error: Exception) -> None:
        assert isinstance(error, UnavailableError)
        faults[part] += 1

    world = World(cluster, clock.advance)
    async with Simulation(network, clock, report=report):
        await world.create(NODES, node("a"), node("b"))
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 5}))
        await world.pause(600)
        network.is_down = False
        await world.pause(60)

    assert set(faults) == {"workloads", "scheduler", "nodes"}
    assert await world.phases() == ["Running"] * 5


async def test_nothing_is_left_running_when_a_simulation_ends():
    before = asyncio.all_tasks()
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 2}))
        await world.pause(5)

        assert len(asyncio.all_tasks()) > len(before)

    assert asyncio.all_tasks() == before


async def test_an_object_that_makes_no_sense_does_not_stop_the_others():
    async with embedded_world() as world:
        await world.create(DEPLOYMENTS, {"metadata": {"name": "empty"}, "spec": {"replicas": 2}})
        await world.create(
            DEPLOYMENTS, {"metadata": {"name": "odd"}, "spec": {"template": ["not a template"]}}
        )
        await world.create(NODES, node("odd", cpu="plenty"), node("a"))
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 1}))
        await world.eventually(world.phases, ["Running"])

        assert [node_of(raw) for raw in await world.pods()] == ["a"]


async def crowded(world: World) -> list[str]:
    """Nodes with more requested on them than they have, counted by hand."""
    room = {
        name_of(raw): int(raw["status"]["allocatable"]["cpu"]) for raw in await world.all(NODES)
    }
    taken: Counter[str] = Counter()
    for raw in await world.pods():
        if raw.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            taken[node_of(raw)] += 1
    return [name for name, count in taken.items() if name in room and count > room[name]]


@pytest.mark.parametrize("seed", one_quick(SEEDS))
async def test_no_node_is_ever_overbooked_and_everything_comes_to_rest(seed):
    rng = seeded(seed)
    cpu = [container(cpu="1")]
    async with embedded_world(seed=seed) as world:
        await world.create(NODES, *(node(f"n{number}", cpu="3") for number in range(4)))
        await world.create(
            DEPLOYMENTS,
            *(workload(DEPLOYMENTS, f"d{i}", {"replicas": 2}, containers=cpu) for i in range(3)),
        )
        for turn in range(60):
            match rng.randrange(6):
                case 0:
                    await world.scale(f"d{rng.randrange(3)}", rng.randrange(6))
                case 1:
                    world.cluster.cut_watches()
                case 2:
                    spec = {"parallelism": 2, "completions": 2}
                    job = workload(JOBS, f"job-{turn}", spec, containers=cpu)
                    await world.create(JOBS, job)
                case 3:
                    held = await world.pods()
                    if held:
                        await world.delete(PODS, name_of(rng.choice(held)))
                case 4:
                    name = f"n{rng.randrange(4)}"
                    try:
                        await world.delete(NODES, name)
                    except NotFoundError:
                        await world.create(NODES, node(name, cpu="3"))
                case _:
                    change = {"metadata": {"annotations": {"edition": str(turn)}}}
                    await world.patch(
                        DEPLOYMENTS, f"d{rng.randrange(3)}", {"spec": {"template": change}}
                    )
            await world.pause(rng.random() * 5)

            assert await crowded(world) == []

        present = {name_of(raw) for raw in await world.all(NODES)}
        await world.create(
            NODES, *(node(f"n{i}", cpu="30") for i in range(4, 5) if f"n{i}" not in present)
        )
        await world.pause(400)

        assert set(await world.phases()) <= {"Running", "Succeeded"}
        for number in range(3):
            wanted = (await world.get(DEPLOYMENTS, f"d{number}"))["spec"]["replicas"]
            assert (await world.phases(f"d{number}")).count("Running") == wanted


async def test_replica_sets_are_named_after_their_template():
    async with embedded_world() as world:
        body = workload(DEPLOYMENTS, "web", {"replicas": 1})
        await world.create(DEPLOYMENTS, body)
        await world.pause(1)
        stored = await world.get(DEPLOYMENTS, "web")
        sets = [name_of(raw) for raw in await world.all(REPLICA_SETS)]
        owned = [raw["metadata"]["ownerReferences"][0]["name"] for raw in await world.pods()]

        assert sets == [f"web-{template_hash(stored['spec']['template'])}"]
        assert owned == sets


def test_who_goes_first_has_no_node_then_does_not_run_then_is_youngest():
    def a_pod(name: str, second: int, node: str = "", phase: str = "Pending") -> dict:
        metadata = {"creationTimestamp": f"2026-01-01T00:00:0{second}Z"}
        return pod_manifest(name, node=node, phase=phase, metadata=metadata)

    pods = [
        a_pod("old", 1, "n", "Running"),
        a_pod("young", 2, "n", "Running"),
        a_pod("bound", 1, "n"),
        a_pod("waiting", 1),
    ]

    assert [name_of(raw) for raw in first_to_go(pods)] == ["waiting", "bound", "young", "old"]
