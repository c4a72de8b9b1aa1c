"""What AAQ v1.8.0 gets wrong, and we do not: one test for each, named after its number.

The numbers are those of docs/reference/aaq-defects.md. Here is what an embedded cluster and the
whole controller can show; the rest is in tests/integration/test_quota_defects.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from bursar.adapters.files.crds import crd_documents
from bursar.adapters.memory.kinds import CRDS
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.events.document import EVENTS
from bursar.app.cluster.kinds import NAMESPACES, PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import (
    ForbiddenError,
    Key,
    Patch,
    PatchKind,
    Query,
    Resource,
    UnavailableError,
)
from bursar.app.cluster.time_limit import end
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.account import Charge
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.quota import GATE
from bursar.core.quota.releases import ReleaseOutcome
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from support.builders.pods import parsed
from support.builders.quota_books import a_namespace, a_quota, a_row, running
from support.virtual_time import MachineClock, in_virtual_time

HOME = "aaq"
TEAM = "team-a"
HOUR_S = 3600
WRITE_S = 0.02
"""How long a write is on its way, so that others can be seen beside it."""
Raw = dict[str, Any]


class Line:
    """The controller's way to the cluster: counted, and sometimes met by trouble."""

    def __init__(self, cluster: MemoryCluster, clock: MachineClock) -> None:
        self._cluster, self._clock = cluster, clock
        self.get = cluster.get
        self.writes: list[tuple[str, Resource, Key]] = []
        self.lifts_in_flight = self.lifts_in_flight_most = 0
        self.trouble: Callable[[Resource, Key], Awaitable[None]] = _no_trouble

    async def create(self, resource: Resource, body: Raw, *, namespace: str = "") -> bytes:
        key = Key(namespace, body["metadata"].get("name", ""))
        await self._travel("create", resource, key)
        return await self._cluster.create(resource, body, namespace=namespace)

    async def patch(
        self, resource: Resource, key: Key, patch: Patch, *, subresource: str = ""
    ) -> bytes:
        self.lifts_in_flight += resource == PODS
        self.lifts_in_flight_most = max(self.lifts_in_flight_most, self.lifts_in_flight)
        try:
            await self._travel("patch", resource, key)
            return await self._cluster.patch(resource, key, patch, subresource=subresource)
        finally:
            self.lifts_in_flight -= resource == PODS

    async def delete(self, resource: Resource, key: Key, **options: Any) -> None:
        await self._travel("delete", resource, key)
        await self._cluster.delete(resource, key, **options)

    async def _travel(self, verb: str, resource: Resource, key: Key) -> None:
        self.writes.append((verb, resource, key))
        await self._clock.sleep(WRITE_S)
        await self.trouble(resource, key)

    def count(self, resource: Resource) -> int:
        return sum(written == resource for _, written, _ in self.writes)


async def _no_trouble(resource: Resource, key: Key) -> None:
    del resource, key


class Installed:
    """A cluster with one namespace whose pods are held back, and a controller that leads."""

    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        self.line = Line(self.cluster, self.clock)
        random = Random(7)  # noqa: S311 - likewise
        targeting = Targeting(own_namespace=HOME)
        self.controller = Controller(
            self.line,
            self.clock,
            random,
            settings=ControllerSettings(namespace=HOME, identity="one"),
            open_sources=lambda: term_sources(self.cluster, self.clock, random, targeting),
        )

    async def furnish(self) -> None:
        for definition in crd_documents():
            await self.cluster.create(CRDS, definition)
        await self.namespace(HOME, gated=False)
        await self.namespace(TEAM)

    async def namespace(self, name: str, *, gated: bool = True, **labels: str) -> None:
        labelled = ({GATING_LABEL: ""} if gated else {}) | labels
        await self.cluster.create(NAMESPACES, {"metadata": {"name": name, "labels": labelled}})

    async def quota(self, name: str, hard: Raw, **spec: Any) -> None:
        body = custom(APPLICATION_QUOTAS, name, {"hard": hard, **spec})
        await self.cluster.create(APPLICATION_QUOTAS, body, namespace=TEAM)

    async def cluster_quota(self, name: str, hard: Raw, **labels: str) -> None:
        spec = {"quota": {"hard": hard}, "selector": {"labels": {"matchLabels": labels}}}
        await self.cluster.create(CLUSTER_QUOTAS, custom(CLUSTER_QUOTAS, name, spec))

    async def limit(self, name: str, **hard: str) -> None:
        patch = Patch(kind=PatchKind.MERGE, body={"spec": {"hard": hard}})
        await self.cluster.patch(APPLICATION_QUOTAS, Key(TEAM, name), patch)

    async def pod(self, name: str, cpu: str = "", *, namespace: str = TEAM) -> None:
        resources = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
        spec = {
            "containers": [{"name": "c", "image": "i", **resources}],
            "schedulingGates": [{"name": GATE}],
        }
        body = {"metadata": {"name": name}, "spec": spec}
        await self.cluster.create(PODS, body, namespace=namespace)

    async def end_pod(self, name: str, *, namespace: str = TEAM) -> None:
        await self.cluster.delete(PODS, Key(namespace, name), grace_seconds=0)

    async def calm(self, seconds: float = 30) -> None:
        await self.clock.sleep(seconds)

    async def released(self, namespace: str = "") -> list[str]:
        """Names of pods past the gate."""
        page = await self.cluster.list(PODS, Query(namespace=namespace))
        pods = [json.loads(body) for body in page.items]
        free = [pod for pod in pods if not pod["spec"].get("schedulingGates")]
        return sorted(pod["metadata"]["name"] for pod in free)

    async def names(self, resource: Resource) -> list[str]:
        page = await self.cluster.list(resource, Query())
        return sorted(json.loads(body)["metadata"]["name"] for body in page.items)


