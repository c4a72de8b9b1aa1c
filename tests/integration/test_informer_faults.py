"""The informer on a real API server that is killed, forgets, is cut off, stalls and says no.

While pods come, change and go, something goes wrong. Afterwards the cache must equal a
fresh LIST, and what the consumer was told must add up to the same, with nothing twice.
"""

import asyncio
import contextlib
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random

import aiohttp
import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.identity import locate
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.rows import identify_pod
from bursar.app.informer import Informer, InformerRules
from bursar.app.informer_backoff import BackoffRules
from bursar.app.informer_changes import Deleted, Upserted
from bursar.app.informer_store import Identity
from bursar.app.ports import ClusterError, Key, NotFoundError, Patch, PatchKind, Query
from bursar.core.model.pod_row import PodRow
from bursar.wire.pod_row import PodRowDecoder
from controlplane import ControlPlane
from kube_access import PODS, a_client, access_of, compact
from relay import Relay

AGREE_SECONDS = 60
GATE = {"schedulingGates": [{"name": "example.com/hold"}]}


@dataclass
class Told:
    """What a consumer of changes believes, and how often it heard of each state."""

    held: dict[Key, Identity] = field(default_factory=dict)
    states: Counter[Identity] = field(default_factory=Counter)
    deaths: Counter[str] = field(default_factory=Counter)

    async def listen(self, informer: Informer[PodRow]) -> None:
        async for change in informer.changes():
            if isinstance(change, Upserted):
                identity = identify_pod(change.new)
                self.held[identity.key] = identity
                self.states[identity] += 1
            elif isinstance(change, Deleted):
                identity = identify_pod(change.last)
                self.held.pop(identity.key, None)
                self.deaths[identity.uid] += 1

    @property
    def doubled(self) -> list[object]:
        said_twice = [identity for identity, count in self.states.items() if count > 1]
        return said_twice + [uid for uid, count in self.deaths.items() if count > 1]


@dataclass
class Scene:
    plane: ControlPlane
    relay: Relay
    writer: KubeClient
    """Reaches the server directly, not through the relay."""
    client: KubeClient
    """What the informer uses, through the relay."""
    informer: Informer[PodRow]
    told: Told
    query: Query

    async def truth(self) -> set[Identity]:
        found: set[Identity] = set()
        page = await self.writer.list(PODS, self.query, limit=1000)
        while True:
            found |= {identify_pod(PodRowDecoder().decode(body)) for body in page.items}
            if not page.next_page:
                return found
            page = await self.writer.list(PODS, self.query, limit=1000, page=page.next_page)

    async def assert_agreement(self) -> None:
        """Wait until cache, consumer and cluster say the same, then check that nothing doubled."""
        truth: set[Identity] = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGREE_SECONDS):
                while True:
                    truth = await self.truth()
                    if self.cached() == truth and set(self.told.held.values()) == truth:
                        break
                    await asyncio.sleep(0.1)
        assert self.cached() == truth
        assert set(self.told.held.values()) == truth
        assert self.told.doubled == []

    def cached(self) -> set[Identity]:
        return {identify_pod(row) for row in self.informer.snapshot().objects()}


@contextlib.asynccontextmanager
async def scene(plane: ControlPlane, *, user: str = "") -> AsyncIterator[Scene]:
    namespace = f"faults-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = {"metadata": {"name": "default"}}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    query = Query(namespace=namespace)
    direct = access_of(plane)
    indirect = access_of(plane, plane.client(user)) if user else direct
    async with Relay(plane.api_port).running() as relay, a_client(direct) as writer:
        through = replace(indirect, server=f"https://127.0.0.1:{relay.port}")
        async with a_client(through) as client:
            informer = Informer(
                client,
                client,
                clock=SYSTEM_CLOCK,
                random=Random(1),  # noqa: S311 - the same pauses in every run
                resource=PODS,
                query=query,
                decode=PodRowDecoder().decode,
                identify=identify_pod,
                locate=locate,
                rules=InformerRules(backoff=BackoffRules(max_s=2.0)),
            )
            told = Told()
            tasks = [
                asyncio.create_task(informer.run()),
                asyncio.create_task(told.listen(informer)),
            ]
            try:
                async with asyncio.timeout(AGREE_SECONDS):
                    await informer.wait_synced()
                yield Scene(plane, relay, writer, client, informer, told, query)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    plane.request("DELETE", f"/api/v1/namespaces/{namespace}")


