"""Lifting a gate: every answer of the API server, and every missing one, has one meaning."""

import asyncio
import gc
import random
import weakref

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.cluster.ports import (
    BusyError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from bursar.app.quota.release.lifting import TRIES_MAX, GateLifter, LiftResult
from bursar.core.quota.releases import ReleaseOutcome
from bursar.wire.model.pod_row import PodRowDecoder

ROW = PodRowDecoder().decode(
    b'{"metadata": {"namespace": "team", "name": "p", "uid": "u-1", "resourceVersion": "7"},'
    b' "spec": {"schedulingGates": [{"name": "ApplicationAwareQuotaGate"}], "containers": []}}'
)
UNANSWERED = TimeoutError()
CHANGED, REFUSED = ReleaseOutcome.CHANGED, ReleaseOutcome.REFUSED
UNCLEAR = ReleaseOutcome.UNANSWERED
WRITE_S, LEADING_S = 3.0, 10.0


class Server:
    """Answers each write with the next of its answers.

    None is a success, a number one after so many seconds, and `UNANSWERED` never comes.
    """

    def __init__(self, clock, *answers):
        self.clock = clock
        self.answers = list(answers)
        self.bodies = []
        self.body = b'{"metadata": {"uid": "u-1"}}'
        self.patches = []
        self.ended = 0

    async def patch(self, resource, key, patch, **options):
        assert (str(resource), str(key), options) == ("pods", "team/p", {})
        self.bodies.append(patch.body)
        self.patches.append(patch)
        answer = self.answers.pop(0)
        try:
            is_slow = answer is UNANSWERED or isinstance(answer, float)
            await self.clock.sleep(1000 if answer is UNANSWERED else answer if is_slow else 0.1)
        finally:
            self.ended += 1
        if isinstance(answer, Exception):
            try:
                raise answer
            finally:
                # The error holds this frame, which would hold the error: a cycle.
                del answer
        return self.body


def lifting_at(server, may_write=lambda: True, leading_s=LEADING_S):
    return GateLifter(
        server,
        server.clock,
        random=random.Random(1),  # noqa: S311 - a run must be repeatable
        may_write=may_write,
        write_seconds=WRITE_S,
        remaining_seconds=lambda: leading_s,
    )


async def lifted(*answers, may_write=lambda: True, is_patient=False, leading_s=LEADING_S):
    clock = VirtualClock()
    server = Server(clock, *answers)
    lifter = lifting_at(server, may_write, leading_s)
    lifting = asyncio.create_task(lifter.lift(ROW, is_patient=is_patient))
    await clock.advance(120)
    assert lifting.done()
    return lifting.result(), server, lifter.counters


async def test_the_write_names_the_pod_and_the_state_that_were_decided_upon():
    result, server, counters = await lifted(None)

    assert result == LiftResult(ReleaseOutcome.LIFTED)
    assert server.bodies == [
        [
            {"op": "test", "path": "/metadata/uid", "value": "u-1"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/spec/schedulingGates"},
        ]
    ]
    assert (counters.writes, counters.retries, counters.outcomes[ReleaseOutcome.LIFTED]) == (
        1,
        0,
        1,
    )


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NotFoundError("gone"), ReleaseOutcome.GONE),
        (ConflictError("changed"), CHANGED),
        (ForbiddenError("a webhook says no"), REFUSED),
        (InvalidError("a rule says no"), REFUSED),
    ],
)
async def test_a_plain_answer_is_taken_at_its_word(error, answer):
    result, _, counters = await lifted(error)

    assert result == LiftResult(answer, error.message)
    assert counters.writes == 1


@pytest.mark.parametrize(
    ("then", "answer"),
    [
        (ForbiddenError("no"), CHANGED),
        (InvalidError("no"), CHANGED),
        (ConflictError("no"), CHANGED),
        (NotFoundError("no"), ReleaseOutcome.GONE),
    ],
)
async def test_after_a_lost_answer_a_no_only_says_that_the_pod_has_changed(then, answer):
    """The first write may have been carried out, and the refusal be due to that."""
    result, server, counters = await lifted(UnavailableError("connection reset"), then)

    assert result == LiftResult(answer, "no")
    assert server.bodies[0] == server.bodies[1]
    assert (counters.writes, counters.retries) == (2, 1)


async def test_a_busy_server_has_not_carried_anything_out():
    result, _, _ = await lifted(BusyError("later", retry_after=2), ForbiddenError("no"))

    assert result == LiftResult(REFUSED, "no")


async def test_the_server_says_how_long_to_wait():
    clock = VirtualClock()
    server = Server(clock, BusyError("later", retry_after=WRITE_S), None)
    lifter = lifting_at(server)
    lifting = asyncio.create_task(lifter.lift(ROW))

    await clock.advance(WRITE_S)
    assert len(server.bodies) == 1
    await clock.advance(1)
    assert lifting.done()


# ------------------------------------------------------------------ the worker is given back


async def test_a_server_that_wants_to_be_left_alone_for_long_does_not_keep_the_worker():
    result, _, counters = await lifted(BusyError("later", retry_after=30))

    assert (result, counters.writes) == (LiftResult(UNCLEAR, "later"), 1)


async def test_a_server_that_keeps_failing_does_not_keep_the_worker():
    down = [UnavailableError("failed calling webhook") for _ in range(TRIES_MAX)]

    result, server, counters = await lifted(*down, None)

    assert result == LiftResult(UNCLEAR, "failed calling webhook")
    assert server.answers == [None]
    assert (counters.writes, counters.outcomes[UNCLEAR]) == (TRIES_MAX, 1)


