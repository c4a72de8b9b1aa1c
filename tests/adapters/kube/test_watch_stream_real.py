"""Watches on a real API server that ends them, is paused or is killed."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator

import pytest

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import CONFIG_MAPS, NODES
from bursar.app.cluster.ports import (
    ClusterError,
    EventKind,
    ExpiredError,
    Key,
    Query,
    UnavailableError,
    WatchEvent,
)
from support.cluster.access import a_client, access_of
from support.until import PATIENCE_SECONDS, until

HASTY = Limits(request_seconds=2, list_seconds=2, connect_seconds=2)


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
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [told(await anext(watch)) for _ in range(count)]


async def test_the_server_ends_a_watch_in_time_and_with_a_bookmark(client, namespace):
    """Changes of other objects show only in the bookmark shortly before the end."""

    async def change_others() -> None:
        for number in itertools.count():
            body = {"metadata": {"name": f"other-{number}"}}
            await client.create(CONFIG_MAPS, body, namespace=namespace)
            await asyncio.sleep(0.1)

    moment = (await client.list(CONFIG_MAPS, ours(namespace))).resource_version
    watch = client.watch(CONFIG_MAPS, ours(namespace), resource_version=moment, timeout_seconds=4)
    changing = asyncio.ensure_future(change_others())
    async with asyncio.timeout(PATIENCE_SECONDS):
        events = [event async for event in watch]
    changing.cancel()

    assert {event.kind for event in events} == {EventKind.BOOKMARK}
    assert int(events[-1].resource_version) > int(moment)


# ------------------------------------------------------------------ a server in trouble


async def is_answering(client: KubeClient, namespace: str) -> bool:
    try:
        await client.list(CONFIG_MAPS, ours(namespace))
    except ClusterError:
        return False
    return True


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

    assert [isinstance(fault, UnavailableError) for fault in faults] == [True] * 4
    assert "closed inside the answer" in str(faults[0])
    await until(lambda: is_answering(client, namespace), "the server answers")
    fresh = client.watch(CONFIG_MAPS, ours(namespace), send_initial=True)
    async with contextlib.aclosing(fresh):
        assert await take(fresh, 1) == [("ADDED", "before")]
    # The watch cache of a new server starts empty.
    with pytest.raises(ExpiredError) as caught:
        await take(client.watch(CONFIG_MAPS, resource_version=moment), 1)
    assert caught.value.code == 410


async def test_requests_and_watches_time_out_on_a_paused_server(control_plane, namespace):
    async with a_client(access_of(control_plane), limits=HASTY) as client:
        watch = client.watch(CONFIG_MAPS, ours(namespace), send_initial=True, idle_seconds=2)
        async with contextlib.aclosing(watch):
            await anext(watch)
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
        await until(lambda: is_answering(client, namespace), "the server answers")

    assert [isinstance(fault, UnavailableError) for fault in faults] == [True] * 4
    assert "silent for 2 s" in str(faults[0])
    assert all("within 2 s" in str(fault) for fault in faults[1:])
