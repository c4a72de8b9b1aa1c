"""The informer on a cluster that is killed, forgets, is cut off, stalls and says no.

Every scene is played in both worlds: on the embedded cluster in virtual time, and on a
real one whose API server is hurt.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support.fault_scene import Scene, Stage

pytestmark = pytest.mark.slow

STORM_SECONDS = 60
POD_COUNT = 20_000
WRITERS = 32


async def killed(it: Scene) -> None:
    await it.world.kill_server()
    await asyncio.sleep(0.5)
    await it.world.restart_server()


async def forgetful(it: Scene) -> None:
    """The past is compacted while the informer is cut off, so that its moment is gone."""
    it.world.hold()
    deletes = it.deletes
    await asyncio.sleep(1)
    await it.world.kill_server()
    await it.world.restart_server(is_forgetful=True)
    it.world.cut()
    it.world.let_go()
    assert it.deletes > deletes, "there were deletes behind the informer's back"


async def cut_every_second(it: Scene) -> None:
    for _ in range(6):
        it.world.cut()
        await asyncio.sleep(1)


async def stalled(it: Scene) -> None:
    it.world.hold()
    deletes = it.deletes
    await asyncio.sleep(30)
    it.world.let_go()
    assert it.deletes > deletes, "there were deletes behind the informer's back"


@pytest.mark.parametrize("fault", [killed, forgetful, cut_every_second, stalled])
def test_after_the_fault_the_cache_equals_a_fresh_list(
    stage: Stage, fault: Callable[[Scene], Awaitable[None]]
):
    async def story(it: Scene) -> None:
        async with it.churning():
            await fault(it)
        await it.assert_agreement()

        assert len(it.told.deaths) > 5, "there were deletes to be seen"
        counters = it.informer.counters
        assert fault is stalled or counters.watch_restarts + counters.relists > 0, "it hurt"

    stage.play(story)


def test_a_storm_of_429_is_weathered(stage: Stage):
    async def story(it: Scene) -> None:
        async with it.churning(), it.world.storm(), asyncio.timeout(STORM_SECONDS):
            it.world.cut()
            while it.world.refusals < 5:  # noqa: ASYNC110 - a server sets no event of ours
                await asyncio.sleep(0.1)
        await it.assert_agreement()

    stage.play(story)


def test_twenty_thousand_pods_come_and_go(stage: Stage):
    async def story(it: Scene) -> None:
        names = iter(range(POD_COUNT))

        async def work() -> None:
            for number in names:
                await it.create(f"pod-{number}")

        await asyncio.gather(*(work() for _ in range(WRITERS)))
        await it.assert_agreement()
        assert len(it.informer) == POD_COUNT

        it.world.hold()
        await it.world.delete_all()
        it.world.cut()
        it.world.let_go()
        await it.assert_agreement()
        assert len(it.informer) == 0

    stage.play(story)
