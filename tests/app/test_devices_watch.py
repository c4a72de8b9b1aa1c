"""Watching the pods and the inventory of a node, through errors and missing kinds."""

import asyncio
import contextlib
import json
import ssl
import uuid
from random import Random

import pytest

from bursar.adapters.client_auth.credentials import FixedCredentials, bearer
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.kinds import CRDS, NAMESPACES, PODS
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind
from bursar.app.cluster.time_limit import end
from bursar.app.devices.ports import SourceError
from bursar.app.devices.watch import (
    ABSENT_SECONDS,
    DEVICES,
    STALE_SECONDS,
    ApiPods,
    WatchedInventory,
)
from bursar.core.devices.inventory import Inventory
from bursar.wire.devices.pod import DevicePodDecoder
from controlplane import ControlPlane
from support.builders.koordinator_device import DEFINITION
from support.builders.manifests import pod_manifest
from support.cluster.access import PlainAccess, a_client, access_of
from support.devices.kubelet_http import Asker
from support.faults.embedded_cluster import Line, MemoryWorld
from support.processes.kubectl import kubectl
from support.until import until
from support.virtual_time import in_virtual_time

SPACE = "devices"
NODE = "n1"


def seeded():
    return Random(1)  # noqa: S311 - the same pauses in every run


def app_pod(name, node=NODE, **spec):
    return pod_manifest(name, node=node, container="app", **spec)


def devices(node=NODE, *ids):
    listed = [
        {"type": "gpu", "minor": minor, "id": each, "health": True}
        for minor, each in enumerate(ids)
    ]
    return {
        "apiVersion": DEVICES.api_version,
        "kind": DEVICES.kind,
        "metadata": {"name": node},
        "spec": {"devices": listed},
    }


def ids(inventory: Inventory | None):
    return None if inventory is None else [each.id for each in inventory.devices]


def names(pods):
    return None if pods is None else sorted(pod.name for pod in pods)


@contextlib.asynccontextmanager
async def a_world():
    """An embedded cluster, where hours cost nothing."""
    world = MemoryWorld()
    await world.writer.create(NAMESPACES, {"metadata": {"name": SPACE}})
    yield world


@contextlib.asynccontextmanager
async def running(source):
    task = asyncio.ensure_future(source.run())
    try:
        yield source
    finally:
        await end(task)


def api_pods(world, decode=None):
    return ApiPods(
        world.client,
        NODE,
        clock=world.clock,
        random=seeded(),
        decode=decode or DevicePodDecoder(()).decode,
    )


def inventory_of(world):
    return WatchedInventory(world.client, NODE, clock=world.clock, random=seeded())


# ------------------------------------------------------------------ pods


@in_virtual_time(on=a_world)
async def test_only_pods_of_the_node_are_read(world):
    for pod in (app_pod("mine"), app_pod("other", node="n2")):
        await world.writer.create(PODS, pod, namespace=SPACE)

    assert names(await api_pods(world).read()) == ["mine"]


@in_virtual_time(on=a_world)
async def test_nothing_is_newest_before_all_pods_are_known(world):
    assert api_pods(world).cached() is None


@in_virtual_time(on=a_world)
async def test_the_watch_follows_pods_as_they_come_and_go(world):
    async with running(api_pods(world)) as pods:
        await pods.wait_synced()
        before = names(pods.cached())
        await world.writer.create(PODS, app_pod("mine"), namespace=SPACE)
        await world.writer.create(PODS, app_pod("other", node="n2"), namespace=SPACE)
        await world.clock.sleep(1)
        during = names(pods.cached())
        await world.writer.delete(PODS, Key(SPACE, "mine"), grace_seconds=0)
        await world.clock.sleep(1)

        assert (before, during, names(pods.cached())) == ([], ["mine"], [])


@in_virtual_time(on=a_world)
async def test_the_newest_pods_are_one_list_while_nothing_happens(world):
    async with running(api_pods(world)) as pods:
        await pods.wait_synced()
        first = pods.cached()

        assert pods.cached() is first
        await world.writer.create(PODS, app_pod("mine"), namespace=SPACE)
        await world.clock.sleep(1)
        assert pods.cached() is not first


@in_virtual_time(on=a_world)
async def test_a_read_does_not_wait_for_the_watch(world):
    async with running(api_pods(world)) as pods:
        await pods.wait_synced()
        await world.writer.create(PODS, app_pod("mine"), namespace=SPACE)

        assert names(await pods.read()) == ["mine"]


