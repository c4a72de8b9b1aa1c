"""The virtual clock: who wakes when, and that nobody waits for real."""

import asyncio
import itertools
from datetime import timedelta

import pytest

from bursar.adapters.clock import RealClock
from bursar.adapters.memory.simulation.clock import START, EndlessWorkError, VirtualClock


async def sleeper(clock: VirtualClock, seconds: float, name: str, diary: list[object]) -> None:
    await clock.sleep(seconds)
    diary.append((name, clock.monotonic()))


async def test_sleepers_wake_in_the_order_of_their_deadlines():
    clock, diary = VirtualClock(), []
    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 3600), ("early", 1), ("also early", 1), ("now", 0)):
            group.create_task(sleeper(clock, seconds, name, diary))
        await clock.advance(3600)

    assert diary == [("now", 0), ("early", 1), ("also early", 1), ("late", 3600)]
    assert clock.now() == START + timedelta(hours=1)


async def test_time_told_to_pass_stops_where_told():
    clock, diary = VirtualClock(), []
    task = asyncio.create_task(sleeper(clock, 10, "ten", diary))
    await clock.advance(9.5)

    assert diary == []
    assert clock.monotonic() == 9.5

    await clock.advance(0.5)

    assert diary == [("ten", 10)]
    await task


async def test_what_follows_from_waking_is_done_before_time_goes_on():
    clock, diary = VirtualClock(), []

    async def chain() -> None:
        await clock.sleep(1)
        for _ in range(100):
            await asyncio.sleep(0)
        diary.append(clock.monotonic())
        await clock.sleep(1)
        diary.append(clock.monotonic())

    task = asyncio.create_task(chain())
    await clock.advance(1.5)
    await clock.advance(1.5)

    assert diary == [1, 2]
    await task


async def test_even_the_shortest_sleep_takes_time():
    clock = VirtualClock()
    async with clock.running():
        await clock.sleep(1e-12)

    assert clock.monotonic() > 0


async def test_a_cancelled_sleeper_is_forgotten():
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    task.cancel()
    async with clock.running():
        await clock.sleep(7)

    assert clock.monotonic() == 7


async def test_time_runs_by_itself_when_everybody_waits():
    clock = VirtualClock()
    async with clock.running():
        await clock.sleep(3600)
        await clock.sleep(86400)

    assert clock.monotonic() == 90000


async def test_work_that_never_rests_is_named():
    clock = VirtualClock(turns_max=1000)

    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    task = asyncio.create_task(spin())
    with pytest.raises(EndlessWorkError):
        await clock.settle()
    task.cancel()


async def test_the_real_clock_sleeps_for_real():
    clock = RealClock()
    before, began = clock.now(), clock.monotonic()
    await clock.sleep(0.01)

    assert clock.monotonic() - began >= 0.01
    assert clock.now() > before
    assert before.tzinfo is not None
