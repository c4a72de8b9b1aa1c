"""Being elected, leading and losing: one candidate at a time, in virtual time."""

import asyncio
import json

import pytest

from bursar.app.cluster.election.election import RETRY_AFTER_SECONDS_MAX, FencingToken
from bursar.app.cluster.election.timing import DEFAULT_TIMING
from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.ports import BusyError, ForbiddenError, Patch, PatchKind, UnavailableError
from support.cluster.election_candidates import LEASE, Bench, Work, eternity
from support.cluster.small_cluster import Travel
from support.virtual_time import in_virtual_time

DEADLINE = DEFAULT_TIMING.deadline_seconds


# ------------------------------------------------------------------ acquiring


@in_virtual_time(on=Bench)
async def test_first_candidate_makes_the_lease_and_leads(bench):
    election = bench.candidate("one")

    async def lead() -> str:
        assert election.is_leader
        assert election.token == FencingToken("uid-0", 0)
        return json.dumps(bench.spec)

    assert json.loads(await election.run(lead)) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-15T00:00:00.020000Z",
        "renewTime": "2026-11-15T00:00:00.020000Z",
        "leaseTransitions": 0,
    }
    assert not election.is_leader
    assert election.token is None


@pytest.mark.parametrize("renewed", ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
@in_virtual_time(on=Bench)
async def test_silent_holder_is_replaced_after_its_own_duration_whatever_times_it_wrote(
    bench, renewed
):
    bench.write(holderIdentity="x", leaseDurationSeconds=30, renewTime=renewed)
    await bench.leader()

    assert 30 < bench.now < 30 + 2.2 * DEFAULT_TIMING.retry_seconds + 1
    assert bench.spec["leaseTransitions"] == 1


@in_virtual_time(on=Bench)
async def test_holder_that_gives_signs_of_life_keeps_the_lease(bench):
    election, work = bench.candidate("one"), Work()
    bench.start(election, work)
    for number in range(20):
        bench.write(holderIdentity="x", leaseDurationSeconds=15, renewTime=str(number))
        await asyncio.sleep(14)

    assert not work.begun
    assert election.holder == "x"
    assert election.token is None


@in_virtual_time(on=Bench)
async def test_label_on_the_lease_is_no_sign_of_life(bench):
    bench.write(holderIdentity="x", leaseDurationSeconds=15)
    work = Work()
    bench.start(bench.candidate("one"), work)
    for number in range(10):
        labels = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {"n": str(number)}}})
        bench.cluster.patch(LEASES, LEASE, labels)
        await asyncio.sleep(2)

    assert work.begun


@in_virtual_time(on=Bench)
async def test_lease_without_a_duration_is_respected_for_our_own(bench):
    bench.write(holderIdentity="x")
    await bench.leader()

    assert bench.now > DEFAULT_TIMING.lease_seconds


@in_virtual_time(on=Bench)
async def test_two_processes_of_one_identity_do_not_both_lead(bench):
    first, second = Work(), Work()
    for work in (first, second):
        bench.start(bench.candidate("same"), work)
    await asyncio.sleep(120)

    assert len(first.begun + second.begun) == 1


@in_virtual_time(on=Bench)
async def test_candidate_whose_answer_was_lost_recognises_its_own_record(bench):
    travels = iter([Travel(), Travel(is_answer_lost=True)])
    bench.travels["one"] = lambda: next(travels, Travel())
    election, _ = await bench.leader()

    assert bench.now < DEFAULT_TIMING.lease_seconds / 2
    assert election.token == FencingToken("uid-0", 1)


@in_virtual_time(on=Bench)
async def test_answer_that_comes_after_the_deadline_begins_no_term(bench):
    """As after a pause: others may lead by now."""
    election = bench.candidate("one")
    election._clock.pause(0.025, 20)
    work = Work()
    bench.start(election, work)
    await asyncio.sleep(20.001)

    assert bench.spec["holderIdentity"] == "one"
    assert not work.begun
    await work.has_begun.wait()


@in_virtual_time(on=Bench)
async def test_refusal_is_told_and_tried_again(bench, caplog):
    bench.travels["one"] = lambda: Travel(refusal=ForbiddenError("no leases for you"))
    election, work = bench.candidate("one"), Work()
    bench.start(election, work)
    await asyncio.sleep(60)

    assert set(caplog.messages) == {"cannot read or write the Lease; trying again"}
    assert caplog.records[0].fields["error"].message == "no leases for you"
    del bench.travels["one"]
    await work.has_begun.wait()