@in_virtual_time(on=a_world)
async def test_a_watch_that_hears_nothing_for_long_is_not_trusted(world):
    async with running(api_pods(world)) as pods:
        await pods.wait_synced()
        world.client.is_down = True
        world.client.cut()
        await world.clock.sleep(STALE_SECONDS / 2)
        during = names(pods.cached())
        await world.clock.sleep(STALE_SECONDS)
        after = names(pods.cached())
        world.client.is_down = False
        await world.clock.sleep(STALE_SECONDS)

        assert (during, after, names(pods.cached())) == ([], None, [])


@in_virtual_time(on=a_world)
async def test_an_api_server_that_fails_is_a_source_that_fails(world):
    world.client.is_down = True
    with pytest.raises(SourceError) as caught:
        await api_pods(world).read()

    assert str(caught.value) == "the API server: connection refused"


@in_virtual_time(on=a_world)
async def test_an_api_server_that_says_nothing_is_not_waited_for(world):
    world.client.is_held = True
    with pytest.raises(SourceError, match="did not answer within 3 s"):
        await api_pods(world).read()

    assert world.clock.monotonic() == 3


async def test_who_may_not_is_told_which_right_is_missing():
    class Strict:
        async def list(self, *_, **__):
            raise ForbiddenError("no\nway", code=403, resource="pods")

    pods = ApiPods(Strict(), NODE, clock=SYSTEM_CLOCK, random=seeded(), decode=json.loads)
    with pytest.raises(SourceError) as caught:
        await pods.read()

    assert str(caught.value) == (
        "the API server: pods: no\\nway; that takes `list` and `watch` on `pods`"
    )


@in_virtual_time(on=a_world)
async def test_a_pod_that_cannot_be_read_does_not_hide_the_others(world):
    decoder = DevicePodDecoder(())

    def picky(body):
        pod = decoder.decode(body)
        if pod.name == "odd":
            raise ValueError
        return pod

    for name in ("a", "odd", "z"):
        await world.writer.create(PODS, app_pod(name), namespace=SPACE)
    async with running(api_pods(world, picky)) as pods:
        await pods.wait_synced()

        assert names(await pods.read()) == names(pods.cached()) == ["a", "z"]


# ------------------------------------------------------------------ devices


@pytest.mark.parametrize("is_forbidden", [False, True], ids=["there is no such kind", "forbidden"])
@in_virtual_time(on=a_world)
async def test_without_a_view_of_the_kind_there_is_no_inventory_and_it_is_rarely_asked_for(
    world, is_forbidden
):
    asked = []

    class Counting(Line):
        def watch(self, *args, **options):
            asked.append(world.clock.monotonic())
            return super().watch(*args, **options)

        async def pass_on(self, request):
            if is_forbidden:
                raise ForbiddenError("no", code=403)
            return await super().pass_on(request)

    world.client = Counting(world._cluster)
    async with running(inventory_of(world)) as inventory:
        await world.clock.sleep(10 * ABSENT_SECONDS)

        assert inventory.current() is None
        assert inventory.is_absent is not is_forbidden
    assert 9 <= len(asked) <= 21


@in_virtual_time(on=a_world)
async def test_the_kind_may_come_later(world):
    async with running(inventory_of(world)) as inventory:
        await world.clock.sleep(1)
        await world.writer.create(CRDS, DEFINITION)
        await world.writer.create(DEVICES, devices(NODE, "GPU-1"))
        await world.clock.sleep(ABSENT_SECONDS * 2)

        assert ids(inventory.current()) == ["GPU-1"]
        assert not inventory.is_absent


@in_virtual_time(on=a_world)
async def test_a_server_that_is_down_is_asked_again_soon(world):
    await world.writer.create(CRDS, DEFINITION)
    await world.writer.create(DEVICES, devices(NODE, "GPU-1"))
    world.client.is_down = True
    async with running(inventory_of(world)) as inventory:
        await world.clock.sleep(600)
        before = ids(inventory.current())
        world.client.is_down = False
        await world.clock.sleep(60)

        assert (before, ids(inventory.current())) == (None, ["GPU-1"])


@in_virtual_time(on=a_world)
async def test_devices_are_followed_as_they_change_and_only_those_of_the_node(world):
    await world.writer.create(CRDS, DEFINITION)
    await world.writer.create(DEVICES, devices("n2", "GPU-9"))
    async with running(inventory_of(world)) as inventory:
        await inventory.wait_synced()
        seen = [ids(inventory.current())]
        await world.writer.create(DEVICES, devices(NODE, "GPU-1"))
        await world.clock.sleep(1)
        seen.append(ids(inventory.current()))
        patch = Patch(kind=PatchKind.MERGE, body=devices(NODE, "GPU-1", "GPU-2"))
        await world.writer.patch(DEVICES, Key("", NODE), patch)
        await world.clock.sleep(1)
        seen.append(ids(inventory.current()))
        await world.writer.delete(DEVICES, Key("", NODE))
        await world.clock.sleep(1)
        seen.append(ids(inventory.current()))

    assert seen == [None, ["GPU-1"], ["GPU-1", "GPU-2"], None]


