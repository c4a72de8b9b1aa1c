"""Bodies that cannot be decoded: counted, reported, and never the end of a stream."""

from contextlib import asynccontextmanager

import pytest

from bursar.app.cluster.ports import ExpiredError, Key
from support.cluster.audited_informer import following
from support.cluster.scripted_cluster import ScriptedCluster
from support.virtual_time import in_virtual_time

ONE = Key("a", "one")


def informer(**options):
    """What a test runs on: an informer of two objects."""

    @asynccontextmanager
    async def followed():
        cluster = ScriptedCluster(**options)
        cluster.write("a/one", 1)
        cluster.write("a/two", 2)
        async with following(cluster) as session:
            await session.pass_time()
            yield session

    return followed


async def checked(session):
    """Check the cache once all is calm, and give what consumers were told."""
    await session.pass_time(60)
    session.check()
    return session.auditor.story


@in_virtual_time(on=informer())
async def test_the_last_readable_state_is_kept_and_the_object_is_suspect(session, caplog):
    session.cluster.write("a/one", is_readable=False)
    session.cluster.write("a/two", 3)
    await session.pass_time()
    assert session.informer.find(ONE).value == 1
    assert session.informer.suspects == {ONE}

    assert await checked(session) == ["+one", "+two", "synced", "~two"]
    assert session.informer.counters.decode_failures == 1
    [fields] = [record.fields for record in caplog.records]
    assert fields["object"] == ONE
    assert "?" not in str(fields["error"]), "bodies are not shown"


@in_virtual_time(on=informer())
async def test_a_readable_state_ends_the_suspicion(session):
    session.cluster.write("a/one", is_readable=False)
    await session.pass_time()
    session.cluster.write("a/one", 9)

    assert (await checked(session))[-1] == "~one"
    assert session.informer.suspects == frozenset()


@in_virtual_time(on=informer())
async def test_an_unreadable_object_that_is_deleted_is_deleted(session):
    session.cluster.write("a/one", is_readable=False)
    await session.pass_time()
    session.cluster.delete("a/one")

    assert (await checked(session))[-1] == "-one"


@in_virtual_time(on=informer())
async def test_an_unreadable_object_under_an_old_name_ends_the_old_one(session):
    session.cluster.compact()
    session.cluster.cut(ExpiredError("gone"))
    session.cluster.delete("a/one")
    session.cluster.write("a/one", is_readable=False)

    assert (await checked(session))[-2:] == ["-one?", "synced"]


@in_virtual_time(on=informer())
async def test_an_unreadable_object_is_not_there_until_it_can_be_read(session):
    session.cluster.write("a/new", is_readable=False)
    await session.pass_time()
    assert session.informer.find(Key("a", "new")) is None
    session.cluster.write("a/new", 4)

    assert (await checked(session))[-1] == "+new"


async def a_list_keeps_the_last_readable_state(session):
    session.cluster.write("a/one", is_readable=False)
    await session.pass_time()
    session.cluster.cut(ExpiredError("gone"))
    await session.pass_time()
    assert session.informer.find(ONE).value == 1

    assert await checked(session) == ["+one", "+two", "synced", "relisted", "synced"]


@in_virtual_time(on=informer())
async def test_noise_in_place_of_a_deletion_is_resolved_by_a_list(session, caplog):
    session.cluster.garbled.add(session.cluster.revision + 1)
    session.cluster.delete("a/one")

    assert (await checked(session))[-2:] == ["-one?", "synced"]
    assert caplog.records[0].fields["object"] == "(without a name)"
    assert session.informer.counters.relists == 1


@in_virtual_time(on=informer())
async def test_noise_in_place_of_a_change_is_counted_and_the_stream_goes_on(session):
    session.cluster.garbled.add(session.cluster.revision + 1)
    session.cluster.write("a/one", 2)
    session.cluster.write("a/three", 3)
    await session.pass_time()
    assert session.informer.counters.decode_failures == 1
    assert session.informer.counters.relists == 0
    session.cluster.write("a/one", 4)

    assert await checked(session) == ["+one", "+two", "synced", "+three", "~one"]


async def noise_in_a_list_deletes_nothing(session):
    """A pod wrongly believed gone would free room that is not there."""
    session.cluster.garbled.add(session.cluster.objects[ONE].revision)
    session.cluster.cut(ExpiredError("gone"))
    session.cluster.delete("a/two")
    await session.pass_time()
    assert session.informer.find(ONE).value == 1
    assert session.informer.suspects >= {ONE}
    session.cluster.garbled.clear()
    await session.pass_time(500)

    told = await checked(session)
    assert told[:3] == ["+one", "+two", "synced"]
    assert [line for line in told[3:] if line not in ("relisted", "synced")] == ["-two?"]


@pytest.mark.parametrize("refuses_initial", [False, True], ids=["streamed", "in pages"])
@pytest.mark.parametrize(
    "story", [a_list_keeps_the_last_readable_state, noise_in_a_list_deletes_nothing]
)
@in_virtual_time
async def test_what_a_list_cannot_show_is_kept(story, refuses_initial):
    """Noise in a list is listed again when the watch ends."""
    async with informer(refuses_initial=refuses_initial)() as session:
        await story(session)
