"""A real control plane behind a relay: connections are cut, servers killed, requests throttled."""

import asyncio
import contextlib
import http.client
import json
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.ports import Clock
from controlplane import ControlPlane
from support.cluster.access import a_client, access_of
from support.faults.relay import Relay, dial_port
from support.http_peer import connected
from support.until import until

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LEVEL = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
SCHEMA = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
STORMY = "stormy-client"
"""The informer's user: not an administrator, since those the server never makes wait."""
CROWD = 4


@dataclass
class KubeWorld:
    plane: ControlPlane
    namespace: str
    relay: Relay
    writer: KubeClient
    client: KubeClient
    clock: Clock = SYSTEM_CLOCK

    def cut(self) -> None:
        self.relay.cut()

    def hold(self) -> None:
        self.relay.hold()

    def let_go(self) -> None:
        self.relay.let_go()

    async def kill_server(self) -> None:
        self.plane.apiserver.kill()

    async def restart_server(self, *, is_forgetful: bool = False) -> None:
        if is_forgetful:
            compact_etcd(self.plane.etcd_port)
        # Not in another thread: the program would die with it.
        self.plane.apiserver.restart()

    @contextlib.asynccontextmanager
    async def storm(self) -> AsyncIterator[None]:
        leave_room_for_one(self.plane)
        try:
            async with crowd(self.plane) as answers:
                await until(
                    lambda: http.client.TOO_MANY_REQUESTS in answers,
                    lambda: f"the API server refuses requests, not {answers}",
                )
                yield
        finally:
            leave_room_for_all(self.plane)

    @property
    def refusals(self) -> int:
        return self.client.limiter.throttled_total

    async def delete_all(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods?gracePeriodSeconds=0"
        await asyncio.to_thread(_delete_all, self.plane, path)


@contextlib.asynccontextmanager
async def kube_world(plane: ControlPlane) -> AsyncIterator[KubeWorld]:
    namespace = f"faults-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = {"metadata": {"name": "default"}}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    allow_everything(plane)
    stormy = access_of(plane, plane.client(STORMY))
    async with (
        Relay(dial_port(plane.api_port)).running() as relay,
        a_client(access_of(plane)) as writer,
    ):
        through = replace(stormy, server=f"https://127.0.0.1:{relay.port}")
        async with a_client(through) as client:
            yield KubeWorld(plane, namespace, relay, writer, client)
    plane.request("DELETE", f"/api/v1/namespaces/{namespace}")


def compact_etcd(port: int) -> None:
    """Make etcd forget everything before now, through its own HTTP gateway."""

    def ask(path: str, body: object) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body))
            return connection.getresponse().read()
        finally:
            connection.close()

    header = ask("/v3/kv/range", {"key": "AA==", "limit": 1}).decode()
    found = re.search(r'"revision":"(\d+)"', header)
    assert found is not None
    ask("/v3/kv/compaction", {"revision": found.group(1), "physical": True})


def _delete_all(plane: ControlPlane, path: str) -> None:
    """The server deletes in one call, for longer than an ordinary request may take."""
    for _ in range(20):
        with contextlib.suppress(TimeoutError):
            if plane.request("DELETE", path)[0] == http.client.OK:
                return
    raise AssertionError("the pods could not be deleted")


# ------------------------------------------------------------------ a storm of 429


def allow_everything(plane: ControlPlane) -> None:
    """All rights, without the group of administrators. Others may have done it before us."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": STORMY},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": STORMY}],
    }
    code, _ = plane.request("POST", BINDINGS, binding)
    assert code in {http.client.CREATED, http.client.CONFLICT}


def leave_room_for_one(plane: ControlPlane) -> None:
    """Priority and fairness with room for one request at a time: all others get a 429."""
    no_room = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {**no_room, "limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": STORMY}, "spec": {"type": "Limited", "limited": limited}}
    assert plane.request("POST", LEVEL, level)[0] == http.client.CREATED
    everything = {
        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
        "namespaces": ["*"], "clusterScope": True,
    }  # fmt: skip
    rule = {
        "subjects": [{"kind": "User", "user": {"name": STORMY}}],
        "resourceRules": [everything],
    }
    schema = {
        "metadata": {"name": STORMY},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": STORMY},
            "rules": [rule],
        },
    }
    assert plane.request("POST", SCHEMA, schema)[0] == http.client.CREATED


def leave_room_for_all(plane: ControlPlane) -> None:
    plane.request("DELETE", f"{SCHEMA}/{STORMY}")
    plane.request("DELETE", f"{LEVEL}/{STORMY}")


@contextlib.asynccontextmanager
async def crowd(plane: ControlPlane) -> AsyncIterator[set[int]]:
    """Others of the same user, who keep the one place taken, and the codes they were answered.

    A list of a moment that is still to come makes the server wait for it, for three seconds.
    """
    access = access_of(plane, plane.client(STORMY))
    question = "resourceVersion=999999999999&resourceVersionMatch=NotOlderThan"
    port = int(plane.url.rpartition(":")[2])

    answers: set[int] = set()

    async def push() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with connected(port, access.ssl_context) as peer:
                    answers.add((await peer.ask("GET", f"/api/v1/pods?{question}")).code)
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(push()) for _ in range(CROWD)]
    try:
        yield answers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
