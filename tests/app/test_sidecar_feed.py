"""Sidecars that count pods of a cluster, restart, fail and change their mind; in virtual time."""

import asyncio
from contextlib import asynccontextmanager

from bursar.adapters.telemetry.controller.sidecar_families import sidecar_families
from bursar.adapters.telemetry.exposition import exposition
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key
from bursar.app.cluster.time_limit import end
from bursar.app.counting.sidecars.feed import CALLS_MAX, RequestLimits, SidecarFeed
from bursar.app.counting.sidecars.ports import SidecarError, SidecarFailure
from bursar.app.quota.views.read_model import view_of
from bursar.core.counting.counters import Counters
from bursar.core.counting.sidecars import SWEEP_MS_MAX, SidecarCounter, SidecarRules
from bursar.core.quota.ledger import PodKey
from bursar.wire.counting.pod_body import keep_body
from support.builders.quota_books import a_key
from support.counting.scripted_sidecars import GONE, SLOW, ScriptedSidecar, ScriptedSockets
from support.quota.quota_loop import HOME, a_quota_loop
from support.virtual_time import in_virtual_time


def double(name, names):  # noqa: ARG001 - a rule
    return None if name.startswith("plain") else {"requests.cpu": "2"}


class Scene:
    def __init__(self, quota_scene, feed, sockets) -> None:
        self.quotas, self.feed, self.sockets = quota_scene, feed, sockets
        self.create_pod = quota_scene.create_pod

    async def rest(self, seconds: float = 5) -> None:
        await self.quotas.rest(seconds)

    def used(self) -> str:
        covered = self.quotas.books.coverage.quota(a_key(f"{HOME}/q"))
        return str(covered.accounts["requests.cpu"].used)

    def reason(self, name: str) -> str:
        return view_of(self.quotas.books).reasons[PodKey(HOME, name)]


@asynccontextmanager
async def a_scene(sockets, *, scope: bool = True, limits=None, **rules):
    rules = SidecarRules(**{"expected": 1, "sees_namespace": scope, **rules})
    counter = SidecarCounter(rules, keep_body)
    async with a_quota_loop(counter=Counters([counter])) as quota_scene:
        feed = SidecarFeed(
            counter, sockets, quota_scene.clock, sends_namespace=scope, limits=limits
        )
        task = asyncio.create_task(feed.run(quota_scene.loop.recount))
        await quota_scene.set_quota("q", requests_cpu="10")
        try:
            yield Scene(quota_scene, feed, sockets)
        finally:
            await end(task)


@in_virtual_time
async def test_a_sidecar_counts_its_pods_and_the_others_are_counted_natively():
    sidecar = ScriptedSidecar(double)
    async with a_scene(ScriptedSockets(one=sidecar)) as scene:
        await scene.create_pod("mine", "1")
        await scene.create_pod("plain", "1")
        await scene.rest()
        assert scene.used() == "3"

        text = exposition(sidecar_families([scene.feed])).decode()
        assert "bursar_sidecar_connected 1\n" in text
        assert "bursar_sidecar_held_pods 0\n" in text
        assert exposition(sidecar_families([])) == b""


@in_virtual_time
async def test_a_sidecar_is_not_shown_the_deleted_pods_of_a_namespace_that_was_empty():
    seen: list[list[str]] = []

    def too_much(_, names):
        seen.append(names)
        return {"requests.cpu": "100"}

    async with a_scene(ScriptedSockets(one=ScriptedSidecar(too_much))) as scene:
        await scene.create_pod("first", "1")
        await scene.rest()
        await scene.quotas.cluster.delete(PODS, Key(HOME, "first"))
        await scene.rest()
        await scene.create_pod("second", "1")
        await scene.rest()
        assert seen == [["first"], ["second"]]


@in_virtual_time
async def test_pods_wait_while_a_sidecar_is_missing_and_keep_their_charge():
    sidecar = ScriptedSidecar(double)
    async with a_scene(ScriptedSockets(one=sidecar)) as scene:
        await scene.create_pod("mine", "1")
        await scene.rest()
        sidecar.ailment = GONE
        await scene.rest(20)
        assert (scene.used(), scene.feed.connected) == ("2", 0)

        await scene.create_pod("new", "1")
        await scene.rest()
        assert scene.reason("new").endswith("sidecars: 0 of 1 sidecars are connected")

        scene.sockets.sidecars["two"] = ScriptedSidecar(lambda *_: {"requests.cpu": "3"})
        await scene.rest()
        assert scene.used() == "6"
        del scene.sockets.sidecars["two"]
        await scene.rest()
        assert (scene.used(), scene.feed.connected) == ("6", 0)


