"""Objects that a command reads once and then follows, on the embedded cluster."""

import asyncio
import json
from random import Random

import pytest

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS
from bursar.app.cluster.ports import (
    EVERYTHING,
    ForbiddenError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Resource,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
)
from bursar.app.cluster.reading.collection import COALESCE_SECONDS, PAUSE_SECONDS, Collection
from bursar.app.cluster.reading.wanted import Wanted
from support.builders.manifests import namespace_manifest, node_manifest, pod_manifest
from support.virtual_time import MachineClock, in_virtual_time

ABSENT = Resource("example.com", "v1", "things", "Thing")
LONG_S = 10 * (PAUSE_SECONDS + COALESCE_SECONDS)


class Scene:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        self.changes: list[list[str]] = []

    async def add_pod(self, where: str) -> None:
        namespace = where.partition("/")[0]
        await self.cluster.create(PODS, pod_manifest(where), namespace=namespace)

    async def load(self, *wanted: Wanted) -> Collection:
        collection = Collection(self.cluster, wanted)
        await collection.load()
        return collection

    def follow(self, collection: Collection) -> asyncio.Task[None]:
        def seen() -> None:
            self.changes.append(names(collection, PODS))

        return asyncio.create_task(collection.follow(seen))


async def a_scene_with_namespaces(scene: Scene) -> None:
    for name in ("shop", "lab"):
        await scene.cluster.create(NAMESPACES, namespace_manifest(name))


def names(collection: Collection, resource: Resource) -> list[str]:
    return [json.loads(body)["metadata"]["name"] for body in collection.bodies[resource]]


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Refusing:
    """The embedded cluster, which refuses to list one kind."""

    def __init__(self, cluster: MemoryCluster, resource: Resource, error: Exception) -> None:
        self._cluster, self._resource, self._error = cluster, resource, error
        self.get, self.watch = cluster.get, cluster.watch

    async def list(self, resource, query=EVERYTHING, *, limit=0, page=""):
        if resource == self._resource:
            raise self._error
        return await self._cluster.list(resource, query, limit=limit, page=page)


@in_virtual_time(on=Scene)
async def test_objects_are_listed_in_order_and_progress_is_told(scene):
    await a_scene_with_namespaces(scene)
    for where in ("shop/b", "shop/a", "lab/z"):
        await scene.add_pod(where)
    told = []
    collection = Collection(
        scene.cluster, [Wanted(resource=PODS)], progress=lambda *each: told.append(each)
    )
    await collection.load()

    assert names(collection, PODS) == ["z", "a", "b"]
    assert told == [("pods", 3)]
    assert collection.missing == []


@in_virtual_time(on=Scene)
async def test_one_namespace_may_be_asked_for(scene):
    await a_scene_with_namespaces(scene)
    await scene.add_pod("shop/a")
    await scene.add_pod("lab/b")

    assert names(await scene.load(Wanted(resource=PODS, namespace="lab")), PODS) == ["b"]


@in_virtual_time(on=Scene)
async def test_a_kind_that_is_required_must_be_readable(scene):
    with pytest.raises(NotFoundError):
        await scene.load(Wanted(resource=ABSENT))


@in_virtual_time(on=Scene)
async def test_a_kind_that_is_not_required_is_told_as_missing(scene):
    collection = await scene.load(Wanted(resource=ABSENT, is_required=False))

    [line] = collection.missing
    assert line.startswith("things.example.com: ")
    assert ABSENT not in collection.bodies


@in_virtual_time(on=Scene)
async def test_a_kind_that_is_usually_absent_is_not_told(scene):
    wanted = Wanted(resource=ABSENT, is_required=False, may_be_absent=True)

    assert (await scene.load(wanted)).missing == []


@pytest.mark.parametrize(
    "error", [ForbiddenError("not for you"), UnavailableError("service unavailable", code=503)]
)
@in_virtual_time(on=Scene)
async def test_other_reasons_are_told_of_such_a_kind_as_well(scene, error):
    wanted = [
        Wanted(resource=PODS),
        Wanted(resource=NODES, is_required=False, may_be_absent=True),
    ]
    collection = Collection(Refusing(scene.cluster, NODES, error), wanted)
    await collection.load()

    assert collection.missing == [f"nodes: {error}"]


