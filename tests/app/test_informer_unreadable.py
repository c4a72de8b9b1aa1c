"""Bodies that cannot be decoded: counted, reported, and never the end of a stream."""

import pytest

from bursar.app.cluster.ports import ExpiredError, Key
from support.cluster.audited_informer import following
from support.cluster.scripted_cluster import ScriptedCluster
from support.virtual_time import in_virtual_time, run

ONE = Key("a", "one")


def told(story, *, refuses_initial=False):
    async def live():
        cluster = ScriptedCluster(refuses_initial=refuses_initial)
        cluster.write("a/one", 1)
        cluster.write("a/two", 2)
        async with following(cluster) as session:
            await session.pass_time()
            await story(session, cluster)
            await session.pass_time(60)
            session.check()
            return session

    return run(live())


def test_the_last_readable_state_is_kept_and_the_object_is_suspect(caplog):
    async def story(session, cluster):
        cluster.write("a/one", is_readable=False)
        cluster.write("a/two", 3)
        await session.pass_time()
        assert session.informer.find(ONE).value == 1
        assert session.informer.suspects == {ONE}

    session = told(story)

    assert session.auditor.story == ["+one", "+two", "synced", "~two"]
    assert session.informer.counters.decode_failures == 1
    [fields] = [record.fields for record in caplog.records]
    assert fields["object"] == ONE
    assert "?" not in str(fields["error"]), "bodies are not shown"


def test_a_readable_state_ends_the_suspicion():
    async def story(session, cluster):
        cluster.write("a/one", is_readable=False)
        await session.pass_time()
        cluster.write("a/one", 9)

    session = told(story)

    assert session.auditor.story[-1] == "~one"
    assert session.informer.suspects == frozenset()


def test_an_unreadable_object_that_is_deleted_is_deleted():
    async def story(session, cluster):
        cluster.write("a/one", is_readable=False)
        await session.pass_time()
        cluster.delete("a/one")

    assert told(story).auditor.story[-1] == "-one"


def test_an_unreadable_object_under_an_old_name_ends_the_old_one():
    async def story(_, cluster):
        cluster.compact()
        cluster.cut(ExpiredError("gone"))
        cluster.delete("a/one")
        cluster.write("a/one", is_readable=False)

    assert told(story).auditor.story[-2:] == ["-one?", "synced"]


def test_an_unreadable_object_is_not_there_until_it_can_be_read():
    async def story(session, cluster):
        cluster.write("a/new", is_readable=False)
        await session.pass_time()
        assert session.informer.find(Key("a", "new")) is None
        cluster.write("a/new", 4)

    assert told(story).auditor.story[-1] == "+new"


@pytest.mark.parametrize("refuses_initial", [False, True])
def test_a_list_keeps_the_last_readable_state_as_well(refuses_initial):
    async def story(session, cluster):
        cluster.write("a/one", is_readable=False)
        await session.pass_time()
        cluster.cut(ExpiredError("gone"))
        await session.pass_time()
        assert session.informer.find(ONE).value == 1

    session = told(story, refuses_initial=refuses_initial)

    assert session.auditor.story == ["+one", "+two", "synced", "synced"]


def test_noise_in_place_of_a_deletion_is_resolved_by_a_list(caplog):
    async def story(_, cluster):
        cluster.garbled.add(cluster.revision + 1)
        cluster.delete("a/one")

    session = told(story)

    assert session.auditor.story[-2:] == ["-one?", "synced"]
    assert caplog.records[0].fields["object"] == "(without a name)"
    assert session.informer.counters.relists == 1


@in_virtual_time
async def test_noise_in_place_of_a_change_is_counted_and_the_stream_goes_on():
    cluster = ScriptedCluster()
    cluster.write("a/one", 1)
    async with following(cluster) as session:
        await session.pass_time()
        cluster.garbled.add(cluster.revision + 1)
        cluster.write("a/one", 2)
        cluster.write("a/two", 3)
        await session.pass_time()
        assert session.informer.counters.decode_failures == 1
        assert session.informer.counters.relists == 0
        cluster.write("a/one", 4)
        await session.pass_time()
        session.check()
        assert session.auditor.story == ["+one", "synced", "+two", "~one"]


@pytest.mark.parametrize("refuses_initial", [False, True])
def test_noise_in_a_list_deletes_nothing_and_is_listed_again_when_the_watch_ends(refuses_initial):
    """A pod wrongly believed gone would free room that is not there."""

    async def story(session, cluster):
        cluster.garbled.add(cluster.objects[ONE].revision)
        cluster.cut(ExpiredError("gone"))
        cluster.delete("a/two")
        await session.pass_time()
        assert session.informer.find(ONE).value == 1
        assert session.informer.suspects >= {ONE}
        cluster.garbled.clear()
        await session.pass_time(500)

    session = told(story, refuses_initial=refuses_initial)

    assert session.auditor.story[:3] == ["+one", "+two", "synced"]
    assert [line for line in session.auditor.story[3:] if line != "synced"] == ["-two?"]
