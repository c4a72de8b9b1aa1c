"""Watches: what is told, in which order, and what happens when they are cut."""

import asyncio
import contextlib
import json

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, LEASES, PODS
from bursar.app.cluster.ports import (
    EventKind,
    InvalidError,
    Key,
    Patch,
    PatchKind,
    Query,
    UnavailableError,
)
from support.until import PATIENCE_SECONDS, until

ADDED, MODIFIED, DELETED = EventKind.ADDED, EventKind.MODIFIED, EventKind.DELETED


class Place:
    """Leases in a namespace of the test's own: nobody else makes any there."""

    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace

    def key(self, name):
        return Key(self.namespace, name)

    async def create(self, name, **metadata):
        body = {"metadata": {"name": name, **metadata}}
        return await self.cluster.port.create(LEASES, body, namespace=self.namespace)

    async def label(self, name, **labels):
        patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": labels}})
        return await self.cluster.port.patch(LEASES, self.key(name), patch)

    async def delete(self, name):
        await self.cluster.port.delete(LEASES, self.key(name))

    async def revision(self):
        page = await self.cluster.port.list(LEASES, Query(namespace=self.namespace))
        return page.resource_version

    async def events(self, count, *, resource_version="", send_initial=False, **selectors):
        query = Query(namespace=self.namespace, **selectors)
        return await self.cluster.events(
            LEASES,
            query,
            count=count,
            resource_version=resource_version,
            send_initial=send_initial,
        )


@pytest.fixture
async def place(cluster) -> Place:
    return Place(cluster, await cluster.namespace())


def told(events):
    return [(event.kind, json.loads(event.body)["metadata"].get("name")) for event in events]


async def test_changes_come_in_order_with_their_revisions(place):
    start = await place.revision()
    bodies = [await place.create("a"), await place.label("a", x="1"), await place.create("b")]
    await place.delete("a")
    events = await place.events(4, resource_version=start)

    assert told(events) == [(ADDED, "a"), (MODIFIED, "a"), (ADDED, "b"), (DELETED, "a")]
    assert [json.loads(event.body) for event in events[:3]] == [json.loads(each) for each in bodies]
    revisions = [int(event.resource_version) for event in events]
    assert revisions == sorted(set(revisions))
    for event in events:
        assert json.loads(event.body)["metadata"]["resourceVersion"] == event.resource_version
    assert json.loads(events[3].body)["metadata"]["labels"] == {"x": "1"}


async def test_a_watch_can_begin_in_the_middle(place):
    await place.create("a")
    await place.create("b")
    start = await place.revision()
    await place.create("c")

    assert told(await place.events(1, resource_version=start)) == [(ADDED, "c")]


async def test_without_a_moment_a_watch_begins_with_what_is_there(place):
    await place.create("b")
    await place.create("a")

    assert told(await place.events(2)) == [(ADDED, "a"), (ADDED, "b")]
    assert told(await place.events(2, resource_version="0")) == [(ADDED, "a"), (ADDED, "b")]


async def test_the_start_can_be_told_from_the_rest(place):
    await place.create("a", labels={"app": "web"})
    await place.create("b", labels={"app": "db"})
    first, end = await place.events(2, send_initial=True, label_selector="app=web")

    assert told([first]) == [(ADDED, "a")]
    assert end.kind is EventKind.BOOKMARK
    assert end.ends_initial
    assert not first.ends_initial
    assert int(end.resource_version) >= int(first.resource_version)
    await place.create("c", labels={"app": "web"})
    later = await place.events(1, resource_version=end.resource_version, label_selector="app=web")
    assert told(later) == [(ADDED, "c")]


async def test_an_empty_start_ends_as_well(place):
    (end,) = await place.events(1, send_initial=True)

    assert end.ends_initial


async def test_what_leaves_the_selection_is_told_as_deleted(place):
    start = await place.revision()
    await place.create("a", labels={"app": "web"})
    await place.create("b", labels={"app": "db"})
    await place.label("a", app="db")
    await place.label("b", app="web")
    await place.label("a", other="x")
    await place.delete("b")
    await place.delete("a")
    await place.create("c", labels={"app": "web"})
    events = await place.events(5, resource_version=start, label_selector="app=web")

    expected = [(ADDED, "a"), (DELETED, "a"), (ADDED, "b"), (DELETED, "b"), (ADDED, "c")]
    assert told(events) == expected
    # Of what left, the server shows the last state that was selected, at the revision of leaving.
    assert json.loads(events[1].body)["metadata"]["labels"] == {"app": "web"}
    assert int(events[1].resource_version) > int(events[0].resource_version)


