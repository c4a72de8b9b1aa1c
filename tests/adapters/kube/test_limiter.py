"""The limit of requests in flight."""

import asyncio
import contextlib

import pytest

from bursar.adapters.kube.limiter import Limiter

SOON = 60.0


def a_limiter(*, limit: int, growth_after: int = 2) -> Limiter:
    return Limiter(floor=1, ceiling=limit, growth_after=growth_after)


async def succeed(limiter: Limiter, times: int) -> None:
    for _ in range(times):
        with await limiter.acquire(seconds_max=SOON) as slot:
            slot.succeeded()


async def test_the_limit_holds_and_slots_are_granted_in_order():
    limiter = a_limiter(limit=2)
    order: list[int] = []
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        with await limiter.acquire(seconds_max=SOON):
            order.append(number)
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(20)))

    assert order == list(range(20))
    assert most == 2
    assert (limiter.in_flight, limiter.waiting) == (0, 0)


async def test_throttling_halves_the_limit_and_successes_raise_it():
    limiter = a_limiter(limit=8)
    with await limiter.acquire(seconds_max=SOON) as slot:
        slot.throttled()
    halved = limiter.limit
    await succeed(limiter, 4)

    assert (halved, limiter.limit) == (4, 6)


async def test_throttling_of_requests_from_before_a_halving_halves_once():
    limiter = a_limiter(limit=8)
    slots = [await limiter.acquire(seconds_max=SOON) for _ in range(8)]
    for slot in slots:
        with slot:
            slot.throttled()

    assert (limiter.limit, limiter.throttled_total, limiter.in_flight) == (4, 8, 0)


async def test_the_limit_stays_within_its_bounds():
    limiter = a_limiter(limit=3, growth_after=1)
    for _ in range(5):
        with await limiter.acquire(seconds_max=SOON) as slot:
            slot.throttled()
    lowest = limiter.limit
    await succeed(limiter, 9)

    assert (lowest, limiter.limit) == (1, 3)


@pytest.mark.parametrize("is_granted", [False, True], ids=["waiting", "granted a slot"])
async def test_a_waiter_that_is_cancelled_takes_no_slot_from_the_next(is_granted):
    limiter = a_limiter(limit=1)
    holder = await limiter.acquire(seconds_max=SOON)
    impatient = asyncio.ensure_future(limiter.acquire(seconds_max=SOON))
    patient = asyncio.ensure_future(limiter.acquire(seconds_max=SOON))
    await asyncio.sleep(0)
    if is_granted:
        with holder:
            pass
    impatient.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await impatient
    if not is_granted:
        with holder:
            pass
    with await patient:
        assert limiter.in_flight == 1

    assert (limiter.in_flight, limiter.waiting) == (0, 0)


async def test_the_wait_for_a_slot_is_bounded():
    limiter = a_limiter(limit=1)
    with await limiter.acquire(seconds_max=SOON):
        with pytest.raises(TimeoutError):
            await limiter.acquire(seconds_max=0.01)

        assert limiter.waiting == 0

    assert limiter.in_flight == 0
