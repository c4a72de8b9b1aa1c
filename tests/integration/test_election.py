"""Leader election on a real API server, against others of ours and against client-go's own."""

import asyncio
import contextlib
import http.client
import json
import random
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

from assets import ensure
from bursar.adapters.clock import RealClock
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.timing import Timing
from bursar.app.cluster.ports import Key
from controlplane import LOOPBACK, ControlPlane
from program import Program, free_port
from support.cluster.access import a_client, access_of
from support.until import until, until_blocking

LONG = Timing(lease_seconds=600, deadline_seconds=300, retry_seconds=0.5)
"""Longer than these tests wait: no such Lease expires, so whoever follows found it released."""
SHORT = Timing(lease_seconds=3, deadline_seconds=2, retry_seconds=0.5)
RIVAL_LEASE_SECONDS = 8
STANDS = "Attempting to acquire leader lease"
"""What client-go logs when a candidate begins to stand."""


def a_lease() -> Key:
    return Key("default", f"election-{uuid.uuid4().hex[:8]}")


def a_candidate(client: KubeClient, lease: Key, identity: str, timing: Timing = LONG) -> Election:
    return Election(
        client,
        client,
        RealClock(),
        candidacy=Candidacy(lease=lease, identity=identity, timing=timing),
        random=random.random,
    )


def spec_of(plane: ControlPlane, lease: Key) -> dict:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases/{lease.name}"
    status, body = plane.request("GET", path)
    return json.loads(body)["spec"] if status == http.client.OK else {}


async def until_renewed(plane: ControlPlane, lease: Key, times: int) -> None:
    """Wait until the holder of a Lease has renewed it so often."""
    seen = {spec_of(plane, lease).get("renewTime")}

    def is_renewed() -> bool:
        seen.add(spec_of(plane, lease).get("renewTime"))
        return len(seen) > times

    await until_blocking(is_renewed, f"{lease} is renewed {times} times")


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
            await until(lambda: election.is_leader, "the first leads")
            first = spec_of(control_plane, lease)
            await until_renewed(control_plane, lease, 3)
            renewed, token = spec_of(control_plane, lease), election.token
            assert election.is_leader
        released = spec_of(control_plane, lease)

        second = a_candidate(client, lease, "two")
        async with standing(second):
            await until(lambda: second.is_leader, "the second leads")
            assert second.token > token

    assert first["holderIdentity"] == renewed["holderIdentity"] == "one"
    assert first["leaseDurationSeconds"] == LONG.lease_seconds
    assert first["acquireTime"] == renewed["acquireTime"] < renewed["renewTime"]
    assert first["leaseTransitions"] == 0
    assert released.get("holderIdentity", "") == ""
    assert released["leaseDurationSeconds"] == 1


async def test_leader_stops_while_the_server_hangs_and_leads_again_afterwards(control_plane):
    async with a_client(access_of(control_plane)) as client:
        election = a_candidate(client, a_lease(), "one", SHORT)
        async with standing(election):
            await until(lambda: election.is_leader, "it leads")
            term = election.token
            control_plane.apiserver.pause()
            try:
                await until(lambda: not election.is_leader, "it stops leading")
            finally:
                control_plane.apiserver.resume()
            await until(lambda: election.is_leader, "it leads again")

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
            "leaseDuration": f"{RIVAL_LEASE_SECONDS}s",
            "renewDeadline": f"{RIVAL_LEASE_SECONDS - 2}s",
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


def written(spec: dict, field: str) -> datetime:
    return datetime.fromisoformat(spec[field])


async def test_we_and_client_go_take_turns_on_one_lease(control_plane, tmp_path):
    """It leads and we wait; it is killed and we follow; we lead and it waits; we release."""
    lease, ours = a_lease(), "bursar-1"
    rival = a_rival(control_plane, lease, tmp_path)

    def holder() -> str:
        return spec_of(control_plane, lease).get("holderIdentity", "")

    try:
        rival.start()
        await until(lambda: holder() not in ("", ours), "the rival leads")
        async with a_client(access_of(control_plane)) as client:
            election = a_candidate(client, lease, ours)
            async with standing(election):
                await until(lambda: election.holder == holder(), "we see that it leads")
                await until_renewed(control_plane, lease, 3)
                assert not election.is_leader

                rival.kill()
                last = spec_of(control_plane, lease)
                await until(lambda: election.is_leader, "we follow")
                waited = written(spec_of(control_plane, lease), "acquireTime") - written(
                    last, "renewTime"
                )
                assert waited >= timedelta(seconds=RIVAL_LEASE_SECONDS)
                transitions = election.token.transitions

                rival.start()
                await until(lambda: rival.log.read_text().count(STANDS) == 2, "it stands again")
                await until_renewed(control_plane, lease, 3)
                assert election.is_leader
                assert rival.is_running
            await until(lambda: holder() not in ("", ours), "it follows")

        assert spec_of(control_plane, lease)["leaseTransitions"] == transitions + 1
    finally:
        rival.kill()
