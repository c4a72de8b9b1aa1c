"""Leader election on a real API server, against others of ours and against client-go's own."""

import asyncio
import contextlib
import http.client
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from assets import ensure
from bursar.adapters.clock import RealClock
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.timing import Timing
from bursar.app.cluster.ports import Key
from controlplane import LOOPBACK, ControlPlane
from program import Program, free_port
from support.kube_access import a_client, access_of

TIMING = Timing(lease_seconds=3, deadline_seconds=2, retry_seconds=0.5)
PAUSE_MAX = TIMING.retry_seconds * 2.2
SLACK_SECONDS = 1.5
"""For a machine that is busy with other things."""


def a_lease() -> Key:
    return Key("default", f"election-{uuid.uuid4().hex[:8]}")


def a_candidate(client: KubeClient, lease: Key, identity: str) -> Election:
    return Election(
        client,
        client,
        RealClock(),
        candidacy=Candidacy(lease=lease, identity=identity, timing=TIMING),
        random=random.random,
    )


def spec_of(plane: ControlPlane, lease: Key) -> dict:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases/{lease.name}"
    status, body = plane.request("GET", path)
    return json.loads(body)["spec"] if status == http.client.OK else {}


async def until(condition: Callable[[], object], seconds: float) -> float:
    """Wait for something that a real program does; how long it took."""
    start = time.monotonic()
    while not await asyncio.to_thread(condition):
        assert time.monotonic() - start < seconds, "it never happened"
        await asyncio.sleep(0.05)
    return time.monotonic() - start


@contextlib.asynccontextmanager
async def standing(election: Election) -> AsyncIterator[asyncio.Task[None]]:
    """A candidate whose work goes on until the block is left."""
    task = asyncio.create_task(election.run(lambda: asyncio.sleep(3600)))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_lease_is_made_renewed_and_released_as_client_go_does(control_plane):
    lease = a_lease()
    async with a_client(access_of(control_plane)) as client:
        election = a_candidate(client, lease, "one")
        async with standing(election):
            await until(lambda: election.is_leader, 5)
            first = spec_of(control_plane, lease)
            await until(lambda: spec_of(control_plane, lease) != first, 5)
            renewed, token = spec_of(control_plane, lease), election.token
            await asyncio.sleep(TIMING.deadline_seconds + 0.5)
            assert election.is_leader
            assert election.trouble is None
        released = spec_of(control_plane, lease)

        second = a_candidate(client, lease, "two")
        async with standing(second):
            assert await until(lambda: second.is_leader, 5) < TIMING.deadline_seconds
            assert second.token > token

    assert first["holderIdentity"] == renewed["holderIdentity"] == "one"
    assert first["leaseDurationSeconds"] == 3
    assert first["acquireTime"] == renewed["acquireTime"] < renewed["renewTime"]
    assert first["leaseTransitions"] == 0
    assert released.get("holderIdentity", "") == ""
    assert released["leaseDurationSeconds"] == 1


async def test_leader_stops_while_the_server_hangs_and_leads_again_afterwards(control_plane):
    async with a_client(access_of(control_plane)) as client:
        election = a_candidate(client, a_lease(), "one")
        async with standing(election):
            await until(lambda: election.is_leader, 5)
            term = election.token
            control_plane.apiserver.pause()
            try:
                stopped = await until(lambda: not election.is_leader, 10)
            finally:
                control_plane.apiserver.resume()
            await until(lambda: election.is_leader, 20)

            assert stopped < TIMING.deadline_seconds + SLACK_SECONDS
            assert election.token > term


def a_rival(plane: ControlPlane, lease: Key, folder: Path) -> Program:
    """A kube-scheduler that stands for our Lease, and schedules nobody's pods."""
    port = free_port()
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "profiles": [{"schedulerName": "rival"}],
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "3s",
            "renewDeadline": "2s",
            "retryPeriod": "500ms",
            "resourceLock": "leases",
            "resourceNamespace": lease.namespace,
            "resourceName": lease.name,
        },
    }
    path = folder / "rival.yaml"
    path.write_text(json.dumps(config))
    arguments = [f"--config={path}", f"--bind-address={LOOPBACK}", f"--secure-port={port}"]
    return Program(
        "rival",
        [str(ensure("kube-scheduler")), *arguments],
        log=folder / "rival.log",
        is_ready=lambda: bool(spec_of(plane, lease)),
    )


async def test_we_and_client_go_take_turns_on_one_lease(control_plane, tmp_path):
    """It leads and we wait; it is killed and we follow; we lead and it waits; we release."""
    lease, ours = a_lease(), "bursar-1"
    rival = a_rival(control_plane, lease, tmp_path)

    def holder() -> str:
        return spec_of(control_plane, lease).get("holderIdentity", "")

    try:
        rival.start()
        await until(lambda: holder() not in ("", ours), 30)
        async with a_client(access_of(control_plane)) as client:
            election = a_candidate(client, lease, ours)
            async with standing(election):
                await asyncio.sleep(TIMING.lease_seconds + 1)
                assert not election.is_leader
                assert election.holder == holder()

                rival.kill()
                waited = await until(lambda: election.is_leader, 20)
                assert waited > TIMING.deadline_seconds
                assert waited < TIMING.lease_seconds + PAUSE_MAX + SLACK_SECONDS
                transitions = election.token.transitions

                rival.start()
                await asyncio.sleep(2 * TIMING.lease_seconds)
                assert election.is_leader
                assert rival.is_running
            waited = await until(lambda: holder() not in ("", ours), 20)

        assert waited < PAUSE_MAX + SLACK_SECONDS
        assert spec_of(control_plane, lease)["leaseTransitions"] == transitions + 1
    finally:
        rival.kill()
