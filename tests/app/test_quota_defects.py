"""What AAQ v1.8.0 gets wrong, and we do not: one test for each, named after its number.

The numbers are those of docs/reference/aaq-defects.md. Here is what an embedded cluster and the
whole controller can show; the rest is in tests/integration/test_quota_defects.py.
"""

import json

import pytest

from bursar.app.cluster.kinds import EVENTS, LEASES, PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import (
    ForbiddenError,
    Key,
    UnavailableError,
)
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.quota.account import Charge
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.releases import ReleaseOutcome
from support.builders.pods import parsed
from support.builders.quota_books import a_namespace, a_quota, a_row, running
from support.faults import line
from support.quota.aaq_controller import TEAM, AaqScene

HOUR_S = 3600
CALM_S = 30
WRITE_S = 0.02
"""How long a write is on its way, so that others can be seen beside it."""


class Line(line.Line):
    """The controller's way to the cluster: counted, and sometimes met by trouble."""

    def __init__(self, cluster, clock):
        super().__init__(cluster)
        self._clock = clock
        self.writes = []
        self.lifts_in_flight = self.lifts_in_flight_most = 0
        self.trouble = _no_trouble

    async def pass_on(self, request):
        if request.verb == "get":
            return await request.send()
        self.writes.append(request.resource)
        is_lift = request.verb == "patch" and request.resource == PODS
        self.lifts_in_flight += is_lift
        self.lifts_in_flight_most = max(self.lifts_in_flight_most, self.lifts_in_flight)
        try:
            await self._clock.sleep(WRITE_S)
            await self.trouble(request.resource, request.key)
            return await request.send()
        finally:
            self.lifts_in_flight -= is_lift


async def _no_trouble(resource, key):
    del resource, key


@pytest.fixture
async def here():
    """A cluster with a controller at work."""
    scene = AaqScene()
    scene.writer = scene.line = Line(scene.cluster, scene.clock)
    await scene.furnish()
    async with scene.at_work() as scene.controller:
        yield scene


# ------------------------------------------------------------------ correctness


async def test_9_1_1_a_full_quota_with_a_scope_holds_up_only_pods_in_the_scope(here):
    """AAQ gates by the limits alone, and compares every pod with them."""
    await here.quota("pods=1", "idle", scopes=["BestEffort"])
    await here.moment(CALM_S)
    for name, cpu in (("idle-1", ""), ("idle-2", ""), ("busy-1", "cpu=1"), ("busy-2", "cpu=1")):
        await here.gated_pod(name, cpu)
        await here.moment(CALM_S)

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


async def test_9_1_3_names_of_machines_are_not_handed_to_a_native_quota(here):
    """AAQ takes the short names for objects that Kubernetes counts."""
    await here.quota("cpu/vmi=4 memory/vmi=8Gi instances/vmi=2", "machines")
    await here.moment(CALM_S)

    assert await here.names(RESOURCE_QUOTAS) == []


async def test_9_1_4_namespaces_that_share_a_quota_share_its_room(here):
    """Also by a real controller on a real cluster, in tests/integration/test_quota_races.py."""
    await here.cluster_quota("pods=6")
    await here.moment(CALM_S)
    for number in range(12):
        await here.namespace(f"n{number}")
        for pod in range(4):
            await here.gated_pod(f"p{number}-{pod}", namespace=f"n{number}")
    await here.moment(CALM_S)
    assert len(await here.released()) == 6

    for name in (await here.released())[:2]:
        await here.end_pod(name, namespace=f"n{name[1:].partition('-')[0]}")
    await here.moment(CALM_S)

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