@in_virtual_time(on=a_world)
async def test_an_object_that_cannot_be_read_leaves_the_last_that_could(world):
    await world.writer.create(CRDS, DEFINITION)
    await world.writer.create(DEVICES, devices(NODE, "GPU-1"))
    async with running(inventory_of(world)) as inventory:
        await inventory.wait_synced()
        patch = Patch(kind=PatchKind.MERGE, body={"spec": {"devices": "all of them"}})
        await world.writer.patch(DEVICES, Key("", NODE), patch)
        await world.clock.sleep(1)

        assert ids(inventory.current()) == ["GPU-1"]


# ------------------------------------------------------------------ a real API server


class HurriedClock:
    """The machine's time, with an end to every wait."""

    now, monotonic = staticmethod(SYSTEM_CLOCK.now), staticmethod(SYSTEM_CLOCK.monotonic)

    async def sleep(self, seconds):
        await SYSTEM_CLOCK.sleep(min(seconds, 0.05))


async def test_a_real_api_server_tells_the_pods_of_a_node(control_plane):
    node = f"node-{uuid.uuid4().hex[:8]}"
    mine, other = f"mine-{node}", f"other-{node}"
    # One of its own, for the one that every namespace has comes only after a while.
    account = Asker(control_plane)
    async with a_client(access_of(control_plane)) as client:
        pods = ApiPods(
            client, node, clock=SYSTEM_CLOCK, random=seeded(), decode=DevicePodDecoder(()).decode
        )
        try:
            async with running(pods):
                await pods.wait_synced()
                for name, place in ((mine, node), (other, "node-0")):
                    pod = app_pod(name, place, serviceAccountName=account.name)
                    await client.create(PODS, pod, namespace="default")

                assert names(await pods.read()) == [mine]
                await until(lambda: names(pods.cached()) == [mine])
                await client.delete(PODS, Key("default", mine), grace_seconds=0)
                await until(lambda: names(pods.cached()) == [])
                assert await pods.read() == []
                await client.delete(PODS, Key("default", other), grace_seconds=0)
        finally:
            account.remove()


def forget_the_kind(plane: ControlPlane) -> None:
    """Others may have brought it, and left it there."""
    kubectl(plane, "delete", "crd", DEFINITION["metadata"]["name"], "--ignore-not-found")


async def test_on_a_real_api_server_the_kind_comes_and_goes(control_plane):
    forget_the_kind(control_plane)
    node = f"node-{uuid.uuid4().hex[:8]}"
    definition = Key("", DEFINITION["metadata"]["name"])
    async with a_client(access_of(control_plane)) as client:
        inventory = WatchedInventory(client, node, clock=HurriedClock(), random=seeded())
        async with running(inventory):
            await until(lambda: inventory.is_absent)
            await client.create(CRDS, DEFINITION)
            try:
                await until(lambda: not inventory.is_absent)
                await client.create(DEVICES, devices(node, "GPU-1"))
                await client.create(DEVICES, devices(f"{node}-other", "GPU-9"))
                await until(lambda: ids(inventory.current()) == ["GPU-1"])
            finally:
                await client.delete(CRDS, definition)
            await until(lambda: inventory.current() is None)
            await until(lambda: inventory.is_absent)


async def test_these_rights_are_all_that_the_api_server_asks_for(control_plane):
    """What manifests of a node agent have to grant, apart from kubelet's `nodes/pods`."""
    forget_the_kind(control_plane)
    account = Asker(control_plane)
    account.allow_rules(
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [DEVICES.group], "resources": [DEVICES.plural], "verbs": ["list", "watch"]},
    )
    context = ssl.create_default_context(cafile=str(control_plane._authority.certificate))
    access = PlainAccess(
        control_plane.url,
        ssl_context=context,
        credentials=FixedCredentials(bearer(account.token())),
    )
    try:
        async with a_client(access) as client:
            pods = ApiPods(client, NODE, clock=SYSTEM_CLOCK, random=seeded(), decode=json.loads)
            inventory = WatchedInventory(client, NODE, clock=SYSTEM_CLOCK, random=seeded())
            async with running(pods), running(inventory):
                await pods.wait_synced()

                assert await pods.read() == pods.cached() == []
                # Not `forbidden`: there is no such kind here.
                await until(lambda: inventory.is_absent)
    finally:
        account.remove()
