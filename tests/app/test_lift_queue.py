"""The queue of releases: which namespace a free worker serves next."""

import asyncio

import pytest

from bursar.app.quota.release.lift_queue import IDLE_MAX, LiftQueue
from bursar.core.quota.releases import Release
from support.builders.quota_books import a_row

WORKERS = 16


@pytest.fixture
def queue():
    return LiftQueue(WORKERS)


def put(queue, *names):
    for name in names:
        queue.put(Release(row=a_row(name, "cpu=1")))


async def taken(queue):
    """Everything that free workers would take now."""
    found = []
    while True:
        work = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return found
        found.append(work.result())


def names(attempts):
    return [f"{each.release.row.namespace}/{each.release.row.name}" for each in attempts]


def fail(queue, attempts):
    for attempt in attempts:
        queue.finish(attempt, is_answered=False, is_quick=True)


def succeed(queue, attempts, *, is_quick=True):
    for attempt in attempts:
        queue.finish(attempt, is_answered=True, is_quick=is_quick)


async def test_namespaces_take_turns(queue):
    put(queue, "a/1", "a/2", "a/3", "b/1", "c/1", "b/2")

    assert names(await taken(queue)) == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]
    assert len(queue) == 0


async def test_no_namespace_has_all_workers(queue):
    put(queue, *(f"a/{number}" for number in range(2 * WORKERS)))
    mine = await taken(queue)
    assert 0 < len(mine) < WORKERS
    put(queue, "b/1")

    assert names(await taken(queue)) == ["b/1"]
    succeed(queue, mine)
    assert len(await taken(queue)) == len(mine)


async def test_a_release_is_in_the_queue_once(queue):
    put(queue, "a/1", "a/1")
    [attempt] = await taken(queue)
    put(queue, "a/1")
    assert len(queue) == 0

    fail(queue, [attempt])
    put(queue, "a/1")

    assert len(queue) == 1


async def test_after_a_missing_answer_a_namespace_has_one_worker(queue):
    put(queue, *(f"a/{number}" for number in range(WORKERS)))
    fail(queue, await taken(queue))
    assert list(queue.troubled()) == ["a"]

    [probe] = await taken(queue)

    assert probe.is_troubled
    succeed(queue, [probe])
    rest = await taken(queue)
    assert len(rest) > 1
    assert not rest[0].is_troubled


async def test_a_slow_answer_lets_a_namespace_recover_step_by_step(queue):
    """It stays troubled, so that its attempts have the time that they need."""
    put(queue, *(f"a/{number}" for number in range(4 * WORKERS)))
    fail(queue, await taken(queue))
    sizes = []
    for _ in range(5):
        attempts = await taken(queue)
        sizes.append(len(attempts))
        assert all(each.is_troubled for each in attempts)
        succeed(queue, attempts, is_quick=False)

    assert sizes == [1, 2, 8, 8, 8]


async def test_troubled_namespaces_leave_workers_to_the_others(queue):
    broken = [f"broken-{number}" for number in range(2 * WORKERS)]
    put(queue, *(f"{name}/{number}" for name in broken for number in range(2)))
    while set(queue.troubled()) != set(broken):
        fail(queue, await taken(queue))

    put(queue, *(f"{name}/again" for name in broken))
    attempts = await taken(queue)
    assert len(attempts) == WORKERS // 2
    put(queue, "fine/1")

    assert names(await taken(queue)) == ["fine/1"]


async def test_troubled_namespaces_are_served_beside_any_number_of_others(queue):
    put(queue, "broken/1", "broken/2")
    fail(queue, await taken(queue))
    put(queue, "broken/3", *(f"fine-{number}/1" for number in range(WORKERS)))

    attempts = (await taken(queue))[:WORKERS]

    assert "broken/3" in names(attempts)


async def test_a_worker_waits_until_there_is_a_release(queue):
    works = [asyncio.create_task(queue.take()) for _ in range(3)]
    await asyncio.sleep(0)
    works[0].cancel()
    await asyncio.sleep(0)

    put(queue, "a/1", "b/1")
    done, _ = await asyncio.wait(works[1:])

    assert sorted(names(each.result() for each in done)) == ["a/1", "b/1"]


async def test_a_namespace_with_nothing_to_do_is_forgotten(queue):
    put(queue, "a/1", "b/1")
    succeed(queue, await taken(queue))

    assert not list(queue.troubled())
    assert len(queue) == 0


async def test_troubled_namespaces_that_come_and_go_are_forgotten_when_they_are_very_many(queue):
    for number in range(IDLE_MAX + 20):
        put(queue, f"n{number}/1")
        fail(queue, await taken(queue))

    assert len(list(queue.troubled())) == IDLE_MAX
    put(queue, "n0/2", f"n{IDLE_MAX + 1}/2")
    assert [each.is_troubled for each in await taken(queue)] == [True, False]