@in_virtual_time
async def test_one_slow_health_check_does_not_end_a_connection_and_two_do():
    sidecar = ScriptedSidecar(double)
    async with a_scene(ScriptedSockets(one=sidecar)) as scene:
        await scene.rest(1)
        sidecar.ailment = SLOW
        await scene.rest(5)
        sidecar.ailment = None
        await scene.rest(20)
        await scene.create_pod("mine", "1")
        await scene.rest()
        assert scene.used() == "2"
        assert scene.feed.counter.slots[0].epoch == 1

        sidecar.ailment = SLOW
        await scene.rest(20)
        assert scene.feed.connected == 0


@in_virtual_time
async def test_a_sidecar_that_takes_the_socket_name_of_another_is_asked_about_every_pod():
    async with a_scene(ScriptedSockets(one=ScriptedSidecar(double))) as scene:
        await scene.create_pod("mine", "1")
        await scene.rest()
        scene.sockets.sidecars["one"] = ScriptedSidecar(lambda *_: {"requests.cpu": "3"})
        await scene.rest()
        assert scene.used() == "3"


@in_virtual_time
async def test_the_successor_of_a_killed_sidecar_takes_its_place_at_once():
    killed = ScriptedSidecar(double)
    async with a_scene(ScriptedSockets(one=killed)) as scene:
        await scene.rest(20)
        killed.ailment = GONE
        scene.sockets.sidecars["two"] = ScriptedSidecar(double)
        await scene.rest(2)
        assert [slot.name for slot in scene.feed.counter.slots] == ["two"]
        assert scene.feed.counter.excess == 0


@in_virtual_time
async def test_sockets_of_ended_sidecars_are_tried_less_and_less_often():
    dead = ScriptedSidecar(double)
    dead.ailment = GONE
    async with a_scene(ScriptedSockets(one=dead)) as scene:
        await scene.rest(600)
        assert 10 < dead.checks < 40

        dead.ailment = None
        await scene.rest(31)
        assert scene.feed.connected == 1
        dead.ailment = SidecarError(SidecarFailure.BAD_ANSWER, "garbage")
        await scene.rest(10)
        assert scene.feed.connected == 0


@in_virtual_time
async def test_every_bad_answer_holds_the_pod_with_its_reason_and_is_retried_with_back_off():
    says = {
        "garbage": b"\xff\xff",
        "negative": {"requests.cpu": "-4"},
        "gone": GONE,
        "slow": SLOW,
    }
    sidecar = ScriptedSidecar(lambda name, _: says.get(name, {"requests.cpu": "2"}))
    async with a_scene(ScriptedSockets(one=sidecar)) as scene:
        for name in ("garbage", "negative"):
            await scene.create_pod(name, "1")
        await scene.create_pod("good", "1")
        await scene.rest()
        assert scene.used() == "2"
        assert "one: the answer is no PodUsageResponse" in scene.reason("garbage")
        assert "one: it charges -4 of requests.cpu" in scene.reason("negative")
        for name in ("gone", "slow"):
            await scene.create_pod(name, "1")
        await scene.rest()
        assert "it cannot be reached" in scene.reason("gone")
        assert "no answer within 10 s" in scene.reason("slow")
        assert {kind for kind, times in scene.feed.counters.failures.items() if times} == {
            SidecarFailure.BAD_ANSWER,
            SidecarFailure.TIMEOUT,
            SidecarFailure.UNREACHABLE,
        }

        sidecar.asked.clear()
        await scene.rest(600)
        assert 0 < len(sidecar.asked) < 60
        says.clear()
        await scene.rest(60)
        assert scene.used() == "10"


