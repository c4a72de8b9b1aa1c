"""Those who follow an informer's changes: late ones, slow ones, several, and those who leave."""

import asyncio

from bursar.app.cluster.informer.informer import InformerRules
from bursar.app.cluster.observe import follow
from bursar.app.cluster.ports import ExpiredError, Key
from support.cluster.audited_informer import Auditor, Session, following
from support.cluster.scripted_cluster import ScriptedCluster
from support.virtual_time import MachineClock, in_virtual_time


def cluster_of(count):
    cluster = ScriptedCluster()
    for number in range(count):
        cluster.write(f"a/{number}")
    return cluster


@in_virtual_time
async def test_a_slow_consumer_slows_the_watch_and_memory_stays_bounded():
    cluster = cluster_of(1)
    async with following(cluster, pace=lambda: 1.0, pending_max=4) as session:
        await session.informer.wait_synced()
        for value in range(50):
            cluster.write("a/0", value)
        await session.pass_time(10)
        # Told, pending, and one in the informer's hand: the rest is still in the stream.
        assert session.informer.counters.events <= 1 + 10 + 4 + 1
        await session.pass_time(60)
        session.check()
        assert session.informer.counters.events == 51


@in_virtual_time(on=lambda: following(cluster_of(40), pace=lambda: 1.0, pending_max=4))
async def test_a_whole_list_waits_for_its_consumer_too(session):
    await session.pass_time(9.5)
    assert session.informer.is_synced
    assert len(session.auditor.changes) == 10
    await session.pass_time(60)
    session.check()


@in_virtual_time(on=lambda: following(cluster_of(9), pace=lambda: 100.0, pending_max=1))
async def test_staleness_grows_while_a_consumer_holds_the_watch_up(session):
    await session.pass_time(90)
    assert session.informer.staleness_seconds == 90
    await session.pass_time(1000)


@in_virtual_time(on=lambda: following(cluster_of(2)))
async def test_one_who_joins_late_begins_with_what_is_known(session):
    await session.pass_time()
    session.cluster.write("a/0", 5)
    await session.pass_time()
    late = Auditor()
    changes = session.informer.changes()
    session.cluster.delete("a/1")
    await session.pass_time()
    for _ in range(4):
        late.hear(await anext(changes))
    assert late.story == ["+0", "+1", "synced", "-1"]
    assert late.books == session.auditor.books
    changes.close()


@in_virtual_time
async def test_one_who_joins_while_a_list_is_being_told_hears_nothing_twice():
    async with following(cluster_of(30), pace=lambda: 1.0, pending_max=2) as session:
        await session.pass_time(10)
        late = Auditor()

        async def read():
            async for change in session.informer.changes():
                late.hear(change)

        reading = asyncio.create_task(read())
        await session.pass_time(1)
        session.cluster.cut(ExpiredError("gone"))
        session.cluster.write("a/0", 5)
        await session.pass_time(100)
        session.check()
        assert late.books == session.auditor.books
    await reading


@in_virtual_time(on=lambda: following(cluster_of(1), pending_max=2))
async def test_one_who_leaves_holds_nobody_up(session):
    await session.informer.wait_synced()
    idle = session.informer.changes()
    for value in range(20):
        session.cluster.write("a/0", value)
    await session.pass_time()
    assert session.informer.find(Key("a", "0")).value < 19
    assert len(idle) == 2
    idle.close()
    await session.pass_time()
    session.check()
    assert [change async for change in idle] == []


@in_virtual_time
async def test_what_is_pending_can_be_read_after_the_informer_was_stopped():
    async with following(cluster_of(3)) as session:
        changes = session.informer.changes()
        await session.pass_time()
    auditor = Auditor()
    async for change in changes:
        auditor.hear(change)
    assert auditor.story == ["+0", "+1", "+2", "synced"]


@in_virtual_time
async def test_a_long_stream_lets_other_tasks_have_their_turn():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with following(cluster_of(2000), pending_max=10_000) as session:
        task = asyncio.create_task(other())
        await session.informer.wait_synced()
        assert turns >= 2000 // 256
        task.cancel()
        await asyncio.wait([task])
        await session.pass_time()
        session.check()


class SlowMachine(MachineClock):
    """A machine on which each look at the clock finds that four milliseconds have passed."""

    def __init__(self) -> None:
        super().__init__()
        self._worked = 0.0

    def monotonic(self) -> float:
        self._worked += 0.004
        return super().monotonic() + self._worked


async def count_turns(turns):
    while True:
        turns.append(None)
        await asyncio.sleep(0)


@in_virtual_time
async def test_objects_that_take_long_to_decode_let_other_tasks_run_in_between():
    """A list of 60 objects, all ready: without turns, nothing else runs until it is told."""
    cluster = cluster_of(60)
    session = Session(cluster, InformerRules())
    session.informer.clock = SlowMachine()
    turns = []
    counting = asyncio.create_task(count_turns(turns))
    running = asyncio.create_task(session.informer.run())
    told, is_synced = [], asyncio.Event()
    telling = follow(session.informer, told.append, told.remove, is_synced.set)
    following_it = asyncio.create_task(telling)
    await is_synced.wait()
    for task in (counting, running, following_it):
        task.cancel()
    await asyncio.gather(counting, running, following_it, return_exceptions=True)

    assert len(told) == 60
    # At most three objects a turn, decoding and telling.
    assert len(turns) > 60 // 3
