"""Lists of a real API server: pages, selectors, and compacted resourceVersions."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator

import pytest

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.ports import ExpiredError, InvalidError, Key, Query
from support.cluster.access import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    a_client,
    access_of,
    compact,
)

COUNT = 1200


@pytest.fixture
async def client(control_plane) -> AsyncIterator[KubeClient]:
    async with a_client(access_of(control_plane)) as client:
        yield client


@pytest.fixture
async def namespace(client) -> AsyncIterator[str]:
    name = f"lists-{uuid.uuid4().hex[:12]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, Key("", name))


async def fill(client: KubeClient, namespace: str, count: int) -> list[str]:
    names = [f"c{number:04}" for number in range(count)]
    await asyncio.gather(
        *(
            client.create(
                CONFIG_MAPS,
                {
                    "metadata": {"name": name, "labels": {"last": name[-1]}},
                    "data": {"a": "x" * 400},
                },
                namespace=namespace,
            )
            for name in names
        )
    )
    return names


def names_of(items) -> list[str]:
    return [json.loads(item)["metadata"]["name"] for item in items]


async def test_all_pages_have_one_resource_version(control_plane, client, namespace):
    names = await fill(client, namespace, COUNT)
    query = Query(namespace=namespace, label_selector="last", field_selector="metadata.name!=x")
    first = await client.list(CONFIG_MAPS, query, limit=500)
    await client.delete(CONFIG_MAPS, Key(namespace, "c1199"))
    second = await client.list(CONFIG_MAPS, query, limit=500, page=first.next_page)
    third = await client.list(CONFIG_MAPS, query, limit=500, page=second.next_page)
    pages = (first, second, third)
    async with a_client(access_of(control_plane), limits=Limits(is_gzip_accepted=True)) as zipped:
        now = await zipped.list(CONFIG_MAPS, query)

    assert [len(page.items) for page in pages] == [500, 500, 200]
    assert [name for page in pages for name in names_of(page.items)] == names
    assert len({page.resource_version for page in pages}) == 1
    assert third.next_page == ""
    assert names_of(now.items) == names[:-1]
    assert int(now.resource_version) > int(first.resource_version)


async def test_a_list_shows_what_was_written_just_before(client, namespace):
    for number in range(20):
        await fill(client, namespace, 1)
        page = await client.list(CONFIG_MAPS, Query(namespace=namespace, label_selector="last=0"))
        await client.delete(CONFIG_MAPS, Key(namespace, "c0000"))

        assert names_of(page.items) == ["c0000"], number


async def test_lists_cross_namespaces_and_select(client, namespace):
    await fill(client, namespace, 12)
    some = await client.list(CONFIG_MAPS, Query(namespace=namespace, label_selector="last=1"))
    await client.create(CONFIG_MAPS, {"metadata": {"name": namespace}}, namespace=namespace)
    one = await client.list(CONFIG_MAPS, Query(field_selector=f"metadata.name={namespace}"))
    nodes = await client.list(NODES)

    assert names_of(some.items) == ["c0001", "c0011"]
    assert names_of(one.items) == [namespace]
    assert len(nodes.items) >= 3


async def test_an_invalid_selector_is_refused(client):
    with pytest.raises(InvalidError, match="unable to parse requirement"):
        await client.list(CONFIG_MAPS, Query(label_selector="a in"))


async def test_a_page_of_a_compacted_resource_version_has_expired(control_plane, client, namespace):
    """Events have no watch cache, so a compaction of etcd affects them at once."""
    for number in range(3):
        event = {
            "metadata": {"name": f"e{number}"},
            "involvedObject": {"namespace": namespace},
            "reason": "Test",
        }
        await client.create(EVENTS, event, namespace=namespace)
    query = Query(namespace=namespace, field_selector="reason=Test")
    first = await client.list(EVENTS, query, limit=1)
    await fill(client, namespace, 2)
    latest = await client.list(CONFIG_MAPS, Query(namespace=namespace))
    await asyncio.to_thread(compact, control_plane, latest.resource_version)
    with pytest.raises(ExpiredError) as caught:
        await client.list(EVENTS, query, limit=1, page=first.next_page)

    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert len((await client.list(EVENTS, query)).items) == 3
