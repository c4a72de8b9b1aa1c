"""How a term ends by itself or on shutdown, and settings that cannot work."""

import asyncio
import json

import pytest

from bursar.app.cluster.election.election import Candidacy
from bursar.app.cluster.election.lease import decode_lease
from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from support.cluster.election_candidates import LEASE, Bench, Work, eternity, stop
from support.cluster.small_cluster import Travel
from support.virtual_time import in_virtual_time


@in_virtual_time(on=Bench)
async def test_released_lease_is_taken_at_the_next_try(bench):
    work = Work()
    first = bench.start(bench.candidate("one"), eternity)
    await asyncio.sleep(1)
    bench.start(bench.candidate("two"), work)
    await asyncio.sleep(20)
    await stop(first)
    released, released_at = bench.spec, bench.now
    await work.has_begun.wait()

    assert released["holderIdentity"] == ""
    assert released["leaseDurationSeconds"] == 1
    assert released["leaseTransitions"] == 0
    assert bench.now - released_at < 2.2 * DEFAULT_TIMING.retry_seconds
    assert bench.spec["leaseTransitions"] == 1


@in_virtual_time(on=Bench)
async def test_lease_is_kept_until_slow_work_has_ended_and_released_then(bench):
    work, other = Work(stop_seconds=60), Work()
    task = bench.start(bench.candidate("one"), work)
    await work.has_begun.wait()
    bench.start(bench.candidate("two"), other)
    await stop(task)
    ended_at = bench.now
    await other.has_begun.wait()

    assert work.ended[0] <= ended_at
    assert work.ended[0] >= 60
    assert other.begun[0] > ended_at


@in_virtual_time(on=Bench)
async def test_what_the_work_raises_ends_the_run_and_releases_the_lease(bench):
    async def lead() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await bench.candidate("one").run(lead)

    assert bench.spec["holderIdentity"] == ""


@in_virtual_time(on=Bench)
async def test_release_finds_the_record_of_a_renewal_whose_answer_was_lost(bench):
    task = bench.start(bench.candidate("one"), eternity)
    await asyncio.sleep(1)
    bench.travels["one"] = lambda: Travel(is_answer_lost=True)
    await asyncio.sleep(3)
    del bench.travels["one"]
    await stop(task)

    assert bench.spec["holderIdentity"] == ""


@in_virtual_time(on=Bench)
async def test_shutdown_does_not_wait_for_a_server_that_does_not_answer(bench):
    task = bench.start(bench.candidate("one"), eternity)
    await asyncio.sleep(1)
    bench.travels["one"] = lambda: Travel(there=1e6)
    await stop(task)

    assert bench.now <= 1 + DEFAULT_TIMING.request_seconds


@in_virtual_time(on=Bench)
async def test_lease_is_kept_for_work_that_resists_being_cancelled(bench):
    """However often: whoever releases too early has two leaders."""
    ended = []

    async def resist() -> None:
        for _ in range(4):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue
        ended.append(bench.now)

    task = bench.start(bench.candidate("one"), resist)
    await asyncio.sleep(1)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(1)
        assert bench.spec["holderIdentity"] == "one"
    await stop(task)

    assert ended
    assert bench.spec["holderIdentity"] == ""


@in_virtual_time(on=Bench)
async def test_answer_that_is_no_document_is_a_fault_and_no_cancellation(bench):
    task = bench.start(bench.candidate("one"), eternity)
    await asyncio.sleep(1)
    bench.cluster.patch = lambda *_: b"<html>"
    await asyncio.wait((task,))

    assert isinstance(task.exception(), json.JSONDecodeError)


@in_virtual_time(on=Bench)
async def test_candidate_that_waits_can_be_cancelled_at_any_moment(bench):
    bench.write(holderIdentity="x", leaseDurationSeconds=15)
    for moment in (0, 0.005, 0.015, 0.5):
        task = bench.start(bench.candidate("one"), eternity)
        await asyncio.sleep(moment)
        await stop(task)

    assert bench.spec["holderIdentity"] == "x"


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("lease", "deadline", "retry", "complaint"),
    [
        (15, 10, 0, "retry period must be longer than 0"),
        (15, 2.4, 2, "renew deadline must be longer than 1.2 retry periods"),
        (11, 10, 2, "lease duration must be longer than 1.1 renew deadlines"),
        (15, 10, 2, None),
        (137, 107, 26, None),
    ],
)
def test_timing_that_cannot_work_is_refused(lease, deadline, retry, complaint):
    def timing() -> Timing:
        return Timing(lease_seconds=lease, deadline_seconds=deadline, retry_seconds=retry)

    if complaint is None:
        assert timing().stop_seconds > 0
    else:
        with pytest.raises(ValueError, match=complaint):
            timing()


def test_candidacy_needs_an_identity():
    with pytest.raises(ValueError, match="needs an identity"):
        Candidacy(lease=LEASE, identity="")


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"metadata": null, "spec": {"holderIdentity": 3}}']
)
def test_lease_with_nothing_in_it_is_held_by_nobody(body):
    lease = decode_lease(body)

    assert lease.record.holder == ""
    assert lease.record.transitions == 0
