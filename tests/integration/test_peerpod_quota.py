"""Peer pods under a quota: API server, webhook and controller, all of them real.

Either our webhook rewrites the pods, or they are created as upstream's webhook leaves them.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError, Key
from bursar.app.install.policies.peerpod_protection import ONLY_WHAT_WAS_REMOVED
from bursar.app.names import PEER_POD_WEBHOOKS
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from bursar.core.quota.quota import GATE
from controlplane import ControlPlane
from support.builders.peer_pods import KATA, ONE_VM, RECORD, VM, a_peer_pod, main, rewritten
from support.install.printed import printed
from support.processes.kubectl import kubectl
from support.processes.webhook import Webhook
from support.quota.controller_processes import (
    HOME,
    SHORT_TERMS,
    Administrator,
    Controllers,
    administering,
)
from support.until import until

RUNTIME = "kata-counted"
"""A class of our own: the cluster is shared with other tests."""
FORGED = json.dumps(
    {
        "v": "1",
        "containers": [
            {
                "name": "c0",
                "kind": "container",
                "requests": {"cpu": "1m", "memory": "1"},
                "limits": {"cpu": "1m", "memory": "1"},
            }
        ],
    }
)
ARITHMETIC = "requested: requests.cpu=96250m, used: requests.cpu=0, limited: requests.cpu=1"
"""The VM of 96 CPUs, and the overhead of 250m on the worker."""
HUGE = "cpu=96 memory=1Gi"


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture(scope="module")
def webhook(control_plane, tmp_path_factory) -> Iterator[Webhook]:
    """The rewrite and its policies, and a controller that counts peer pods."""
    folder = tmp_path_factory.mktemp("hook")
    webhook = Webhook(control_plane, folder, HOME, "--runtime-class", RUNTIME)
    authority = str(webhook.authority.certificate)
    manifests = printed(
        *("peerpods", "--runtime-class", RUNTIME, "-n", HOME),
        *("--url", webhook.url, "--ca-bundle", authority),
    )
    options = ("--peerpod-runtime-class", RUNTIME, *SHORT_TERMS)
    webhook.program.start()
    webhook.program.wait_ready()
    kubectl(control_plane, "apply", "-f", "-", stdin=manifests)
    try:
        with Controllers(control_plane, tmp_path_factory.mktemp("controller"), *options):
            yield webhook
    finally:
        kubectl(control_plane, "delete", "--ignore-not-found", "-f", "-", stdin=manifests)
        webhook.program.stop()


@pytest.fixture
def without_webhook(webhook, control_plane) -> Iterator[None]:
    """As on a cluster of upstream's webhook, which knows nothing of ours."""
    assert webhook.program.is_running
    name = ("mutatingwebhookconfiguration", PEER_POD_WEBHOOKS)
    stored = json.loads(kubectl(control_plane, "get", *name, "-o", "json"))
    kubectl(control_plane, "delete", *name)
    yield
    del stored["metadata"]["resourceVersion"], stored["metadata"]["uid"]
    kubectl(control_plane, "create", "-f", "-", stdin=json.dumps(stored))


@pytest.fixture
def beside_upstream(without_webhook, control_plane) -> None:
    """Upstream's webhook, and the policies that Bursar has for it."""
    assert without_webhook is None
    policies = printed("peerpods", "--upstream-webhook", "--runtime-class", RUNTIME, "-n", HOME)
    kubectl(control_plane, "apply", "-f", "-", stdin=policies)