@in_virtual_time
async def test_native_counting_after_a_failure_is_a_choice():
    broken = ScriptedSidecar(lambda *_: b"\xff\xff")
    async with a_scene(ScriptedSockets(one=broken), falls_back=True) as scene:
        await scene.create_pod("mine", "1")
        await scene.rest()
        assert scene.used() == "1"
        assert scene.feed.counter.count_left_out() == 1

        broken.rule = double
        await scene.rest(60)
        assert scene.used() == "2"

    async with a_scene(ScriptedSockets(), falls_back=True) as scene:
        await scene.create_pod("mine", "1")
        await scene.rest(2)
        assert scene.used() == "0"
        await scene.rest(15)
        assert scene.used() == "1"


@in_virtual_time
async def test_calls_are_bounded_in_number():
    sidecar = ScriptedSidecar(double)
    sidecar.hold = asyncio.Event()
    async with a_scene(ScriptedSockets(one=sidecar)) as scene:
        for number in range(20):
            await scene.create_pod(f"plain-{number}", "100m")
        await scene.rest()
        assert sidecar.running == CALLS_MAX

        sidecar.hold.set()
        await scene.rest()
        assert scene.used() == "2"
        assert sidecar.most_running == CALLS_MAX


@in_virtual_time
async def test_an_answer_that_depends_on_other_pods_follows_them():
    sidecar = ScriptedSidecar(lambda _, names: {"requests.cpu": str(len(names))})
    async with a_scene(ScriptedSockets(one=sidecar)) as scene:
        for name in ("a", "b"):
            await scene.create_pod(name, "1")
            await scene.rest(SWEEP_MS_MAX / 1000)
        assert scene.used() == "4"

        await scene.quotas.cluster.delete(PODS, Key(HOME, "b"))
        await scene.rest(SWEEP_MS_MAX / 1000)
        assert scene.used() == "1"


@in_virtual_time
async def test_a_sidecar_may_be_shown_the_pod_alone():
    sidecar = ScriptedSidecar(lambda _, names: {"requests.cpu": str(1 + len(names))})
    async with a_scene(ScriptedSockets(one=sidecar), scope=False) as scene:
        for name in ("a", "b"):
            await scene.create_pod(name, "1")
        await scene.rest(SWEEP_MS_MAX / 1000)
        assert scene.used() == "2"


@in_virtual_time
async def test_a_sidecar_too_many_holds_new_pods():
    sockets = ScriptedSockets(one=ScriptedSidecar(double), two=ScriptedSidecar(double))
    async with a_scene(sockets) as scene:
        await scene.create_pod("mine", "1")
        await scene.rest()
        assert scene.reason("mine").endswith("2 sidecars answer, but --sidecars is 1")

        del sockets.sidecars["two"]
        await scene.rest()
        assert scene.used() == "2"


@in_virtual_time
async def test_large_namespaces_are_asked_about_one_pod_at_a_time_and_huge_ones_not_at_all():
    sidecar = ScriptedSidecar(double)
    limits = RequestLimits(namespace_bytes_max=60_000, large_bytes=20_000)
    async with a_scene(ScriptedSockets(one=sidecar), limits=limits) as scene:
        for number in range(3):
            await scene.create_pod(f"large-{number}", "1", pad="x" * 10_000)
        await scene.rest()
        sidecar.most_running = 0
        sidecar.hold = asyncio.Event()
        for number in range(3):
            await scene.create_pod(f"plain-{number}", "1")
        await scene.rest()
        assert sidecar.most_running == 1
        sidecar.hold.set()
        await scene.rest()

        await scene.create_pod("huge", "1", pad="x" * 40_000)
        await scene.rest()
        assert "as JSON, more than a message may have" in scene.reason("huge")
        assert "huge" not in sidecar.asked


@in_virtual_time
async def test_a_namespace_that_becomes_huge_while_a_question_waits_is_not_asked_about():
    sidecar = ScriptedSidecar(double)
    limits = RequestLimits(namespace_bytes_max=60_000, large_bytes=5_000)
    async with a_scene(ScriptedSockets(one=sidecar), limits=limits) as scene:
        sidecar.hold = asyncio.Event()
        for number in range(2):
            await scene.create_pod(f"large-{number}", "1", pad="x" * 10_000)
        await scene.rest()
        await scene.create_pod("huge", "1", pad="x" * 60_000)
        await scene.rest()
        sidecar.hold.set()
        await scene.rest()
        assert sidecar.asked == ["large-0"]
        assert "more than a message may have" in scene.reason("large-1")
