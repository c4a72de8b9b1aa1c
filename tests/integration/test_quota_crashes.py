"""Controllers that die, hand over, or wait for somebody else, while pods race for room."""

import asyncio
import os
import signal
import uuid
from datetime import UTC, datetime
from functools import partial
from random import Random

import pytest

from bursar.app.cluster.kinds import LEASES, PRIORITY_CLASSES
from bursar.app.cluster.ports import Key, NotFoundError
from program import Program
from support.log_lines import messages
from support.quota.controller_processes import (
    LEASE,
    LONG_TERMS,
    SHORT_TERMS,
    Administrator,
    Controllers,
    Lane,
    Turnstile,
    administering,
    watched,
)
from support.seeds import SEED
from support.until import PATIENCE_SECONDS, until

KILLS = int(os.environ.get("BURSAR_KILLS") or 6)
"""Each takes about eight seconds: the Lease of the dead leader has to expire."""
PODS = 800
ROOM = 400
FIRST_PODS = 160
"""There before the first controller is; the others come while controllers die."""
KILL_WITHIN_S = 0.4
"""After the first gate of a term was seen lifted; in that time tens more are."""
STOPS = 2
STOP_WITHIN_S = 0.06
"""After there is room; in that time gates are being lifted, and few are lifted already."""
FREEZE_S = 6.0
"""Longer than a Lease lasts."""
WATCH_S = 4.0
"""How long a controller is watched that should not lead."""
OTHER = "aaq-controller-7c9f_0b1e"


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