def custom(resource: Resource, name: str, spec: Raw) -> Raw:
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def an_installation() -> AsyncIterator[Installed]:
    installed = Installed()
    await installed.furnish()
    work = asyncio.create_task(installed.controller.run())
    try:
        await installed.calm()
        yield installed
        assert not work.done(), work
    finally:
        await end(work)


installed = in_virtual_time(on=an_installation)
"""Runs a test beside a controller at work."""


# ------------------------------------------------------------------ correctness


@installed
async def test_9_1_1_a_full_quota_with_a_scope_holds_up_only_pods_in_the_scope(here):
    """AAQ gates by the limits alone, and compares every pod with them."""
    await here.quota("idle", {"pods": "1"}, scopes=["BestEffort"])
    await here.calm()
    for name, cpu in (("idle-1", ""), ("idle-2", ""), ("busy-1", "1"), ("busy-2", "1")):
        await here.pod(name, cpu)
        await here.calm()

    assert await here.released() == ["busy-1", "busy-2", "idle-1"]


def test_9_1_2_a_quota_of_names_that_kubernetes_does_not_know_is_enforced():
    """AAQ asks the native evaluator whether such a quota matters; it says no."""
    machine = Charge(parsed("cpu/vmi=2"))
    books = Books(lambda _: machine)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/machines", "cpu/vmi=3"))
    for name in ("one", "two"):
        books.see_pod(a_row(f"a/{name}"))
    decisions = books.decide()

    assert [release.row.name for release in decisions.releases] == ["one"]
    [wait] = decisions.waits
    assert (
        wait.refusals[0]
        .message()
        .startswith(
            "exceeded quota: machines, requested: cpu/vmi=2, used: cpu/vmi=2, limited: cpu/vmi=3"
        )
    )


@installed
async def test_9_1_3_names_of_machines_are_not_handed_to_a_native_quota(here):
    """AAQ takes the short names for objects that Kubernetes counts."""
    await here.quota("machines", {"cpu/vmi": "4", "memory/vmi": "8Gi", "instances/vmi": "2"})
    await here.calm()

    assert await here.names(RESOURCE_QUOTAS) == []


@installed
async def test_9_1_4_namespaces_that_share_a_quota_share_its_room(here):
    """Also by a real controller on a real cluster, in tests/integration/test_quota_races.py."""
    await here.cluster_quota("wide", {"pods": "6"}, sea="north")
    await here.calm()
    for number in range(12):
        await here.namespace(f"n{number}", sea="north")
        for pod in range(4):
            await here.pod(f"p{number}-{pod}", namespace=f"n{number}")
    await here.calm()
    assert len(await here.released()) == 6

    for name in (await here.released())[:2]:
        await here.end_pod(name, namespace=f"n{name[1:].partition('-')[0]}")
    await here.calm()

    assert len(await here.released()) == 6


def test_9_1_5_what_was_let_go_counts_before_any_watch_shows_it():
    """AAQ may see the lock open before it sees what is used, since they are two watches."""
    books = Books(NativeCounter().count)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/q", "pods=1"))
    first = a_row("a/first")
    books.see_pod(first)
    assert [each.row for each in books.decide().releases] == [first]
    books.settle(first, ReleaseOutcome.LIFTED)

    books.see_pod(a_row("a/second"))
    books.see_quota(a_quota("a/q", "pods=1 cpu=1"))
    assert books.decide().releases == []

    books.see_pod(running(first))
    assert books.decide().releases == []