@in_virtual_time(on=Bench)
async def test_busy_server_is_left_alone_for_as_long_as_it_asks(bench):
    travels = iter([Travel(refusal=BusyError("later", retry_after=30))])
    bench.travels["one"] = lambda: next(travels, Travel())
    await bench.leader()

    assert 30 < bench.now < 31


@in_virtual_time(on=Bench)
async def test_a_candidate_stands_again_however_long_a_proxy_asks_it_to_wait(bench):
    travels = iter([Travel(refusal=BusyError("later", retry_after=1e9))])
    bench.travels["one"] = lambda: next(travels, Travel())
    async with asyncio.timeout(RETRY_AFTER_SECONDS_MAX + 1):
        await bench.leader()


# ------------------------------------------------------------------ leading and losing


@in_virtual_time(on=Bench)
async def test_leader_renews_and_keeps_its_token(bench):
    election, _ = await bench.leader()
    bench.start(bench.candidate("two"), eternity)
    token, spec = election.token, bench.spec
    await asyncio.sleep(300)

    assert election.is_leader
    assert election.token == token
    assert bench.spec["acquireTime"] == spec["acquireTime"]
    assert bench.spec["renewTime"] > spec["renewTime"]


@in_virtual_time(on=Bench)
async def test_work_is_cancelled_before_anybody_else_may_begin(bench):
    (election, work), other = await bench.leader(), Work()
    bench.start(bench.candidate("two"), other)
    bench.travels["one"] = lambda: Travel(refusal=UnavailableError("cut off"))
    cut_off_at = bench.now
    await other.has_begun.wait()

    assert work.ended[0] <= cut_off_at + DEADLINE
    assert other.begun[0] >= work.ended[0] + DEFAULT_TIMING.stop_seconds
    assert election.token is None


@in_virtual_time(on=Bench)
async def test_term_counts_from_when_its_renewal_was_sent(bench):
    """The answer took long; others saw the renewal long before."""
    _, work = await bench.leader()
    sent_at = bench.now + DEFAULT_TIMING.retry_seconds
    travels = iter([Travel(back=4.9)])
    cut_off = Travel(refusal=UnavailableError("cut off"))
    bench.travels["one"] = lambda: next(travels, cut_off)
    await asyncio.sleep(30)

    assert work.ended == [pytest.approx(sent_at + DEADLINE, abs=0.01)]


@in_virtual_time(on=Bench)
async def test_leader_that_was_cut_off_stands_again(bench):
    election, work = await bench.leader()
    bench.travels["one"] = lambda: Travel(refusal=UnavailableError("cut off"))
    await asyncio.sleep(60)
    del bench.travels["one"]
    await work.has_begun.wait()

    assert len(work.begun) == 2
    assert election.token == FencingToken("uid-0", 1)


@in_virtual_time(on=Bench)
async def test_request_that_hangs_costs_one_try_and_not_the_term(bench):
    election, work = await bench.leader()
    travels = iter([Travel(there=1e6), Travel(), Travel(is_answer_lost=True)])
    bench.travels["one"] = lambda: next(travels, Travel())
    await asyncio.sleep(60)

    assert election.is_leader
    assert len(work.begun) == 1


@in_virtual_time(on=Bench)
async def test_somebody_elses_record_ends_the_term_at_once(bench):
    election, work = await bench.leader()
    bench.write(holderIdentity="two", renewTime="x", leaseTransitions=7)
    await asyncio.sleep(DEFAULT_TIMING.retry_seconds + 0.1)

    assert work.ended
    assert not election.is_leader
    await work.has_begun.wait()
    assert election.token == FencingToken("uid-0", 8)


@in_virtual_time(on=Bench)
async def test_deleted_lease_ends_the_term_and_is_not_taken_over_meanwhile(bench):
    (leader, work), other = await bench.leader(stop_seconds=3), Work()
    bench.start(bench.candidate("two"), other)
    await asyncio.sleep(5)
    bench.cluster.delete(LEASES, LEASE)
    await asyncio.sleep(30)

    assert len(work.begun) == 2
    assert not other.begun
    assert leader.token is not None
    assert leader.token.lease_uid != "uid-0"


@in_virtual_time(on=Bench)
async def test_is_leader_ends_at_the_deadline_even_if_nothing_else_could_run(bench):
    election, work = await bench.leader()
    start = bench.now
    election._clock.pause(start, start + 60)

    await asyncio.sleep(DEADLINE - 0.1)
    assert election.is_leader
    await asyncio.sleep(0.1)
    assert not election.is_leader
    assert not work.ended
    await asyncio.sleep(60)
    assert work.ended == [pytest.approx(start + 60)]
