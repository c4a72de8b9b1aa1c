"""Callers share a call, and each gets the result of a call that began after it asked."""

import asyncio
from random import Random

import pytest

from bursar.app.devices.shared_call import SharedCall
from support.virtual_time import in_virtual_time


class Work:
    """Ends when told to; knows how many ran at once."""

    def __init__(self):
        self.gates: list[asyncio.Future[str]] = []
        self.running = self.running_max = self.cancelled = 0

    async def __call__(self):
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            return await gate
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def call(work):
    return SharedCall(work)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def joined(call, **options):
    caller = asyncio.create_task(call.join(**options))
    await settle()
    return caller


async def test_callers_of_one_moment_share_one_call(work, call):
    callers = [asyncio.create_task(call.join()) for _ in range(50)]
    await settle()
    work.gates[0].set_result("answer")

    assert await asyncio.gather(*callers) == ["answer"] * 50
    assert call.begun == 1


async def test_whoever_asks_later_gets_what_began_later(work, call):
    first = await joined(call)
    later = [asyncio.create_task(call.join()) for _ in range(50)]
    await settle()

    assert len(work.gates) == 1
    work.gates[0].set_result("old")
    await settle()
    assert (first.done(), later[0].done(), len(work.gates)) == (True, False, 2)
    work.gates[1].set_result("new")
    assert await asyncio.gather(first, *later) == ["old"] + ["new"] * 50
    assert work.running_max == 1


async def test_whoever_is_content_with_what_runs_does_not_wait_for_the_next(work, call):
    first = await joined(call)
    content = await joined(call, may_have_begun=True)
    work.gates[0].set_result("old")

    assert await asyncio.gather(first, content) == ["old", "old"]
    assert call.begun == 1


async def test_caller_that_is_cancelled_does_not_end_the_work_of_others(work, call):
    gone, stays = (asyncio.create_task(call.join()) for _ in range(2))
    await settle()
    gone.cancel()
    await settle()
    work.gates[0].set_result("answer")

    assert await stays == "answer"
    assert gone.cancelled()
    assert work.cancelled == 0


async def test_work_that_nobody_waits_for_is_ended(work, call):
    callers = [asyncio.create_task(call.join()) for _ in range(3)]
    await settle()
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)

    assert (work.running, work.cancelled) == (0, 1)


async def test_call_that_waits_its_turn_in_vain_never_begins(work, call):
    first = await joined(call)
    second = await joined(call)
    second.cancel()
    await settle()
    third = await joined(call)
    work.gates[0].set_result("old")
    await settle()
    work.gates[1].set_result("new")

    assert await asyncio.gather(first, third) == ["old", "new"]
    assert call.begun == 2


async def test_work_that_is_being_ended_is_not_joined(work, call):
    gone = await joined(call)
    gone.cancel()
    newcomer = await joined(call, may_have_begun=True)
    work.gates[1].set_result("answer")

    assert await newcomer == "answer"


async def test_error_reaches_every_caller_and_the_next_call_is_a_new_one(work, call):
    callers = [asyncio.create_task(call.join()) for _ in range(3)]
    await settle()
    work.gates[0].set_exception(LookupError("gone"))
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    again = await joined(call)
    work.gates[1].set_result("back")

    assert [str(each) for each in outcomes] == ["gone"] * 3
    assert await again == "back"


async def test_each_caller_has_a_deadline_of_its_own(work, call):
    patient = asyncio.create_task(call.join())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await call.join()
    work.gates[0].set_result("answer")

    assert await patient == "answer"


async def test_work_that_was_begun_goes_on_when_everybody_has_left(work, call):
    begun = call.begin()
    gone = await joined(call)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    later = await joined(call, may_have_begun=True)
    work.gates[0].set_result("answer")

    assert await later == await begun == "answer"
    assert (call.begun, work.cancelled) == (1, 0)


async def test_work_that_is_begun_often_is_done_once(work, call):
    tasks = [call.begin(may_have_begun=True) for _ in range(3)]
    await settle()
    tasks.append(call.begin(may_have_begun=True))
    await settle()
    work.gates[0].set_result("answer")

    assert await asyncio.gather(*tasks) == ["answer"] * 4
    assert call.begun == 1


async def test_flight_that_is_closed_ends_what_runs_and_what_waits_its_turn(work, call):
    call.begin()
    await settle()
    call.begin()
    await settle()
    await call.close()
    await call.close()

    assert (work.running, work.cancelled, call.begun) == (0, 1, 1)


@pytest.mark.parametrize("seed", range(20))
@in_virtual_time
async def test_whatever_callers_do_each_gets_what_began_after_it_asked(seed):
    """Callers come and go, work takes its time or fails; nothing runs twice or is left over."""
    random = Random(seed)  # noqa: S311 - a seed, not a secret
    running = [0]

    async def work():
        began = asyncio.get_running_loop().time()
        running[0] += 1
        assert running[0] == 1
        try:
            await asyncio.sleep(random.choice([0, 0.1, 1.0]))
        finally:
            running[0] -= 1
        if random.random() < 0.2:
            raise LookupError(began)
        return began

    async def caller(call, ended):
        await asyncio.sleep(random.uniform(0, 20))
        asked = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(random.choice([0.05, 0.5, 5])):
                began = await call.join()
        except LookupError as error:
            began = error.args[0]
        except TimeoutError:
            began = asked
        assert began >= asked
        ended.append(asked)

    call, ended = SharedCall(work), []
    await asyncio.gather(*(caller(call, ended) for _ in range(100)))
    assert len(ended) == 100
    assert running == [0]
    assert call.begun < 100