@dataclass
class Room:
    """A namespace with a quota of one CPU."""

    plane: ControlPlane
    people: Administrator
    quota: Key

    async def create(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        body["metadata"] |= {"name": name, "namespace": self.quota.namespace}
        stored = await self.people.client.create(PODS, body, namespace=self.quota.namespace)
        return json.loads(stored)

    async def is_held(self, name: str) -> bool:
        return GATE in await self.people.gates(Key(self.quota.namespace, name))

    def notes(self, name: str) -> str:
        events = ("get", "events.events.k8s.io", "-n", self.quota.namespace, "-o", "json")
        listed = json.loads(kubectl(self.plane, *events))["items"]
        return "\n".join(each["note"] for each in listed if each["regarding"]["name"] == name)

    async def waits(self, name: str) -> None:
        """Held, with the arithmetic in its event."""
        await until(
            lambda: ARITHMETIC in self.notes(name),
            lambda: f"{name}: {ARITHMETIC}, not {self.notes(name)}",
        )
        assert await self.is_held(name)


@contextlib.asynccontextmanager
async def a_room(plane: ControlPlane) -> AsyncIterator[Room]:
    async with administering(plane) as people:
        quota = Key(await people.namespace("peers"), "room")
        await people.quota(quota, {"requests.cpu": "1"})
        yield Room(plane, people, quota)


def gated_peer(*containers: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return a_peer_pod(
        *containers,
        annotations=annotations,
        runtimeClassName=RUNTIME,
        schedulerName="nobody",
        schedulingGates=[{"name": GATE}],
    )


def as_upstream_leaves_it(raw: dict[str, Any]) -> dict[str, Any]:
    classes = frozenset({RUNTIME})
    return rewritten(raw, PeerPodSettings(mode=Mode.UPSTREAM, runtime_classes=classes)).document


async def is_rewritten(room: Room) -> bool:
    """Webhook configurations come into force a moment after they were stored."""
    body = gated_peer(main("cpu=1"))
    body["metadata"] = {"generateName": "probe-"}
    stored = json.loads(
        await room.people.client.create(PODS, body, namespace=room.quota.namespace, is_dry_run=True)
    )
    return VM in json.dumps(stored["spec"])


@pytest.mark.usefixtures("webhook")
async def test_a_vm_of_96_cpus_waits_under_a_quota_of_one(control_plane):
    async with a_room(control_plane) as room:
        await until(lambda: is_rewritten(room), "the webhook rewrites peer pods")
        stored = await room.create("huge", gated_peer(main(HUGE, HUGE)))
        assert stored["spec"]["containers"][0]["resources"] == ONE_VM
        await room.waits("huge")

        await room.people.limit(room.quota, **{"requests.cpu": "97"})
        await room.people.uses(room.quota, requests_cpu="96250m")
        assert not await room.is_held("huge")


@pytest.mark.usefixtures("webhook")
async def test_a_forged_record_changes_nothing(control_plane):
    with_vm = f"{HUGE} {VM}=1"
    async with a_room(control_plane) as room:
        await until(lambda: is_rewritten(room), "the webhook rewrites peer pods")
        await room.create("dropped", gated_peer(main(HUGE, HUGE), **{RECORD: FORGED}))
        await room.waits("dropped")

        # This record passes for that of an earlier call. It costs the VM that it leads to.
        believed = await room.create(
            "sized", gated_peer(main(with_vm, with_vm), **{RECORD: FORGED})
        )
        assert believed["metadata"]["annotations"][f"{KATA}default_vcpus"] == "1"
        await room.people.limit(room.quota, **{"requests.cpu": "2"})
        await room.people.uses(room.quota, requests_cpu="1250m")
        assert [await room.is_held(name) for name in ("dropped", "sized")] == [True, False]


@pytest.mark.usefixtures("without_webhook")
async def test_a_pod_that_upstreams_webhook_rewrote_waits_as_well(control_plane):
    async with a_room(control_plane) as room:

        async def is_untouched() -> bool:
            return not await is_rewritten(room)

        await until(is_untouched, "our webhook is gone")
        body = as_upstream_leaves_it(gated_peer(main(HUGE, HUGE)))
        assert RECORD not in body["metadata"]["annotations"]
        await room.create("huge", body)
        body = as_upstream_leaves_it(gated_peer(main(HUGE, HUGE)))
        body["metadata"]["annotations"][RECORD] = FORGED
        await room.create("forged", body)
        await room.create("bare", gated_peer(main(HUGE, HUGE)))
        await asyncio.gather(*(room.waits(name) for name in ("huge", "forged", "bare")))

        await room.people.limit(room.quota, **{"requests.cpu": "97"})
        await room.people.uses(room.quota, requests_cpu="96250m")


@pytest.mark.usefixtures("beside_upstream")
async def test_beside_upstreams_webhook_nobody_lowers_the_charge_of_a_running_vm(control_plane):
    """This comes last: the policies take the place of those of our webhook."""
    body = as_upstream_leaves_it(gated_peer(main(HUGE, HUGE)))
    forged = json.loads(json.dumps(body))
    forged["metadata"]["annotations"][RECORD] = FORGED

    async with a_room(control_plane) as room:

        async def is_denied() -> bool:
            try:
                await room.create("forged", forged)
            except ClusterError as error:
                return ONLY_WHAT_WAS_REMOVED in error.message
            await room.people.client.delete(PODS, Key(room.quota.namespace, "forged"))
            return False

        await until(is_denied, "a record is denied")
        await room.people.limit(room.quota, **{"requests.cpu": "97"})
        await room.create("huge", body)
        await room.people.uses(room.quota, requests_cpu="96250m")
        for key in (f"{KATA}default_vcpus", f"{KATA}machine_type", RECORD):
            change = {"metadata": {"annotations": {key: "1"}}}
            with pytest.raises(ClusterError, match="cannot be changed after creation"):
                await room.people.change(PODS, Key(room.quota.namespace, "huge"), change)
        await room.people.settle()
        assert (await room.people.used(room.quota))["requests.cpu"] == "96250m"