@pytest.mark.parametrize("error", [UnauthorizedError("who?"), UnreachableError("no connection")])
@in_virtual_time(on=Scene)
async def test_an_error_that_concerns_every_kind_is_raised_once(scene, error):
    wanted = [Wanted(resource=each, is_required=False) for each in (NODES, PODS)]

    with pytest.raises(type(error)):
        await Collection(Refusing(scene.cluster, NODES, error), wanted).load()

    collection = Collection(Refusing(scene.cluster, PODS, error), wanted)
    await collection.load()
    assert collection.missing == [f"pods: {error}"]


@in_virtual_time(on=Scene)
async def test_all_namespaces_are_read_if_another_kind_concerns_them(scene):
    await a_scene_with_namespaces(scene)
    await scene.add_pod("shop/a")
    await scene.add_pod("lab/b")
    wanted = [
        Wanted(resource=NODES),
        Wanted(resource=PODS, namespace="shop", all_if=NODES),
        Wanted(resource=NAMESPACES, namespace="shop", all_if=NODES),
    ]
    before = await scene.load(*wanted)
    await scene.cluster.create(NODES, node_manifest("n", "cpu=1"))
    after = await scene.load(*wanted)

    assert (names(before, PODS), NAMESPACES in before.bodies) == (["a"], False)
    assert names(after, PODS) == ["b", "a"]
    assert {"shop", "lab"} <= set(names(after, NAMESPACES))


@in_virtual_time(on=Scene)
async def test_changes_are_followed_and_told_together(scene):
    await a_scene_with_namespaces(scene)
    await scene.add_pod("shop/a")
    collection = await scene.load(Wanted(resource=PODS))
    task = scene.follow(collection)
    await asyncio.sleep(0)
    await scene.add_pod("shop/b")
    await scene.add_pod("shop/c")
    label = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {"x": "y"}}})
    await scene.cluster.patch(PODS, Key("shop", "c"), label)
    await scene.cluster.delete(PODS, Key("shop", "a"), grace_seconds=0)
    await asyncio.sleep(LONG_S)

    assert scene.changes == [["b", "c"]]
    assert json.loads(collection.bodies[PODS][1])["metadata"]["labels"] == {"x": "y"}
    await ended(task)


@in_virtual_time(on=Scene)
async def test_nothing_is_missed_when_watches_break_or_expire(scene):
    await a_scene_with_namespaces(scene)
    collection = await scene.load(Wanted(resource=PODS))
    task = scene.follow(collection)
    await asyncio.sleep(0)
    scene.cluster.cut_watches(is_fault=True)
    await scene.add_pod("shop/a")
    await asyncio.sleep(LONG_S)
    assert scene.changes[-1] == ["a"]

    scene.cluster.cut_watches()
    await scene.add_pod("shop/b")
    scene.cluster.compact()
    await asyncio.sleep(LONG_S)

    assert scene.changes[-1] == ["a", "b"]
    await ended(task)


@in_virtual_time(on=Scene)
async def test_a_kind_that_cannot_be_watched_is_listed_again_and_again(scene):
    await a_scene_with_namespaces(scene)
    collection = await scene.load(
        Wanted(resource=PODS, poll_seconds=15.0), Wanted(resource=CONFIG_MAPS)
    )
    task = scene.follow(collection)
    await scene.add_pod("shop/a")
    await asyncio.sleep(10)
    assert scene.changes == []

    await asyncio.sleep(10)
    assert scene.changes == [["a"]]
    await ended(task)


@in_virtual_time(on=Scene)
async def test_a_kind_that_is_missing_is_not_followed(scene):
    await a_scene_with_namespaces(scene)
    collection = await scene.load(Wanted(resource=ABSENT, is_required=False), Wanted(resource=PODS))
    task = scene.follow(collection)
    await asyncio.sleep(0)
    await scene.add_pod("shop/a")
    await asyncio.sleep(LONG_S)

    assert scene.changes == [["a"]]
    await ended(task)