async def test_a_finalizer_makes_a_deletion_two_events(place):
    start = await place.revision()
    await place.create("a", finalizers=["x.io/f"])
    await place.delete("a")
    patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": None}})
    await place.cluster.port.patch(LEASES, place.key("a"), patch)
    events = await place.events(3, resource_version=start)

    assert told(events) == [(ADDED, "a"), (MODIFIED, "a"), (DELETED, "a")]
    last = json.loads(events[2].body)["metadata"]
    assert last["finalizers"] == ["x.io/f"]
    assert last["deletionTimestamp"]


async def test_a_patch_that_changes_nothing_is_not_told(place):
    await place.create("a", labels={"x": "1"})
    start = await place.revision()
    await place.label("a", x="1")
    await place.create("b")

    assert told(await place.events(1, resource_version=start)) == [(ADDED, "b")]


async def test_pods_can_be_watched_by_field(cluster):
    namespace = await cluster.namespace(for_pods=True)
    query = Query(namespace=namespace, field_selector="status.phase=Running,spec.nodeName=x")
    start = (await cluster.port.list(PODS, query)).resource_version
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "x"}
    await cluster.port.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace=namespace)
    for phase in ("Running", "Succeeded"):
        patch = Patch(kind=PatchKind.MERGE, body={"status": {"phase": phase}})
        await cluster.port.patch(PODS, Key(namespace, "p"), patch, subresource="status")
    events = await cluster.events(PODS, query, count=2, resource_version=start)

    assert told(events) == [(ADDED, "p"), (DELETED, "p")]


async def test_other_namespaces_are_not_told(cluster, place):
    start = await place.revision()
    elsewhere = await cluster.namespace()
    await cluster.port.create(LEASES, {"metadata": {"name": "z"}}, namespace=elsewhere)
    await place.create("a")

    assert told(await place.events(1, resource_version=start)) == [(ADDED, "a")]


async def test_a_waiting_watch_is_told_at_once(place):
    start = await place.revision()
    waiting = asyncio.ensure_future(place.events(2, resource_version=start))
    await asyncio.sleep(0.05)
    await place.create("a")
    await place.delete("a")

    assert told(await waiting) == [(ADDED, "a"), (DELETED, "a")]


async def test_a_cut_watch_ends_and_loses_nothing(cluster, place):
    start = await place.revision()
    seen, first = [], asyncio.Event()

    async def follow():
        stream = cluster.port.watch(
            LEASES, Query(namespace=place.namespace), resource_version=start
        )
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                seen.append(event)
                first.set()

    following = asyncio.ensure_future(follow())
    await place.create("a")
    await until(first.is_set, "the watch has told of something")
    await cluster.cut_watches()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with contextlib.suppress(UnavailableError):
            await following
    await place.create("b")

    assert told(seen) == [(ADDED, "a")]
    again = await place.events(1, resource_version=seen[-1].resource_version)
    assert told(again) == [(ADDED, "b")]


async def test_a_cancelled_watch_leaves_no_task_behind(cluster, place):
    before = len(asyncio.all_tasks())
    watching = asyncio.ensure_future(place.events(1, resource_version=await place.revision()))
    await asyncio.sleep(0.05)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    if cluster.is_real:
        await cluster.cut_watches()

    async def is_quiet():
        return len(asyncio.all_tasks()) <= before

    await until(is_quiet, asyncio.all_tasks)


@pytest.mark.parametrize(
    ("resource", "options", "message"),
    [
        (CONFIG_MAPS, {"label_selector": "a===b"}, "unable to parse requirement: found '=', "),
        (PODS, {"field_selector": "spec.foo=1"}, "field label not supported: spec.foo"),
    ],
)
async def test_a_bad_selector_is_refused(cluster, resource, options, message):
    with pytest.raises(InvalidError) as caught:
        await cluster.events(resource, Query(**options), count=1)
    assert caught.value.message.startswith(message)


async def test_a_moment_is_a_number(cluster):
    with pytest.raises(UnavailableError, match='parsing "abc": invalid syntax'):
        await cluster.events(CONFIG_MAPS, count=1, resource_version="abc")
