"""A new leader decides only when its counters know what running pods cost."""

import asyncio

import pytest

from bursar.app.counting.feeds import Counting
from bursar.app.quota.quota_loop import COUNTERS_SECONDS
from bursar.core.counting.counter import Pending
from bursar.core.counting.counters import Counters
from bursar.core.quota.ledger import PodKey
from support.counting.plan_counter import PLANS
from support.counting.table_counter import TableCounter
from support.quota.aaq_controller import AaqScene


class SlowKind:
    """Objects that are listed when the test says so. Until then the pod `vm` is not counted."""

    resource = PLANS
    is_named_by_pods = True

    def __init__(self) -> None:
        self.listed = asyncio.Event()
        self.table = TableCounter()
        self.table.table["vm"] = Pending("not listed")

    def counting(self) -> Counting:
        return Counting(counter=Counters((self.table,)), kinds=(self,))

    def feed(self, *_):
        return self

    async def wait_known(self) -> None:
        await self.listed.wait()

    async def run(self, recount) -> None:
        await self.listed.wait()
        self.table.table["vm"] = "requests.cpu=4"
        recount([PodKey("team", "vm")])


@pytest.fixture
async def scene():
    """A VM that requests one CPU and costs four, and a pod that fits only beside the one."""
    scene = AaqScene()
    await scene.furnish()
    await scene.quota("requests.cpu=5")
    await scene.pod("vm", "cpu=1")
    await scene.gated_pod("web", "cpu=2")
    return scene


async def test_nothing_is_released_before_running_pods_are_counted(scene):
    kind = SlowKind()
    async with scene.started(open_counting=kind.counting):
        await scene.moment(COUNTERS_SECONDS / 2)
        kind.listed.set()
        await scene.moment(COUNTERS_SECONDS)

        assert await scene.released() == ["vm"]


async def test_a_counter_that_does_not_come_holds_no_others_for_ever(scene):
    kind = SlowKind()
    async with scene.started(open_counting=kind.counting) as controller:
        await scene.moment(COUNTERS_SECONDS / 2)
        assert not controller.term.loop.is_synced

        await scene.moment(COUNTERS_SECONDS)
        assert await scene.released() == ["vm", "web"]
