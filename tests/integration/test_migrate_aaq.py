"""`bursar migrate aaq` on a real control plane: there and back, under load, killed at each step."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import CRDS, DEPLOYMENTS, PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import ClusterError, Key, Query
from bursar.app.migration.gather import read_state
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.app.quota.managed.names import MANAGED_SUFFIX
from bursar.core.quota.quota import GATE
from controlplane import ControlPlane
from support.cluster.control_plane import started_control_plane
from support.migration.aaq_objects import HOME, bursars_manifests
from support.migration.aaq_world import gates_of
from support.migration.running_aaq import Programs, running_aaq
from support.processes.command_line import COMMAND, run_bursar
from support.quota.controller_processes import Administrator, Lane, gated_pod, watched
from support.until import until

LIMIT = 10
WAITING = 5
LOAD_SECONDS = 0.4
"""Between two pods of the load."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """With simulated nodes, so that Deployments have pods that are ready and that end."""
    with started_control_plane(nodes=1) as plane:
        yield plane


@dataclass
class Load:
    """A tenant that creates pods all the time. The one before goes, if it waits."""

    client: KubeClient
    namespace: str
    created: int = 0
    refused: list[str] = field(default_factory=list)
    wrong_gates: list[list[str]] = field(default_factory=list)

    async def run(self) -> None:
        before: Key | None = None
        while True:
            pod = gated_pod(f"load-{uuid.uuid4().hex[:8]}")
            del pod["spec"]["schedulingGates"]
            try:
                made = json.loads(await self.client.create(PODS, pod, namespace=self.namespace))
            except ClusterError as error:
                self.refused.append(error.message)
            else:
                self.created += 1
                if gates_of(made) != [GATE]:
                    self.wrong_gates.append(gates_of(made))
                if before is not None:
                    with contextlib.suppress(ClusterError):
                        await self.client.delete(PODS, before, grace_seconds=0)
                before = Key(self.namespace, made["metadata"]["name"])
            await asyncio.sleep(LOAD_SECONDS)


@contextlib.asynccontextmanager
async def under_load(client: KubeClient, namespace: str) -> AsyncIterator[Load]:
    load = Load(client, namespace)
    task = asyncio.create_task(load.run())
    try:
        yield load
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def migrate(plane: ControlPlane, *arguments: str) -> list[str]:
    """Run the command, kill it after each step, and run it again until it has nothing left to do.

    Returns the steps in the order in which they were done.
    """
    done_steps: list[str] = []
    while True:
        process = await asyncio.create_subprocess_exec(
            *(str(COMMAND), "migrate", "aaq", "--yes", "--kubeconfig", str(plane.kubeconfig)),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        said = []
        is_killed = False
        async for line in process.stderr:
            text = line.decode().rstrip()
            said.append(text)
            step = text.partition(":")[0]
            if text.endswith(": done") and step not in done_steps:
                done_steps.append(step)
                process.kill()
                is_killed = True
                break
        code = await process.wait()
        if not is_killed:
            assert code == 0, said
            return done_steps


async def a_team(people: Administrator) -> str:
    """A namespace with a quota, and the ResourceQuota that AAQ keeps for it."""
    namespace = await people.namespace("team")
    hard = {"pods": str(LIMIT), "services": "3"}
    await people.quota(Key(namespace, "q"), hard)
    quota = await people.read(APPLICATION_QUOTAS, Key(namespace, "q"))
    owner = {
        "apiVersion": quota["apiVersion"],
        "kind": quota["kind"],
        "name": "q",
        "uid": quota["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = {
        "metadata": {
            "name": f"q{MANAGED_SUFFIX}",
            "labels": {"aaq.kubevirt.io": "true"},
            "ownerReferences": [owner],
        },
        "spec": {"hard": {"services": "3"}},
    }
    await people.client.create(RESOURCE_QUOTAS, body, namespace=namespace)
    return namespace


def written(folder: Path, *parts: str) -> str:
    path = folder / "bursar.yaml"
    path.write_text(yaml.safe_dump_all(bursars_manifests(*parts)))
    return str(path)


async def uids(people: Administrator, namespace: str) -> dict[str, str]:
    """Of what must not be made anew."""
    keys = {
        "quota": (APPLICATION_QUOTAS, Key(namespace, "q")),
        "managed": (RESOURCE_QUOTAS, Key(namespace, f"q{MANAGED_SUFFIX}")),
        "definition": (CRDS, Key("", str(APPLICATION_QUOTAS))),
    }
    return {name: (await people.read(*key))["metadata"]["uid"] for name, key in keys.items()}


async def test_there_and_back_under_load_with_a_crash_after_each_step(control_plane, tmp_path):
    manifests = written(tmp_path)
    async with running_aaq(control_plane, tmp_path) as programs:
        people = Administrator(programs.admin)
        await until(lambda: "aaq-controller" in programs.running, "AAQ runs")
        namespace = await a_team(people)
        programs.limits[namespace] = LIMIT
        async with watched(programs.admin, team=Lane(LIMIT)) as turnstile:
            turnstile.assign("team", namespace)
            await gate_of_aaq(people, namespace)
            for _ in range(LIMIT + WAITING):
                await people.pod(Key(namespace, f"p-{uuid.uuid4().hex[:8]}"), **ungated())
            await until(lambda: turnstile.released == LIMIT, "AAQ releases pods")
            before = await uids(people, namespace)
            said = run_bursar(
                *("migrate", "aaq", "-f", manifests, "-o", "json"),
                *("--kubeconfig", str(control_plane.kubeconfig)),
            )
            assert said.code == 0, said.out + said.err
            assert json.loads(said.out)["state"] == "ready"

            async with under_load(programs.admin, namespace) as load:
                steps = await migrate(control_plane, "--apply", "-f", manifests)
                await assert_bursar_works(people, programs, namespace, turnstile)
                assert (load.refused, load.wrong_gates) == ([], [])
            assert steps[0] == "guard"
            assert steps[-1] == "end-guard"
            assert await uids(people, namespace) == before

            async with under_load(programs.admin, namespace) as load:
                await migrate(control_plane, "--back", "-f", manifests)
                await until(lambda: load.created > 5, "pods are created")
                assert load.wrong_gates == []
            assert "aaq-controller" in programs.running
            assert "bursar" not in programs.running
            assert await uids(people, namespace) == before
            await until(lambda: turnstile.released == LIMIT, "the quota is used")
            assert (turnstile.excesses, programs.wrongs) == ([], [])


def ungated() -> dict:
    """Overrides the gate that pods of these tests bring, so that the webhook has to add it."""
    return {"schedulingGates": []}


async def gate_of_aaq(people: Administrator, namespace: str) -> None:
    """API servers learn of a webhook after a moment."""
    pod = gated_pod("probe", **ungated())

    async def is_gated() -> bool:
        made = await people.client.create(PODS, pod, namespace=namespace, is_dry_run=True)
        return gates_of(json.loads(made)) == [GATE]

    await until(is_gated, "AAQ's webhook gates pods")


async def assert_bursar_works(
    people: Administrator, programs: Programs, namespace: str, turnstile
) -> None:
    state = await read_state(people.client, HOME, None)
    assert not state.has_guard
    assert (state.owned, state.job_queues) == ((), ())
    assert (state.mutating, state.server) == (None, None)
    assert programs.running == {"bursar"}
    operator = await people.read(DEPLOYMENTS, Key(HOME, "aaq-operator"))
    assert operator["spec"]["replicas"] == 0
    await until(lambda: turnstile.released == LIMIT, "Bursar keeps the quota in use")
    # A pod that ends makes room, which Bursar gives to one that waits.
    page = await people.client.list(PODS, Query(namespace=namespace))
    free = [pod for pod in map(json.loads, page.items) if not gates_of(pod)]
    victim = Key(namespace, free[0]["metadata"]["name"])
    await people.client.delete(PODS, victim, grace_seconds=0)
    lane = turnstile.lanes["team"]

    def is_replaced() -> bool:
        return free[0]["metadata"]["uid"] not in lane.released and len(lane.released) == LIMIT

    await until(is_replaced, "Bursar releases the next pod")
