"""The rules of the informer, each by name, on a scripted cluster in leaping time."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bursar.app.cluster.informer.cache import TooManyObjectsError
from bursar.app.cluster.informer.changes import Deleted, Upserted
from bursar.app.cluster.ports import (
    BusyError,
    ExpiredError,
    ForbiddenError,
    Key,
    UnavailableError,
)
from support.cluster.audited_informer import following
from support.cluster.scripted_cluster import CALM, ScriptedCluster, Weather
from support.virtual_time import in_virtual_time


def cluster_of(*names, **options):
    cluster = ScriptedCluster(**options)
    for name in names:
        cluster.write(name)
    return cluster


def informer_of(*names, **options):
    """What a test runs on: an informer of these objects, whose cache is checked at the end."""
    rules = {name: options.pop(name) for name in ("page_limit", "relist_s") if name in options}

    @asynccontextmanager
    async def checked():
        async with following(cluster_of(*names, **options), **rules) as session:
            yield session
            session.check()

    return checked


@in_virtual_time(on=informer_of("a/one"))
async def test_objects_arrive_as_one_stream_and_then_changes(session):
    await session.informer.wait_synced()
    session.cluster.write("a/two")
    session.cluster.write("a/one", 7)
    session.cluster.delete("a/two")
    await session.pass_time()

    assert session.auditor.story == ["+one", "synced", "+two", "~one", "-two"]
    assert session.cluster.calls == ["initial"]


@in_virtual_time(on=informer_of("a/one", never_ends_initial=True))
async def test_nothing_is_synced_before_the_initial_objects_are_complete(session):
    await session.pass_time(50)
    assert not session.informer.is_synced
    assert len(session.informer) == 0
    session.cluster.never_ends_initial = False
    session.cluster.cut()
    await session.pass_time(50)

    assert session.auditor.story == ["+one", "synced"]


@in_virtual_time(on=informer_of("a/one", "a/two", "a/three", refuses_initial=True, page_limit=2))
async def test_pages_are_used_where_streaming_is_refused_and_the_refusal_is_remembered(
    session, caplog
):
    await session.pass_time()
    session.cluster.compact()
    session.cluster.write("a/four")
    session.cluster.compact()
    session.cluster.cut(ExpiredError("gone"))
    await session.pass_time()

    calls = [call.split()[0] for call in session.cluster.calls]
    assert calls == ["initial", "list", "page", "watch", "list", "page", "watch"]
    assert session.informer.counters.relists == 1
    # A server without the feature is no reason for an alert.
    assert session.informer.counters.failures == 0
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


@in_virtual_time(on=informer_of("a/one"))
async def test_repeated_unavailability_of_streaming_leads_to_pages_once_those_work(session):
    session.cluster.faults["watch"].extend(UnavailableError("no progress") for _ in range(3))
    await session.pass_time(300)
    assert session.informer.is_synced
    session.cluster.cut(ExpiredError("gone"))
    await session.pass_time(300)

    calls = [call.split()[0] for call in session.cluster.calls]
    assert calls == ["initial"] * 3 + ["list", "watch", "list", "watch"]


@in_virtual_time(on=informer_of("a/one"))
async def test_pages_that_fail_as_well_prove_nothing_against_streaming(session):
    session.cluster.faults["watch"].extend(UnavailableError("down") for _ in range(3))
    session.cluster.faults["list"].append(UnavailableError("down"))
    await session.pass_time(300)

    assert session.cluster.calls == ["initial"] * 3 + ["list", "initial"]


@in_virtual_time(on=informer_of("a/one", "a/two", "a/three", refuses_initial=True, page_limit=2))
async def test_a_page_that_expires_midway_restarts_the_list(session):
    session.cluster.faults["page"].append(ExpiredError("the list is too old"))
    await session.pass_time(60)

    assert session.cluster.calls[1:5] == ["list", "page", "list", "page"]
    assert session.auditor.story == ["+one", "+three", "+two", "synced"]


@in_virtual_time(on=informer_of("a/one"))
async def test_a_watch_that_ended_plainly_resumes_where_it_stopped(session):
    await session.pass_time()
    stored = session.cluster.write("a/one", 1)
    await session.pass_time()
    session.cluster.cut()
    session.cluster.write("a/one", 2)
    await session.pass_time()
    assert session.cluster.calls == ["initial", f"watch {stored.revision}"]

    assert session.informer.counters.watch_restarts == 1
    assert session.informer.counters.relists == 0


@in_virtual_time(on=informer_of("a/one"))
async def test_a_bookmark_moves_the_point_to_resume_from(session):
    await session.pass_time()
    session.cluster.revision += 1000  # other kinds of objects changed
    await session.pass_time(100)
    session.cluster.compact()
    session.cluster.cut()
    await session.pass_time()
    assert session.cluster.calls[-1] == f"watch {session.cluster.revision}"

    assert session.informer.counters.expired == 0


@in_virtual_time(on=informer_of("a/one", "a/two"))
async def test_deletions_during_an_outage_are_found_and_marked_as_inferred(session):
    await session.pass_time()
    session.cluster.cut(UnavailableError("down"))
    session.cluster.delete("a/one")
    session.cluster.write("b/three")
    session.cluster.compact()
    await session.pass_time(60)

    assert session.auditor.story == [
        "+one",
        "+two",
        "synced",
        "relisted",
        "-one?",
        "+three",
        "synced",
    ]
    assert session.informer.counters.expired == 1


@in_virtual_time(on=informer_of("a/one"))
async def test_an_expiry_inside_the_stream_lists_afresh_without_delay(session):
    await session.pass_time()
    session.cluster.cut(ExpiredError("too old resource version", code=410))
    await session.pass_time(0)
    await session.pass_time(0.001)
    assert session.cluster.calls == ["initial", "initial"]


@in_virtual_time(on=informer_of("a/one"))
async def test_a_moment_the_server_has_not_reached_is_given_up(session):
    await session.pass_time()
    session.cluster.cut(UnavailableError("Too large resource version: 9, current: 5"))
    await session.pass_time(60)

    assert session.cluster.calls == ["initial", "initial"]


@pytest.mark.parametrize("is_outage", [False, True])
@in_virtual_time(on=informer_of("a/one"))
async def test_an_object_recreated_under_its_name_is_a_deletion_and_an_addition(session, is_outage):
    await session.pass_time()
    if is_outage:
        session.cluster.cut(UnavailableError("down"))
    session.cluster.delete("a/one")
    session.cluster.write("a/one", 9)
    if is_outage:
        session.cluster.compact()
    await session.pass_time(60)

    changes = [c for c in session.auditor.changes if isinstance(c, (Upserted, Deleted))]
    assert [type(change) for change in changes] == [Upserted, Deleted, Upserted]
    assert [c.is_inferred for c in changes if isinstance(c, Deleted)] == [is_outage]
    assert changes[2].old is None


@in_virtual_time(on=informer_of("a/one", "b/two"))
async def test_a_relist_that_finds_nothing_new_tells_nothing_but_synced(session):
    await session.pass_time()
    session.cluster.cut(ExpiredError("gone"))
    await session.pass_time()

    assert session.auditor.story == ["+one", "+two", "synced", "relisted", "synced"]


@in_virtual_time(on=informer_of("a/one", "a/two", relist_s=900))
async def test_a_lost_event_is_healed_by_the_periodic_list(session):
    await session.pass_time()
    session.cluster.weather = Weather(lose=1.0)
    session.cluster.delete("a/one")
    await session.pass_time(500)
    assert len(session.informer) == 2
    session.cluster.weather = CALM
    await session.pass_time(1000)

    assert session.auditor.story == ["+one", "+two", "synced", "relisted", "-one?", "synced"]


@in_virtual_time(on=informer_of("a/one", "b/two"))
async def test_a_server_that_was_restored_from_a_backup_is_listed_at_once(session):
    """Its watch from a moment that it has not reached would say nothing, or something else."""
    await session.pass_time()
    backup = session.cluster.backup()
    session.cluster.delete("a/one")
    session.cluster.write("b/two", 5)
    session.cluster.write("b/three")
    await session.pass_time()

    session.cluster.cut(UnavailableError("the connection broke"))
    session.cluster.restore(backup)
    session.auditor.allow_resurrection()
    await session.pass_time(30)

    assert set(session.informer.snapshot()) == set(session.cluster.objects)
    assert session.informer.snapshot()[Key("b", "two")].value == 0


@in_virtual_time(on=informer_of("a/one", deadline_s=300))
async def test_watches_that_never_say_anything_are_doubted(session):
    """As after the server was restored from an older copy: it has yet to reach our moment."""
    await session.pass_time()
    session.cluster.is_mute = True
    await session.pass_time(2000)

    kinds = [call.split()[0] for call in session.cluster.calls]
    assert kinds[:5] == ["initial", "watch", "watch", "watch", "initial"]


@in_virtual_time(on=informer_of("a/one"))
async def test_an_error_is_retried_after_a_pause_and_what_the_server_asks_is_respected(session):
    await session.pass_time()
    session.cluster.cut(BusyError("later", retry_after=20.0))
    await session.pass_time(19)
    assert len(session.cluster.calls) == 1
    assert isinstance(session.informer.last_error, BusyError)
    await session.pass_time(2)
    assert len(session.cluster.calls) == 2


@in_virtual_time(on=informer_of("a/one"))
async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(session):
    await session.pass_time()
    session.cluster.deadline_s = 0
    session.cluster.cut()
    await session.pass_time(600)
    assert len(session.cluster.calls) < 120


@in_virtual_time(on=informer_of("a/one"))
async def test_no_right_to_list_yet_is_not_the_end(session):
    session.cluster.faults["watch"].extend(ForbiddenError("no", code=403) for _ in range(5))
    await session.pass_time(600)

    assert session.auditor.story == ["+one", "synced"]


async def overfill(*, is_late):
    """Three objects where two are allowed, at once or later."""
    cluster = cluster_of("a/one", "a/two", *(() if is_late else ("a/three",)))
    async with following(cluster, objects_max=2) as session:
        if is_late:
            await session.informer.wait_synced()
            cluster.write("a/three")
        await session.pass_time()
        assert session.informer.counters.over_limit == 1
        await session.informer.wait_synced()


@pytest.mark.parametrize("is_late", [False, True])
@in_virtual_time
async def test_too_many_objects_stop_the_informer_with_a_typed_error(is_late):
    with pytest.raises(TooManyObjectsError, match=r"things.example.com: more than 2 objects"):
        await overfill(is_late=is_late)


@in_virtual_time(on=informer_of("a/one"))
async def test_staleness_is_the_age_of_the_last_event_or_bookmark(session):
    assert session.informer.staleness_seconds == float("inf")
    await session.pass_time(30)
    assert session.informer.staleness_seconds == 30
    session.cluster.write("a/one", 1)
    await session.pass_time(10)
    assert session.informer.staleness_seconds == 10
    await session.pass_time(61)  # a bookmark came in between
    assert session.informer.staleness_seconds == pytest.approx(11)


@in_virtual_time
async def test_waiting_for_an_informer_that_was_stopped_is_an_error():
    cluster = cluster_of("a/one", never_ends_initial=True)
    async with following(cluster) as session:
        waiting = asyncio.create_task(session.informer.wait_synced())
        await session.pass_time()
    with pytest.raises(UnavailableError, match="stopped before it was synced"):
        await waiting
    assert [change async for change in session.informer.changes()] == []


@in_virtual_time(on=informer_of("a/one", "b/two"))
async def test_finding_and_snapshots_answer_from_the_cache(session):
    await session.pass_time()
    before = session.informer.snapshot()
    session.cluster.write("a/one", 5)
    session.cluster.delete("b/two")
    await session.pass_time()

    assert [thing.value for thing in before.objects()] == [0, 0]
    assert before[Key("b", "two")].value == 0
    assert session.informer.find(Key("a", "one")).value == 5
    assert session.informer.find(Key("b", "two")) is None
