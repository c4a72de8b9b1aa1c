"""The reconcile loop: refused writes, and writes that the watch has not shown yet."""

import asyncio
from random import Random

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import (
    BusyError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from bursar.app.cluster.reconcile import (
    REPAIR_SECONDS,
    RETRY_SECONDS_MAX,
    WORDS_MAX,
    PendingWrites,
    ReconcileContext,
    Reconciler,
)
from bursar.app.cluster.time_limit import end

KEY = Key("a", "q")


def test_a_write_is_pending_until_the_watch_shows_another_state():
    pending = PendingWrites[str]()
    pending.add(Identity(KEY, "u", "5"), "written")

    assert pending.find(Identity(KEY, "u", "5")) == "written"
    assert pending.find(Identity(KEY, "u", "6")) is None
    assert pending.find(Identity(Key("a", "other"), "u", "5")) is None
    pending.forget(KEY)
    assert pending.find(Identity(KEY, "u", "5")) is None


# ------------------------------------------------------------------ refusals


async def told(*outcomes):
    """What is told of a key whose writes have these outcomes, the last one for ever."""
    clock, left, found = VirtualClock(), list(outcomes), []

    async def reconcile(_key):
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if outcome is not None:
            raise outcome
        return False

    context = ReconcileContext(
        writer=None,
        clock=clock,
        random=Random(1),  # noqa: S311 - a seed
        may_write=lambda: True,
    )
    reconciler = Reconciler("test", reconcile, context, 0.1, lambda *each: found.append(each))
    running = asyncio.create_task(reconciler.run())
    reconciler.enqueue([KEY])
    await clock.advance(300)
    await end(running)
    return found


@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError("no", code=403),
        InvalidError("no", code=422),
        InvalidError("no", code=400),
        ClusterError("no", code=413),
        UnavailableError("no", code=500),
    ],
)
async def test_a_refusal_is_told_once_and_so_is_its_end(error):
    assert await told(error) == [(KEY, "no")]
    assert await told(error, error, None) == [(KEY, "no"), (KEY, "")]


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("no answer"),
        UnavailableError("later", code=503),
        BusyError("later", code=429),
        UnauthorizedError("who?", code=401),
        ConflictError("changed", code=409),
        NotFoundError("gone", code=404),
        TimeoutError(),
    ],
)
async def test_other_failures_are_no_refusals(error):
    assert await told(error) == []


async def test_a_refusal_ends_with_its_object():
    error = ForbiddenError("no", code=403)
    assert await told(error, NotFoundError("gone", code=404)) == [(KEY, "no"), (KEY, "")]


async def test_another_refusal_is_told_and_the_order_of_problems_does_not_matter():
    def refusal(*causes):
        return InvalidError(f'Q "q" is invalid: [{", ".join(causes)}]', code=422, causes=causes)

    found = await told(refusal("a: x", "b: y"), refusal("b: y", "a: x"), refusal("c: z", "d"))
    assert found == [(KEY, 'Q "q" is invalid: a: x, b: y'), (KEY, 'Q "q" is invalid: c: z, d')]


async def test_the_words_of_a_refusal_are_short_and_in_one_line():
    [(_, words)] = await told(ForbiddenError("a\nb" + "x" * 10_000, code=403))
    assert len(words) <= WORDS_MAX + 10
    assert "\n" not in words


# ------------------------------------------------------------------ expedited keys


class Bench:
    """A reconciler with an interval of ten seconds, and the times at which it reconciled."""

    def __init__(self, *outcomes):
        """`outcomes` of the reconciles, in order: whether each writes, or an error. Then False."""
        self.clock, self.left, self.times = VirtualClock(), list(outcomes), []
        context = ReconcileContext(
            writer=None,
            clock=self.clock,
            random=Random(1),  # noqa: S311 - a seed
            may_write=lambda: True,
        )
        self.reconciler = Reconciler("test", self._reconcile, context, 10.0)
        self.during = None
        self._begin = self.clock.monotonic()

    async def _reconcile(self, key):
        self.times.append(round(self.clock.monotonic() - self._begin, 1))
        if self.during is not None:
            self.during([key])
        outcome = self.left.pop(0) if self.left else False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def __aenter__(self):
        self._running = asyncio.create_task(self.reconciler.run())
        self.reconciler.enqueue([KEY])
        await self.clock.advance(0.1)
        return self

    async def __aexit__(self, *error):
        await end(self._running)


async def test_an_expedited_key_does_not_wait_for_its_interval():
    async with Bench(True, True) as bench:
        await bench.clock.advance(2.9)
        bench.reconciler.expedite([KEY])
        await bench.clock.advance(50)

        assert bench.times == [0.0, 3.0, 13.0]
        assert bench.reconciler.is_idle


async def test_an_expedited_key_waits_for_the_repair_interval():
    async with Bench(True, True, True) as bench:
        for _ in range(3):
            bench.reconciler.expedite([KEY])
            await bench.clock.advance(0.1)
        await bench.clock.advance(5)

        assert bench.times == [0.0, REPAIR_SECONDS]


async def test_a_key_that_was_expedited_for_nothing_rests_on():
    async with Bench(True, False) as bench:
        await bench.clock.advance(2.9)
        bench.reconciler.expedite([KEY])
        await bench.clock.advance(1)
        bench.reconciler.enqueue([KEY])
        await bench.clock.advance(50)

        assert bench.times == [0.0, 3.0, 10.0]
        assert bench.reconciler.is_idle


async def test_a_key_can_be_expedited_while_it_is_reconciled():
    bench = Bench(True)
    bench.during = bench.reconciler.expedite
    async with bench:
        bench.during = None
        await bench.clock.advance(50)

        assert bench.times == [0.0, REPAIR_SECONDS, 10.0]


async def test_a_back_off_is_not_shortened_and_a_conflict_is():
    for error, second in ((UnavailableError("down"), 10.0), (ConflictError("changed"), 0.2)):
        async with Bench(error) as bench:
            bench.reconciler.expedite([KEY])
            await bench.clock.advance(50)

            assert bench.times == [0.0, second]


async def test_a_key_is_not_left_for_as_long_as_a_proxy_may_ask():
    async with Bench(
        BusyError("later", retry_after=20), BusyError("later", retry_after=1e9)
    ) as bench:
        await bench.clock.advance(60)

        assert bench.times == [0.0, 20.0, 20.0 + RETRY_SECONDS_MAX]
        assert bench.reconciler.is_idle


async def test_expediting_a_key_that_is_not_queued_queues_it():
    async with Bench() as bench:
        await bench.clock.advance(1)
        bench.reconciler.expedite([KEY])
        await bench.clock.advance(1)

        assert bench.times == [0.0, 1.1]