@installed
async def test_9_1_6_a_pod_made_anew_under_the_name_of_one_that_was_let_go_is_judged_anew(here):
    """AAQ writes down names, and lets go whoever bears them."""
    await here.quota("q", {"requests.cpu": "1"})
    await here.calm()

    async def recreate(resource: Resource, key: Key) -> None:
        if resource == PODS:
            here.line.trouble = _no_trouble
            await here.end_pod(key.name)
            await here.pod(key.name, "5")

    here.line.trouble = recreate
    await here.pod("web-0", "1")
    await here.calm()
    assert await here.released() == []

    await here.limit("q", **{"requests.cpu": "5"})
    await here.calm()
    assert await here.released() == ["web-0"]


@installed
async def test_9_1_7_a_quota_is_in_force_before_it_has_a_status(here):
    """AAQ lets pods pass a quota whose status it has not written yet."""

    async def refuse(resource: Resource, key: Key) -> None:
        del key
        if resource == APPLICATION_QUOTAS:
            raise UnavailableError("the status cannot be written")

    here.line.trouble = refuse
    await here.quota("q", {"pods": "1"})
    await here.pod("one")
    await here.pod("two")
    await here.calm()

    stored = json.loads(await here.cluster.get(APPLICATION_QUOTAS, Key(TEAM, "q")))
    assert "status" not in stored
    assert len(await here.released()) == 1


# ------------------------------------------------------------------ cost


@installed
async def test_9_2_1_many_gates_are_lifted_at_the_same_time(here):
    """AAQ lifts them one after the other, five in a second."""
    await here.quota("q", {"pods": "200"})
    for number in range(200):
        await here.pod(f"p{number}")
    await here.calm()

    assert len(await here.released()) == 200
    assert here.line.lifts_in_flight_most > 30


@installed
async def test_9_2_4_while_pods_wait_nothing_is_done(here):
    """AAQ spins while a lock is held, and asks again at once after every error."""
    await here.quota("q", {"pods": "1"})
    for number in range(20):
        await here.pod(f"p{number}")
    await here.calm(HOUR_S)
    here.line.writes.clear()
    rounds = here.controller.term.loop.counters.decisions
    await here.calm(HOUR_S)

    assert {resource for _, resource, _ in here.line.writes} == {LEASES}
    assert here.controller.term.loop.counters.decisions - rounds < 10


@installed
async def test_9_2_8_a_pod_is_told_once_why_it_waits_and_the_oldest_goes_first(here):
    """AAQ tries an event for each pod in each pass, and goes through them in random order."""
    await here.quota("q", {"pods": "0", "cpu": "1"})
    await here.calm()
    for number in range(5):
        await here.pod(f"p{number}")
        await here.calm(2)
    told = here.line.count(EVENTS)
    for number in range(20):
        await here.limit("q", cpu=str(number + 2))
        await here.calm()
    assert told == 5
    assert here.line.count(EVENTS) == told

    for room in range(1, 6):
        await here.limit("q", pods=str(room))
        await here.calm()
        assert await here.released() == [f"p{number}" for number in range(room)]


# ------------------------------------------------------------------ robustness


@installed
async def test_9_3_7_a_pod_whose_gate_cannot_be_lifted_holds_up_nobody_else(here):
    """AAQ keeps the whole namespace locked, and spins."""
    is_refusing = True

    async def refuse(resource: Resource, key: Key) -> None:
        if resource == PODS and key.name == "bad" and is_refusing:
            raise ForbiddenError("somebody's webhook says no", 403)

    here.line.trouble = refuse
    await here.quota("q", {"pods": "3"})
    await here.pod("bad")
    for number in range(3):
        await here.pod(f"p{number}")
    await here.calm(HOUR_S)
    assert await here.released() == ["p0", "p1", "p2"]
    assert here.line.count(PODS) < 3 + 20

    is_refusing = False
    await here.end_pod("p0")
    await here.calm(600)
    assert await here.released() == ["bad", "p1", "p2"]


# ------------------------------------------------------------------ leaving


@installed
async def test_9_1_18_pods_are_let_go_when_their_quota_is_deleted(here):
    await here.quota("q", {"pods": "0"})
    await here.pod("p")
    await here.calm()
    assert await here.released() == []
    await here.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
    await here.calm()

    assert await here.released() == ["p"]


@installed
async def test_9_1_18_pods_are_let_go_when_their_namespace_is_no_longer_held_back(here):
    await here.quota("q", {"pods": "0"})
    await here.pod("p")
    await here.calm()
    assert await here.released() == []
    patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {GATING_LABEL: None}}})
    await here.cluster.patch(NAMESPACES, Key("", TEAM), patch)
    await here.calm()

    assert await here.released() == ["p"]
