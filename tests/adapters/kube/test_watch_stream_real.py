"""Watches on a real API server that is restarted, paused or killed."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator

import pytest

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.ports import (
    ClusterError,
    EventKind,
    ExpiredError,
    ForbiddenError,
    Key,
    Patch,
    PatchKind,
    Query,
    UnavailableError,
    WatchEvent,
)
from support.cluster.access import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    a_client,
    access_of,
    compact,
)

HASTY = Limits(request_seconds=0.5, list_seconds=0.5, connect_seconds=0.5)


@pytest.fixture
async def client(control_plane) -> AsyncIterator[KubeClient]:
    async with a_client(access_of(control_plane)) as client:
        yield client


@pytest.fixture
async def namespace(client) -> AsyncIterator[str]:
    name = f"watch-{uuid.uuid4().hex[:12]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, Key("", name))


async def create(client: KubeClient, namespace: str, name: str) -> None:
    await client.create(
        CONFIG_MAPS, {"metadata": {"name": name, "labels": {"by": "test"}}}, namespace=namespace
    )


def ours(namespace: str) -> Query:
    """Ignore the ConfigMap that the controller manager creates in every namespace."""
    return Query(namespace=namespace, label_selector="by=test")


def told(event: WatchEvent) -> tuple[str, str]:
    return event.kind.name, json.loads(event.body)["metadata"].get("name", "")


async def take(watch: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    async with asyncio.timeout(10):
        return [told(await anext(watch)) for _ in range(count)]


async def test_a_watch_shows_changes_after_a_list(client, namespace):
    await create(client, namespace, "before")
    moment = (await client.list(CONFIG_MAPS, ours(namespace))).resource_version
    await create(client, namespace, "a")
    key = Key(namespace, "a")
    await client.patch(CONFIG_MAPS, key, Patch(kind=PatchKind.MERGE, body={"data": {"x": "y"}}))
    await client.delete(CONFIG_MAPS, key)
    watch = client.watch(CONFIG_MAPS, ours(namespace), resource_version=moment)
    async with contextlib.aclosing(watch):
        past = await take(watch, 3)
        await create(client, namespace, "b")
        live = await take(watch, 1)

    assert past == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert live == [("ADDED", "b")]


async def test_a_watch_can_be_resumed_from_its_last_event(client, namespace):
    moment = (await client.list(CONFIG_MAPS, ours(namespace))).resource_version
    for name in ("a", "b", "c"):
        await create(client, namespace, name)
    first = client.watch(CONFIG_MAPS, ours(namespace), resource_version=moment)
    async with contextlib.aclosing(first):
        last = await anext(first)
    rest = client.watch(CONFIG_MAPS, ours(namespace), resource_version=last.resource_version)
    async with contextlib.aclosing(rest):
        seen = await take(rest, 2)

    assert told(last) == ("ADDED", "a")
    assert seen == [("ADDED", "b"), ("ADDED", "c")]


async def test_initial_objects_come_first_and_a_bookmark_ends_them(client, namespace):
    for name in ("a", "b"):
        await create(client, namespace, name)
    watch = client.watch(CONFIG_MAPS, ours(namespace), send_initial=True)
    async with contextlib.aclosing(watch), asyncio.timeout(10):
        initial = [await anext(watch) for _ in range(3)]
        await create(client, namespace, "c")
        later = await take(watch, 1)

    assert [told(event) for event in initial[:2]] == [("ADDED", "a"), ("ADDED", "b")]
    assert [event.ends_initial for event in initial] == [False, False, True]
    assert initial[2].kind is EventKind.BOOKMARK
    assert later == [("ADDED", "c")]


async def test_the_server_ends_a_watch_in_time_and_with_a_bookmark(client, namespace):
    """Changes of other objects show only in the bookmark shortly before the end."""

    async def change_another() -> None:
        await asyncio.sleep(0.5)
        await client.create(CONFIG_MAPS, {"metadata": {"name": "other"}}, namespace=namespace)

    moment = (await client.list(CONFIG_MAPS, ours(namespace))).resource_version
    watch = client.watch(CONFIG_MAPS, ours(namespace), resource_version=moment, timeout_seconds=4)
    change = asyncio.ensure_future(change_another())
    async with asyncio.timeout(10):
        events = [event async for event in watch]
    await change

    assert {event.kind for event in events} == {EventKind.BOOKMARK}
    assert int(events[-1].resource_version) > int(moment)


async def test_a_compacted_resource_version_has_expired(control_plane, client, namespace):
    """Events have no watch cache: their watches are served by etcd."""
    moment = (await client.list(EVENTS, Query(namespace=namespace))).resource_version
    for name in ("a", "b"):
        await create(client, namespace, name)
    latest = (await client.list(CONFIG_MAPS, ours(namespace))).resource_version
    await asyncio.to_thread(compact, control_plane, latest)
    with pytest.raises(ExpiredError) as caught:
        await take(client.watch(EVENTS, resource_version=moment), 1)

    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_a_user_without_rights_may_not_watch(control_plane):
    stranger = access_of(control_plane, control_plane.client("nobody-special"))
    async with a_client(stranger) as client:
        with pytest.raises(ForbiddenError, match='cannot watch resource "pods"'):
            await take(client.watch(PODS), 1)


# ------------------------------------------------------------------ a server in trouble


async def again(client: KubeClient, namespace: str) -> None:
    """Call until the server answers."""
    for _ in range(100):
        try:
            await client.list(CONFIG_MAPS, ours(namespace))
        except ClusterError:
            await asyncio.sleep(0.1)
        else:
            return
    await client.list(CONFIG_MAPS, ours(namespace))


async def test_a_killed_server_means_unavailable_and_a_new_one_is_found(
    control_plane, client, namespace
):
    moment = (await client.list(CONFIG_MAPS)).resource_version
    await create(client, namespace, "before")
    watch = client.watch(CONFIG_MAPS, ours(namespace), send_initial=True)
    async with contextlib.aclosing(watch):
        assert await take(watch, 2) == [("ADDED", "before"), ("BOOKMARK", "")]
        waiting = asyncio.ensure_future(anext(watch))
        try:
            control_plane.apiserver.pause()
            requests = [
                asyncio.ensure_future(client.list(CONFIG_MAPS, ours(namespace))) for _ in range(3)
            ]
            await asyncio.sleep(0.2)
            control_plane.apiserver.kill()
            faults = await asyncio.gather(waiting, *requests, return_exceptions=True)
            with pytest.raises(UnavailableError, match="no connection: connection refused"):
                await client.list(CONFIG_MAPS, ours(namespace))
        finally:
            # Not in another thread: the program is killed when the thread that started it ends.
            control_plane.apiserver.restart()

    assert [type(fault) for fault in faults] == [UnavailableError] * 4
    assert "closed inside the answer" in str(faults[0])
    await again(client, namespace)
    fresh = client.watch(CONFIG_MAPS, ours(namespace), send_initial=True)
    async with contextlib.aclosing(fresh):
        assert await take(fresh, 1) == [("ADDED", "before")]
    # The watch cache of a new server starts empty.
    with pytest.raises(ExpiredError) as caught:
        await take(client.watch(CONFIG_MAPS, resource_version=moment), 1)
    assert caught.value.code == 410


async def test_requests_and_watches_time_out_on_a_paused_server(control_plane, namespace):
    async with a_client(access_of(control_plane), limits=HASTY) as client:
        watch = client.watch(CONFIG_MAPS, ours(namespace), send_initial=True, idle_seconds=0.5)
        async with contextlib.aclosing(watch):
            await anext(watch)
            started = time.monotonic()
            control_plane.apiserver.pause()
            try:
                faults = await asyncio.gather(
                    anext(watch),
                    client.list(NODES),
                    client.get(NODES, Key("", "node-0")),
                    anext(client.watch(NODES)),
                    return_exceptions=True,
                )
            finally:
                control_plane.apiserver.resume()
            passed = time.monotonic() - started
        await again(client, namespace)

    assert [type(fault) for fault in faults] == [UnavailableError] * 4
    assert "silent for 0.5 s" in str(faults[0])
    assert passed < 5