class Race:
    """One namespace under a quota of its own, two that share a cluster-wide one."""

    def __init__(self, people: Administrator, turnstile: Turnstile) -> None:
        self.people, self.turnstile = people, turnstile
        self.alone, self.shared = Key("", ""), Key("", f"shared-{uuid.uuid4().hex[:6]}")
        self.namespaces: list[str] = []

    async def prepare(self) -> None:
        people = self.people
        alone = await people.namespace("alone")
        team = self.shared.name
        together = [await people.namespace("shared", team=team) for _ in range(2)]
        # Half of all pods are under each of the quotas.
        self.namespaces = [alone, alone, *together]
        self.turnstile.assign("alone", alone)
        self.turnstile.assign("shared", *together)
        self.alone = Key(alone, "alone")
        await people.quota(self.alone, {"pods": "0"})
        await people.cluster_quota(team, {"pods": "0"}, team=team)

    async def raise_to(self, limit: int) -> None:
        for lane in self.turnstile.lanes.values():
            lane.limit = limit
        for key in (self.alone, self.shared):
            await self.people.limit(key, pods=str(limit))

    async def create(self, count: int) -> None:
        shares = [count // 4 + (number < count % 4) for number in range(4)]
        await asyncio.gather(
            *(self.people.pods(*each) for each in zip(self.namespaces, shares, strict=True))
        )


async def test_a_leader_that_is_told_to_end_hands_over_and_nothing_is_lost(control_plane, tmp_path):
    handovers, room = 3, 120
    lanes = {"alone": Lane(0), "shared": Lane(0)}
    async with (
        administering(control_plane) as people,
        watched(people.client, **lanes) as turnstile,
    ):
        race = Race(people, turnstile)
        await race.prepare()
        await race.create(2 * room)
        with Controllers(control_plane, tmp_path, *LONG_TERMS, replicas=2) as controllers:
            for turn in range(1, handovers + 1):
                await race.raise_to(room // 2 * turn // handovers)
                before = turnstile.released
                await until(lambda: turnstile.released > before, "somebody leads")  # noqa: B023 - called in this round only
                leader = await controllers.living_leader(people)
                holder = await people.holder()
                leader._process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(leader._process.wait, PATIENCE_SECONDS) == 0
                assert messages(leader.log_end(2)) == ["no longer leading", "ended"]
                # It did not leave the others waiting for its Lease to run out.
                assert await people.holder() != holder
                leader.start()
            await until(lambda: turnstile.released == room, "all room is used")
            await people.settle()

            assert (turnstile.released, turnstile.waiting) == (room, room)
            assert turnstile.excesses == []
            for key in (race.alone, race.shared):
                await people.uses(key, pods=str(room // 2))


# ------------------------------------------------------------------ somebody else's Lease


def a_sign_of_life(transitions: int, seconds: int = 60) -> dict:
    """A Lease as the leader election of client-go writes it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: TID251 - the Lease is real
    return {
        "spec": {
            "holderIdentity": OTHER,
            "leaseDurationSeconds": seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
    }


async def live_on(people: Administrator, transitions: int) -> None:
    while True:
        await people.change(LEASES, LEASE, a_sign_of_life(transitions))
        await asyncio.sleep(0.5)


async def test_aaqs_own_controller_is_waited_for_and_followed(control_plane, tmp_path):
    async with (
        administering(control_plane) as people,
        watched(people.client, alone=Lane(2)) as turnstile,
    ):
        namespace = await people.namespace("led-by-aaq")
        turnstile.assign("alone", namespace)
        await people.quota(Key(namespace, "q"), {"pods": "2"})
        lease = (await people.read(LEASES, LEASE))["spec"] if await has_lease(people) else {}
        transitions = lease.get("leaseTransitions", 0) + 1
        if not lease:
            body = {"metadata": {"name": LEASE.name}} | a_sign_of_life(transitions)
            await people.client.create(LEASES, body, namespace=LEASE.namespace)
        living = asyncio.create_task(live_on(people, transitions))
        await people.pods(namespace, 3)
        with Controllers(control_plane, tmp_path, *SHORT_TERMS) as controllers:
            await asyncio.sleep(WATCH_S)
            assert await people.holder() == OTHER
            assert (turnstile.released, turnstile.waiting) == (0, 3)
            assert "leading" not in controllers.logs()

            living.cancel()
            await asyncio.wait((living,))
            await people.change(LEASES, LEASE, a_sign_of_life(transitions, seconds=1))
            await until(lambda: turnstile.released == 2, "ours follows")
            taken = (await people.read(LEASES, LEASE))["spec"]

        assert taken["leaseTransitions"] == transitions + 1
        assert turnstile.excesses == []


async def has_lease(people: Administrator) -> bool:
    try:
        await people.read(LEASES, LEASE)
    except NotFoundError:
        return False
    return True


# ------------------------------------------------------------------ stopped and woken


@pytest.mark.seeded
async def test_a_leader_that_was_stopped_for_longer_than_its_term_finishes_nothing_it_began(
    control_plane, tmp_path
):
    """While it is stopped its successor gives the room to others, who are more important."""
    print(f"BURSAR_SEED={SEED}")
    random = Random(SEED)  # noqa: S311 - a script, not a secret
    room = 40
    async with (
        administering(control_plane) as people,
        watched(people.client, alone=Lane(0)) as turnstile,
    ):
        lane = turnstile.lanes["alone"]
        quota = Key(await people.namespace("stopped"), "q")
        turnstile.assign("alone", quota.namespace)
        await people.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await people.quota(quota, {"pods": "0"})
        await people.pods(quota.namespace, 5 * room)

        async def make_room(count: int) -> None:
            lane.limit += count
            await people.limit(quota, pods=str(lane.limit))

        excesses = 0
        with Controllers(control_plane, tmp_path, *SHORT_TERMS, replicas=2) as controllers:
            for _ in range(STOPS):
                await make_room(1)
                await until(lambda: turnstile.released == lane.limit, "somebody leads")
                leader = await controllers.living_leader(people)
                holder = await people.holder()
                await make_room(room)
                await asyncio.sleep(random.uniform(0, STOP_WITHIN_S))
                leader.pause()
                await people.pods(quota.namespace, room, priorityClassName="high")
                await until(
                    partial(has_another_holder, people, holder), "its successor has the Lease"
                )
                await until(lambda: turnstile.released >= lane.limit, "its successor leads")
                terms = said(leader, "leading as")
                leader.resume()
                await until(
                    lambda: said(leader, "no longer leading") >= terms,  # noqa: B023 - called in this round only
                    "it notices that its term is over",
                )
                await people.settle()

                # One write may have been between its last look at the clock and the system call,
                # which no Lease can prevent: docs/explanation/leader-election.md.
                excess = turnstile.released - lane.limit
                assert excess in {0, 1}
                excesses += excess
                await make_room(excess)
        assert len(turnstile.excesses) == excesses


async def has_another_holder(people: Administrator, holder: str) -> bool:
    return await people.holder() not in {holder, ""}


def said(controller: Program, text: str) -> int:
    """How often the log of a controller has the text."""
    return controller.log.read_text().count(text)


@pytest.mark.parametrize("part", ["apiserver", "etcd"])
async def test_what_was_asked_of_a_server_that_froze_is_not_given_to_others_as_well(
    control_plane, tmp_path, part
):
    """Writes without an answer are carried out when it thaws; then the Lease has run out."""
    room = 40
    frozen = getattr(control_plane, part)
    async with (
        administering(control_plane) as people,
        watched(people.client, alone=Lane(0)) as turnstile,
    ):
        lane = turnstile.lanes["alone"]
        quota = Key(await people.namespace("frozen"), "q")
        turnstile.assign("alone", quota.namespace)
        await people.quota(quota, {"pods": "0"})
        await people.pods(quota.namespace, 4 * room)
        with Controllers(control_plane, tmp_path, *SHORT_TERMS, replicas=2):
            for _ in range(2):
                lane.limit += room
                before = turnstile.released
                await people.limit(quota, pods=str(lane.limit))
                await until(lambda: turnstile.released > before, "somebody leads")  # noqa: B023 - called in this round only
                frozen.pause()
                await asyncio.sleep(FREEZE_S)
                frozen.resume()
                await until(lambda: turnstile.released == lane.limit, "all room is used")
                await people.settle()
                assert turnstile.released == lane.limit
            await people.uses(quota, pods=str(lane.limit))
        assert turnstile.excesses == []


# ------------------------------------------------------------------ kill -9


@pytest.mark.seeded
async def test_no_room_is_given_twice_or_lost_however_often_the_leader_is_killed(
    control_plane, tmp_path
):
    print(f"BURSAR_SEED={SEED} BURSAR_KILLS={KILLS}")
    random = Random(SEED)  # noqa: S311 - a script, not a secret
    lanes = {"alone": Lane(0), "shared": Lane(0)}
    async with (
        administering(control_plane) as people,
        watched(people.client, **lanes) as turnstile,
    ):
        race = Race(people, turnstile)
        await race.prepare()
        await race.create(FIRST_PODS)
        with Controllers(control_plane, tmp_path, *SHORT_TERMS, replicas=2) as controllers:
            created = FIRST_PODS
            for kill in range(1, KILLS + 1):
                wanted = FIRST_PODS + (PODS - FIRST_PODS) * kill // KILLS
                creating = asyncio.create_task(race.create(wanted - created))
                created = wanted
                await race.raise_to(ROOM // 2 * kill // KILLS)
                before = turnstile.released
                await until(lambda: turnstile.released > before, "somebody leads")  # noqa: B023 - called in this round only
                await asyncio.sleep(random.uniform(0, KILL_WITHIN_S))
                leader = await controllers.living_leader(people)
                leader.kill()
                leader.start()
                await creating
            await until(lambda: turnstile.released == ROOM, "all room is used")
            await people.settle()
            assert turnstile.released == ROOM
            assert turnstile.waiting == PODS - ROOM
            for key in (race.alone, race.shared):
                await people.uses(key, pods=str(ROOM // 2))

            await race.raise_to(ROOM // 2 + 5)
            await until(lambda: turnstile.released == ROOM + 10, "ten more go")
            await people.settle()

            assert turnstile.released == ROOM + 10
            assert [lane.most for lane in lanes.values()] == [ROOM // 2 + 5] * 2
            assert turnstile.excesses == []
