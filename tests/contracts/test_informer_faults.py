"""The informer on a cluster that is killed, forgets, is cut off, stalls and says no.

Every scene is played in both worlds: on the embedded cluster in virtual time, and on a
real one whose API server is hurt.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support.faults.informer_faults import Scene, Stage
from support.until import until

pytestmark = pytest.mark.slow

POD_COUNT = 1_500
"""Several pages of a LIST."""
WRITERS = 32


async def killed(it: Scene) -> None:
    await it.world.kill_server()
    await asyncio.sleep(0.5)
    await it.world.restart_server()


async def forgetful(it: Scene) -> None:
    """The past is compacted while the informer is cut off, so that its moment is gone."""
    it.world.hold()
    await it.more_deletes(5)
    await it.world.kill_server()
    await it.world.restart_server(is_forgetful=True)
    it.world.cut()
    it.world.let_go()


async def cut_again_and_again(it: Scene) -> None:
    counters = it.informer.counters
    for turn in range(1, 7):
        it.world.cut()
        await until(
            lambda: counters.watch_restarts + counters.relists >= turn,  # noqa: B023 - called in this round only
            f"the informer begins again for the {turn}. time",
        )
        await it.more_deletes(3)


async def stalled(it: Scene) -> None:
    it.world.hold()
    await it.more_deletes(20)
    it.world.let_go()


@pytest.mark.parametrize("fault", [killed, forgetful, cut_again_and_again, stalled])
def test_after_the_fault_the_cache_equals_a_fresh_list(
    stage: Stage, fault: Callable[[Scene], Awaitable[None]]
):
    async def story(it: Scene) -> None:
        async with it.churning():
            await fault(it)
        await it.assert_agreement()

        counters = it.informer.counters
        assert fault is stalled or counters.watch_restarts + counters.relists > 0, "it hurt"

    stage.play(story)


def test_a_storm_of_429_is_weathered(stage: Stage):
    async def story(it: Scene) -> None:
        async with it.churning(), it.world.storm():
            it.world.cut()
            await until(lambda: it.world.refusals >= 3, "the informer is told to wait, three times")
        await it.assert_agreement()

    stage.play(story)


def test_thousands_of_pods_come_and_go(stage: Stage):
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