async def test_a_failed_patch_is_forgotten_at_once():
    """Its error holds all that was sent. A tenant with a broken webhook causes many of them."""
    clock = VirtualClock()
    server = Server(clock, *(InvalidError("a webhook says no") for _ in range(20)))
    errors = [weakref.ref(each) for each in server.answers]
    lifter = lifting_at(server)
    gc.disable()
    try:
        for _ in errors:
            lifting = asyncio.create_task(lifter.lift(ROW))
            await clock.advance(0.1)
            assert lifting.result().outcome is REFUSED
        assert not [each for each in errors if each() is not None]
    finally:
        gc.enable()
        await lifter.close()


async def test_a_success_without_the_pod_is_no_answer():
    """Something in between the controller and the API server may say yes to everything."""
    clock = VirtualClock()
    server = Server(clock, *[None] * TRIES_MAX)
    server.body = b'{"status": "ok"}'
    lifting = asyncio.create_task(lifting_at(server).lift(ROW))

    await clock.advance(30)

    assert lifting.result() == LiftResult(UNCLEAR, "the answer to the patch is not the pod")


async def test_a_server_that_hangs_does_not_keep_the_worker():
    clock = VirtualClock()
    server = Server(clock, UNANSWERED, None)
    lifting = asyncio.create_task(lifting_at(server).lift(ROW))

    await clock.advance(WRITE_S + 0.1)

    assert lifting.done()
    assert (lifting.result().outcome, server.ended) == (UNCLEAR, 1)


async def test_a_patient_attempt_outlasts_a_webhook_that_hangs():
    """It ends before another replica can lead, wherever the time goes."""
    result, server, _ = await lifted(10.5, is_patient=True)

    assert result == LiftResult(ReleaseOutcome.LIFTED)
    [patch] = server.patches
    assert patch.send_by is not None
    assert patch.timeout_seconds is not None
    assert patch.send_by + patch.timeout_seconds == LEADING_S + WRITE_S


async def test_a_patient_attempt_is_one_patch():
    result, server, _ = await lifted(UnavailableError("down"), None, is_patient=True)

    assert (result, server.answers) == (LiftResult(UNCLEAR, "down"), [None])


@pytest.mark.parametrize("is_patient", [False, True])
async def test_a_patch_is_not_sent_after_the_time_for_which_the_process_leads(is_patient):
    """The server may take the whole of its timeout from then on."""
    _, server, _ = await lifted(None, is_patient=is_patient, leading_s=1.0)

    [patch] = server.patches
    assert (patch.send_by, patch.timeout_seconds) == (1.0, None)


async def test_short_and_long_time_limits_hold_beside_each_other():
    clock = VirtualClock()
    server = Server(clock, UNANSWERED, UNANSWERED, UNANSWERED)
    lifter = lifting_at(server)
    patient = asyncio.create_task(lifter.lift(ROW, is_patient=True))
    await clock.advance(1)
    short = [asyncio.create_task(lifter.lift(ROW)) for _ in range(2)]

    await clock.advance(WRITE_S + 0.1)
    assert ([each.done() for each in short], patient.done()) == ([True, True], False)
    await clock.advance(LEADING_S)
    assert patient.done()
    await lifter.close()


async def test_an_attempt_that_is_cut_because_another_leads_has_no_outcome():
    words = iter([True, True, False])

    result, _, counters = await lifted(UNANSWERED, may_write=lambda: next(words))

    assert (result, sum(counters.outcomes.values())) == (None, 0)


# ------------------------------------------------------------------ leading


async def test_whoever_leads_no_longer_writes_no_more():
    words = iter([True, True, False])  # Asked once more right before it is sent.

    result, server, _ = await lifted(UnavailableError("away"), may_write=lambda: next(words))

    assert result is None
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("words", "writes"),
    [([False], 0), ([True, False], 0), ([True, True], 1)],
    ids=["never", "not when the request begins", "all the time"],
)
async def test_the_write_is_sent_only_by_one_who_may(words, writes):
    left = iter(words)
    result, server, _ = await lifted(None, may_write=lambda: next(left, False))

    assert len(server.bodies) == writes
    assert (result is not None) == bool(writes)


async def test_a_write_that_fails_after_the_work_is_cancelled_leaves_no_traceback_behind():
    clock, forgotten = VirtualClock(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))
    lifter = lifting_at(Server(clock, UnavailableError("no answer within 3 s")))
    lifting = asyncio.create_task(lifter.lift(ROW))
    await clock.advance(0.05)
    lifting.cancel()
    await clock.advance(1)
    await asyncio.wait((lifting,))
    await lifter.close()
    del lifting, lifter
    await clock.advance(10)
    gc.collect()

    assert forgotten == []


async def test_a_write_under_way_is_waited_for_when_the_work_is_cancelled():
    """A request cannot be called back, so nobody else may begin before it has ended."""
    clock = VirtualClock()
    server = Server(clock, None)
    lifter = lifting_at(server)
    lifting = asyncio.create_task(lifter.lift(ROW))
    await clock.advance(0.05)
    lifting.cancel()
    await clock.settle()
    assert (lifting.done(), server.ended) == (False, 0)

    await clock.advance(0.1)
    assert (lifting.cancelled(), server.ended) == (True, 1)
