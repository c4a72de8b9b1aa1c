"""Lists of objects of a megabyte: no page is larger than a client takes, and nothing is missed."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES
from bursar.app.cluster.observe import observe
from bursar.app.cluster.ports import (
    EVERYTHING,
    InvalidError,
    Page,
    Query,
    Resource,
    TooLargeError,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.cluster.reading.pages import PAGE_BYTES
from bursar.app.cluster.time_limit import end
from support.virtual_time import MachineClock, in_virtual_time

GIANT = 1 << 20
ACCEPTED = 32 << 20


class Narrow:
    """A cluster without streaming lists, whose client takes pages of at most so many bytes.

    Objects whose name begins with `giant` are a megabyte each.
    """

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster, self.accepted = cluster, ACCEPTED
        self.asked: list[int] = []
        self.sizes: list[int] = []

    async def get(self, resource, key):
        return await self.cluster.get(resource, key)

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        self.asked.append(limit)
        answer = await self.cluster.list(resource, query, limit=limit, page=page)
        items = [body.ljust(GIANT) if b'"giant' in body else body for body in answer.items]
        self.sizes.append(sum(map(len, items)))
        if self.sizes[-1] > self.accepted:
            raise TooLargeError("the answer is too large")
        return Page(
            items=items, resource_version=answer.resource_version, next_page=answer.next_page
        )

    async def watch(self, resource, query=EVERYTHING, *, resource_version="", send_initial=False):
        if send_initial:
            raise InvalidError("no streaming lists")
        async for event in self.cluster.watch(resource, query, resource_version=resource_version):
            yield event


def objects(*names: str):
    """Run a test on a cluster with these ConfigMaps."""

    @asynccontextmanager
    async def narrow():
        cluster = MemoryCluster(MachineClock(), source=Random(1))  # noqa: S311 - repeatable
        await cluster.create(NAMESPACES, {"metadata": {"name": "a"}})
        for name in names:
            await cluster.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace="a")
        yield Narrow(cluster)

    return narrow


SMALL = tuple(f"small-{number:04}" for number in range(1100))
GIANTS = tuple(f"giant-{number:04}" for number in range(100))
BETWEEN = tuple(f"later-{number:04}" for number in range(700))


async def listed(narrow: Narrow) -> int:
    return sum(await list_all(narrow, CONFIG_MAPS, EVERYTHING, lambda body: b'"a"' in body))


@in_virtual_time(on=objects(*SMALL))
async def test_small_objects_are_listed_in_full_pages(narrow):
    assert await listed(narrow) == len(SMALL)
    assert narrow.asked == [500, 500, 500]


@in_virtual_time(on=objects(*SMALL, *GIANTS, *BETWEEN))
async def test_giants_are_listed_in_pages_of_few_and_the_others_in_full_ones_again(narrow):
    assert await listed(narrow) == len(SMALL) + len(GIANTS) + len(BETWEEN)

    accepted = [size for size in narrow.sizes if size <= ACCEPTED]
    assert sorted(accepted)[-2] <= PAGE_BYTES
    assert narrow.asked[-1] == 500
    assert len(narrow.asked) < 25


@in_virtual_time(on=objects(*GIANTS))
async def test_an_informer_lists_giants_where_there_are_no_streaming_lists(narrow):
    informer = observe(narrow, MachineClock(), Random(1), CONFIG_MAPS, bytes)  # noqa: S311
    task = asyncio.create_task(informer.run())
    async with asyncio.timeout(60):
        await informer.wait_synced()

    assert len(informer) == len(GIANTS)
    assert informer.counters.failures == 0
    await end(task)


@in_virtual_time(on=objects(*GIANTS))
async def test_one_object_that_is_too_large_is_an_error(narrow):
    narrow.accepted = GIANT - 1

    with pytest.raises(TooLargeError):
        await listed(narrow)
    assert narrow.asked[-1] == 1


@in_virtual_time(on=objects())
async def test_an_empty_list_is_one_page(narrow):
    assert await listed(narrow) == 0
    assert narrow.asked == [500]
