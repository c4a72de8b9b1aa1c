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
from bursar.app.cluster.reconcile import WORDS_MAX, PendingWrites, ReconcileContext, Reconciler
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