async def create(it: Scene, name: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
    body = {"metadata": {"name": name}, "spec": {**GATE, "containers": [container]}}
    await it.writer.create(PODS, body, namespace=it.query.namespace)


async def churn(it: Scene, ended: asyncio.Event) -> None:
    """Pods come, change and go, as fast as one client can."""
    random = Random(2)  # noqa: S311 - the same changes in every run
    number = 0
    while not ended.is_set():
        number += 1
        key = Key(it.query.namespace, f"pod-{random.randrange(40)}")
        # During an outage nobody can write either; a later turn tries another pod.
        with contextlib.suppress(ClusterError):
            try:
                labels = {"metadata": {"labels": {"turn": str(number)}}}
                if random.random() < 0.5:
                    await it.writer.delete(PODS, key, grace_seconds=0)
                else:
                    patch = Patch(kind=PatchKind.MERGE, body=labels)
                    await it.writer.patch(PODS, key, patch)
            except NotFoundError:
                await create(it, key.name)
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def churning(it: Scene) -> AsyncIterator[None]:
    ended = asyncio.Event()
    task = asyncio.create_task(churn(it, ended))
    await asyncio.sleep(1)
    try:
        yield
        await asyncio.sleep(1)
    finally:
        ended.set()
        await task


async def killed(it: Scene) -> None:
    it.plane.apiserver.kill()
    await asyncio.sleep(0.5)
    it.plane.apiserver.restart()


async def forgetful(it: Scene) -> None:
    """The past is compacted while the informer is cut off, so that its moment is gone."""
    it.relay.hold()
    before = it.informer.counters.events
    await asyncio.sleep(1)
    _, body = it.plane.request("GET", "/api/v1/namespaces")
    it.plane.apiserver.kill()
    compact(it.plane, json.loads(body)["metadata"]["resourceVersion"])
    it.plane.apiserver.restart()
    it.relay.cut()
    it.relay.let_go()
    assert it.informer.counters.events >= before


async def cut_every_second(it: Scene) -> None:
    for _ in range(6):
        it.relay.cut()
        await asyncio.sleep(1)


async def stalled(it: Scene) -> None:
    it.relay.hold()
    await asyncio.sleep(30)
    it.relay.let_go()


@pytest.mark.parametrize("fault", [killed, forgetful, cut_every_second, stalled])
async def test_after_the_fault_the_cache_equals_a_fresh_list(
    control_plane, fault: Callable[[Scene], Awaitable[None]]
):
    async with scene(control_plane) as it:
        async with churning(it):
            await fault(it)
        await it.assert_agreement()

        assert len(it.told.deaths) > 5, "there were deletes to be seen"


BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LEVEL = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
SCHEMA = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
STORMY = "stormy-client"


def leave_room_for_one(plane: ControlPlane) -> None:
    """Priority and fairness with room for one request at a time: all others get a 429."""
    no_room = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {**no_room, "limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": STORMY}, "spec": {"type": "Limited", "limited": limited}}
    assert plane.request("POST", LEVEL, level)[0] == 201
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
    assert plane.request("POST", SCHEMA, schema)[0] == 201


def allow_everything(plane: ControlPlane) -> None:
    """Rights without the group of administrators, whom the server never makes wait."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": STORMY},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": STORMY}],
    }
    assert plane.request("POST", BINDINGS, binding)[0] == 201


def leave_room_for_all(plane: ControlPlane) -> None:
    plane.request("DELETE", f"{SCHEMA}/{STORMY}")
    plane.request("DELETE", f"{LEVEL}/{STORMY}")


@contextlib.asynccontextmanager
async def crowd(plane: ControlPlane) -> AsyncIterator[None]:
    """Others of the same user, who keep the one place taken.

    A list of a moment that is still to come makes the server wait for it, for three seconds.
    """
    access = access_of(plane, plane.client(STORMY))
    question = "resourceVersion=999999999999&resourceVersionMatch=NotOlderThan"
    url = f"{plane.url}/api/v1/pods?{question}"

    async def push(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.get(url, ssl=access.ssl_context) as answer:
                await answer.read()
            await asyncio.sleep(0.02)

    async with aiohttp.ClientSession() as session:
        tasks = [asyncio.create_task(push(session)) for _ in range(4)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_storm_of_429_is_weathered(control_plane):
    allow_everything(control_plane)
    async with scene(control_plane, user=STORMY) as it:
        async with churning(it):
            leave_room_for_one(control_plane)
            try:
                async with crowd(control_plane), asyncio.timeout(60):
                    await asyncio.sleep(1)  # until the server has taken notice
                    it.relay.cut()
                    while it.client.limiter.throttled_total < 5:  # noqa: ASYNC110 - no event of ours
                        await asyncio.sleep(0.1)
            finally:
                leave_room_for_all(control_plane)
        await it.assert_agreement()


POD_COUNT = 20_000
WRITERS = 32


async def test_twenty_thousand_pods_come_and_go(control_plane):
    async with scene(control_plane) as it:
        names = iter(range(POD_COUNT))

        async def work() -> None:
            for number in names:
                await create(it, f"pod-{number}")

        await asyncio.gather(*(work() for _ in range(WRITERS)))
        await it.assert_agreement()
        assert len(it.informer) == POD_COUNT

        path = f"/api/v1/namespaces/{it.query.namespace}/pods?gracePeriodSeconds=0"
        it.relay.hold()
        await asyncio.to_thread(_delete_all, it.plane, path)
        it.relay.cut()
        it.relay.let_go()
        await it.assert_agreement()
        assert len(it.informer) == 0


def _delete_all(plane: ControlPlane, path: str) -> None:
    """The server deletes in one call, for longer than an ordinary request may take."""
    for _ in range(20):
        with contextlib.suppress(TimeoutError):
            if plane.request("DELETE", path)[0] == 200:
                return
    raise AssertionError("the pods could not be deleted")