async def test_9_1_6_a_pod_made_anew_under_the_name_of_one_that_was_let_go_is_judged_anew(here):
    """AAQ writes down names, and lets go whoever bears them."""
    await here.quota("requests.cpu=1")
    await here.moment(CALM_S)

    async def recreate(resource, key):
        if resource == PODS:
            here.line.trouble = _no_trouble
            await here.end_pod(key.name)
            await here.gated_pod(key.name, "cpu=5")

    here.line.trouble = recreate
    await here.gated_pod("web-0", "cpu=1")
    await here.moment(CALM_S)
    assert await here.released() == []

    await here.limit(**{"requests.cpu": "5"})
    await here.moment(CALM_S)
    assert await here.released() == ["web-0"]


async def test_9_1_7_a_quota_is_in_force_before_it_has_a_status(here):
    """AAQ lets pods pass a quota whose status it has not written yet."""

    async def refuse(resource, key):
        del key
        if resource == APPLICATION_QUOTAS:
            raise UnavailableError("the status cannot be written")

    here.line.trouble = refuse
    await here.quota("pods=1")
    await here.gated_pod("one")
    await here.gated_pod("two")
    await here.moment(CALM_S)

    stored = json.loads(await here.cluster.get(APPLICATION_QUOTAS, Key(TEAM, "q")))
    assert "status" not in stored
    assert len(await here.released()) == 1


# ------------------------------------------------------------------ cost


async def test_9_2_1_many_gates_are_lifted_at_the_same_time(here):
    """AAQ lifts them one after the other, five in a second."""
    await here.quota("pods=200")
    for number in range(200):
        await here.gated_pod(f"p{number}")
    await here.moment(CALM_S)

    assert len(await here.released()) == 200
    assert here.line.lifts_in_flight_most > 30


async def test_9_2_4_while_pods_wait_nothing_is_done(here):
    """AAQ spins while a lock is held, and asks again at once after every error."""
    await here.quota("pods=1")
    for number in range(20):
        await here.gated_pod(f"p{number}")
    await here.moment(HOUR_S)
    here.line.writes.clear()
    rounds = here.controller.term.loop.counters.decisions
    await here.moment(HOUR_S)

    assert set(here.line.writes) == {LEASES}
    assert here.controller.term.loop.counters.decisions - rounds < 10


async def test_9_2_8_a_pod_is_told_once_why_it_waits_and_the_oldest_goes_first(here):
    """AAQ tries an event for each pod in each pass, and goes through them in random order."""
    await here.quota("pods=0 cpu=1")
    await here.moment(CALM_S)
    for number in range(5):
        await here.gated_pod(f"p{number}")
        await here.moment(2)
    told = here.line.writes.count(EVENTS)
    for number in range(20):
        await here.limit(cpu=str(number + 2))
        await here.moment(CALM_S)
    assert told == 5
    assert here.line.writes.count(EVENTS) == told

    for room in range(1, 6):
        await here.limit(pods=str(room))
        await here.moment(CALM_S)
        assert await here.released() == [f"p{number}" for number in range(room)]


# ------------------------------------------------------------------ robustness


async def test_9_3_7_a_pod_whose_gate_cannot_be_lifted_holds_up_nobody_else(here):
    """AAQ keeps the whole namespace locked, and spins."""
    is_refusing = True

    async def refuse(resource, key):
        if resource == PODS and key.name == "bad" and is_refusing:
            raise ForbiddenError("somebody's webhook says no", 403)

    here.line.trouble = refuse
    await here.quota("pods=3")
    await here.gated_pod("bad")
    for number in range(3):
        await here.gated_pod(f"p{number}")
    await here.moment(HOUR_S)
    assert await here.released() == ["p0", "p1", "p2"]
    assert here.line.writes.count(PODS) < 3 + 20

    is_refusing = False
    await here.end_pod("p0")
    await here.moment(600)
    assert await here.released() == ["bad", "p1", "p2"]


# ------------------------------------------------------------------ leaving


async def test_9_1_18_pods_are_let_go_when_their_quota_is_deleted(here):
    await here.quota("pods=0")
    await here.gated_pod("p")
    await here.moment(CALM_S)
    assert await here.released() == []
    await here.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
    await here.moment(CALM_S)

    assert await here.released() == ["p"]
