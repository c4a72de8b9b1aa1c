"""A tenant's pods beside a hostile tenant, under one cluster quota on a real API server.

Alice creates pods at a steady pace and deletes each as soon as it is released. First she is
alone; then Mallory shares the quota and does everything that `hostile_means` lists at once.
The rate at which Alice's pods are released and the memory of the controller are compared.

`python benchmarks/hostile_tenant.py SECONDS` runs the hostile part for so long; 300 if not given.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from assets import ensure
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.kubeconfig.config import load_kubeconfig
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import EventKind, Key, NotFoundError, Query
from bursar.app.install.documents import MEMORY_VARIABLES
from bursar.core.quota.targeting import GATING_LABEL
from controlplane import LOOPBACK, ControlPlane
from hostile_means import PRIORITY_CLASS, Target, attack
from program import Program, free_port
from ratio import Ratio

ALONE_SECONDS = 60
HOSTILE_SECONDS = 300
SETTLE_SECONDS = 5
GATES_SECONDS_MAX = 60
PACE_PER_SECOND = 20
IN_FLIGHT_MAX = 16
ALICE, MALLORY, HOME = "alice", "mallory", "aaq"
TEAM = "example.com/team"
HARD = {"requests.cpu": "100", "pods": "400"}
COMMAND = str(Path(sys.executable).with_name("bursar"))


class Phase(NamedTuple):
    """What was measured in one part of the run."""

    created: int
    released: int
    seconds: float
    rss_mb: float

    @property
    def rate(self) -> float:
        return self.released / self.seconds


def measure(seconds: int = HOSTILE_SECONDS) -> Iterator[Ratio]:
    alone, hostile, refused = asyncio.run(_phases(seconds))
    for name, phase in (("alone", alone), ("hostile", hostile)):
        print(f"  {name}: {phase}", file=sys.stderr, flush=True)
    print(f"  answers to Mallory: {dict(sorted(refused.items()))}", file=sys.stderr, flush=True)
    yield Ratio(
        "pods released, hostile tenant",
        *(hostile.rate, "without him", alone.rate, "pods/s", ">= 0.8"),
    )
    yield Ratio(
        "controller beside a hostile tenant",
        *(hostile.rss_mb, "without him", alone.rss_mb, "MB RSS", "<= 1.2"),
    )


async def _phases(seconds: int) -> tuple[Phase, Phase, dict[str, int]]:
    with _installed() as (plane, controller, target):
        async with _client(str(plane.kubeconfig)) as client:
            await _phase(client, controller, SETTLE_SECONDS)
            alone = await _phase(client, controller, ALONE_SECONDS)
            async with attack(plane, target) as refused:
                await asyncio.sleep(SETTLE_SECONDS)
                hostile = await _phase(client, controller, seconds)
        assert controller.is_running, controller.log_end(40)
        return alone, hostile, refused


async def _phase(client: KubeClient, controller: Program, seconds: int) -> Phase:
    alice = Alice(client)
    began = time.monotonic()
    async with alice.working():
        await asyncio.sleep(seconds)
        took = time.monotonic() - began
        return Phase(alice.created, alice.released, took, _resident_megabytes(controller))


def _resident_megabytes(program: Program) -> float:
    pages = int(Path(f"/proc/{program.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class Alice:
    """A well-behaved tenant. She creates pods, and deletes those that were released."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._run = f"{time.monotonic_ns():x}"
        self.created = 0
        self._deleted: set[str] = set()

    @property
    def released(self) -> int:
        return len(self._deleted)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._create()), asyncio.create_task(self._follow())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    async def _create(self) -> None:
        """At a steady pace: a slow answer delays no later pod."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        async with asyncio.TaskGroup() as tasks:
            number = 0
            while True:
                due = began + number / PACE_PER_SECOND
                await asyncio.sleep(max(0.0, due - loop.time()))
                tasks.create_task(self._create_one(f"{self._run}-{number}", slots))
                number += 1

    async def _create_one(self, name: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            await self._client.create(PODS, a_pod(name, "100m"), namespace=ALICE)
            self.created += 1

    async def _follow(self) -> None:
        """List and watch, again when the API server ends the watch of a slow reader."""
        query = Query(namespace=ALICE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                page = await self._client.list(PODS, query)
                for body in page.items:
                    self._see(body, tasks)
                stream = self._client.watch(PODS, query, resource_version=page.resource_version)
                async for event in stream:
                    if event.kind is EventKind.MODIFIED:
                        self._see(event.body, tasks)

    def _see(self, body: bytes, tasks: asyncio.TaskGroup) -> None:
        """Delete a pod that was released."""
        pod = json.loads(body)
        name = pod["metadata"]["name"]
        if pod["spec"].get("schedulingGates") or not name.startswith(self._run):
            return
        if name not in self._deleted:
            self._deleted.add(name)
            tasks.create_task(self._delete(name))

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFoundError):
            await self._client.delete(PODS, Key(ALICE, name))


def a_pod(name: str, cpu: str) -> dict:
    container = {
        "name": "c",
        "image": "example.com/c",
        "resources": {"requests": {"cpu": cpu}},
    }
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


# ------------------------------------------------------------------ the cluster


@contextmanager
def _installed() -> Iterator[tuple[ControlPlane, Program, Target]]:
    plane = ControlPlane()
    plane.start(parts=[plane.etcd, plane.apiserver])
    programs: list[Program] = []
    try:
        manifests = _run([COMMAND, "manifests", "crds", "rbac", "policies"])
        _apply(plane, manifests)
        # Policies refer to kinds that have to be established first.
        _apply(plane, manifests)
        controller, leader_port = _controller(plane)
        webhook, webhook_port = _webhook(plane)
        programs += [controller, webhook]
        for each in programs:
            each.start()
        _prepare(plane)
        yield plane, controller, Target(MALLORY, leader_port, webhook_port)
    finally:
        for each in programs:
            each.stop()
        plane.stop()


def _run(command: list[str], stdin: str = "") -> str:
    return subprocess.run(command, input=stdin, check=True, capture_output=True, text=True).stdout


def _apply(plane: ControlPlane, manifests: str) -> None:
    command = [str(ensure("kubectl")), f"--kubeconfig={plane.kubeconfig}", "apply"]
    for _ in range(30):
        done = subprocess.run(
            [*command, "--server-side", "-f", "-"],
            input=manifests,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return
        time.sleep(1)
    raise AssertionError(done.stderr)


def _controller(plane: ControlPlane) -> tuple[Program, int]:
    port = free_port()
    name = f"{HOME}-controller"
    options = [
        *("controller", f"--namespace={HOME}", f"--bind={LOOPBACK}:{port}"),
        f"--tls-dir={_serving_pair(plane, name, f'aaq-controller.{HOME}.svc')}",
        f"--advertise=https://{LOOPBACK}:{port}",
        f"--kubeconfig={_kubeconfig(plane, 'aaq-controller')}",
    ]
    return _program(plane, name, options), port


def _webhook(plane: ControlPlane) -> tuple[Program, int]:
    port = free_port()
    name = f"{HOME}-webhook"
    options = [
        *("webhook", f"--namespace={HOME}", f"--bind={LOOPBACK}:{port}"),
        f"--tls-dir={_serving_pair(plane, name, LOOPBACK)}",
        f"--kubeconfig={_kubeconfig(plane, 'aaq-server')}",
    ]
    return _program(plane, name, options), port


def _program(plane: ControlPlane, name: str, options: list[str]) -> Program:
    """A process of Bursar, with the environment that it has as installed."""
    log = plane.folder / f"{name}.log"
    command = ["env", *(f"{each}={value}" for each, value in MEMORY_VARIABLES.items())]
    return Program(name, [*command, COMMAND, *options], log=log, is_ready=lambda: True)


def _kubeconfig(plane: ControlPlane, account: str) -> Path:
    user = f"system:serviceaccount:{HOME}:{account}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
    return plane.write_kubeconfig(account, plane.client(user, *groups))


def _serving_pair(plane: ControlPlane, folder_name: str, name: str) -> Path:
    folder = plane.folder / folder_name
    folder.mkdir()
    pair = plane.server_certificate(name, LOOPBACK)
    (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (folder / "tls.key").write_bytes(pair.key.read_bytes())
    return folder


def _prepare(plane: ControlPlane) -> None:
    """Two tenants under one quota, and a priority class that both may use."""
    labels = {GATING_LABEL: "", TEAM: "both"}
    selector = {"labels": {"matchLabels": {TEAM: "both"}}}
    documents: list[tuple[str, dict]] = [
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": PRIORITY_CLASS}, "value": 1_000_000},
        ),
        (
            "/apis/aaq.kubevirt.io/v1alpha1/applicationawareclusterresourcequotas",
            {
                "apiVersion": "aaq.kubevirt.io/v1alpha1",
                "kind": "ApplicationAwareClusterResourceQuota",
                "metadata": {"name": "shared"},
                "spec": {"quota": {"hard": HARD}, "selector": selector},
            },
        ),
    ]
    for name in (ALICE, MALLORY):
        documents += [
            ("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}),
            (f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}),
        ]
    for path, document in documents:
        code, answer = plane.request("POST", path, document)
        assert code == 201, answer
    _await_gates(plane)


def _await_gates(plane: ControlPlane) -> None:
    """Wait until new pods are gated. Those before would fill the quota, and nobody deletes them."""
    for _ in range(GATES_SECONDS_MAX):
        path = f"/api/v1/namespaces/{ALICE}/pods?dryRun=All"
        _, answer = plane.request("POST", path, a_pod("trial", "100m"))
        if json.loads(answer).get("spec", {}).get("schedulingGates"):
            return
        time.sleep(1)
    raise AssertionError(answer)


@asynccontextmanager
async def _client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    access = load_kubeconfig([kubeconfig], environment=os.environ, clock=SYSTEM_CLOCK)
    limits = Limits(in_flight_max=2 * IN_FLIGHT_MAX)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom(), limits=limits) as client:
        yield client


if __name__ == "__main__":
    for row in measure(int(sys.argv[1]) if sys.argv[1:] else HOSTILE_SECONDS):
        print(f"{row.what}: {row.ours:,.1f} against {row.theirs:,.1f} {row.unit}: {row.ratio:.2f}")
