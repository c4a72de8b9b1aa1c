"""A leader changes between the grant of a resize and its commit: nobody gets the same room."""

import asyncio
import json

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, PODS
from bursar.app.cluster.ports import (
    EVERYTHING,
    ForbiddenError,
    Key,
    Patch,
    PatchKind,
    UnavailableError,
)
from bursar.app.quota.growth.resize import (
    CLEAN_SECONDS,
    COMMIT_SECONDS,
    REQUEST_SECONDS,
    ResizeService,
)
from bursar.core.quota.refusal import Reason
from support.quota.aaq_controller import HOME, MOMENT_S, TEAM, AaqScene

ADDRESS = "https://10.0.0.1:8443"
RECORD = Key(HOME, "bursar-resizes")
BOOKMARK_S = 70
"""By then a quiet watch has shown that nothing was stored."""
BOUND_S = REQUEST_SECONDS + COMMIT_SECONDS


class ResizeScene(AaqScene):
    """A quota of ten CPUs, of which two pods use one each."""

    async def furnish(self) -> None:
        await super().furnish()
        await self.quota("requests.cpu=10")
        for name in ("web", "db"):
            await self.pod(name, "cpu=1", phase="Running")

    def leading(self, identity: str):
        return self.started(identity, address=ADDRESS)

    async def ask(self, controller, name: str, cpu: str):
        pod = await self.read(PODS, name)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        row = controller.decode_row(json.dumps(pod).encode())
        return await controller.resize_service.resize(row, is_dry_run=False)

    async def store(self, name: str, cpu: str) -> None:
        """What the API server does when all webhooks have agreed."""
        value = {"requests": {"cpu": cpu}}
        change = [{"op": "replace", "path": "/spec/containers/0/resources", "value": value}]
        patch = Patch(kind=PatchKind.JSON, body=change)
        await self.cluster.patch(PODS, Key(TEAM, name), patch, subresource="resize")

    async def takeover(self, controller) -> None:
        await self.moment(controller.settings.timing.stop_seconds + MOMENT_S)
        assert controller.term is not None

    async def recorded(self) -> list[str]:
        data = json.loads(await self.cluster.get(CONFIG_MAPS, RECORD))["data"]
        return [each["name"] for each in json.loads(data["promises"])]


@pytest.fixture
async def scene():
    scene = ResizeScene()
    await scene.furnish()
    return scene


async def test_the_next_leader_gives_promised_room_to_nobody_else(scene):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "9") == ()
    await scene.gated_pod("next", "cpu=2")

    async with scene.leading("two") as two:
        await scene.takeover(two)
        [refusal] = await scene.ask(two, "db", "9")
        assert refusal.reason is Reason.QUOTA_EXCEEDED
        assert await scene.gates("next")

        await scene.store("web", "9")
        await scene.moment()
        assert await scene.gates("next")
        assert (await scene.status())["used"] == {"requests.cpu": "10"}


async def test_the_next_leader_gives_room_to_others_when_the_resize_cannot_be_stored_any_more(
    scene,
):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "9") == ()
    await scene.gated_pod("next", "cpu=2")

    async with scene.leading("two") as two:
        await scene.takeover(two)
        await scene.moment(REQUEST_SECONDS)
        assert await scene.gates("next")
        await scene.moment(COMMIT_SECONDS + BOOKMARK_S)
        assert await scene.gates("next") == []
        await scene.moment(CLEAN_SECONDS)
        assert await scene.recorded() == []


async def test_a_resize_that_was_stored_meanwhile_holds_nothing(scene):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "5") == ()
        await scene.store("web", "5")
    await scene.gated_pod("next", "cpu=2")

    async with scene.leading("two") as two:
        await scene.takeover(two)
        assert await scene.gates("next") == []
        assert len(two.term.books.growth) == 0


async def test_a_promise_is_removed_from_the_record_when_it_has_ended(scene):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "5") == ()
        assert await scene.recorded() == ["web"]
        await scene.store("web", "5")

        await scene.moment(CLEAN_SECONDS + MOMENT_S)
        assert await scene.recorded() == []


async def test_nothing_is_granted_that_cannot_be_recorded(scene):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        other = Patch(kind=PatchKind.MERGE, body={"data": {"term": "another"}})
        await scene.cluster.patch(CONFIG_MAPS, RECORD, other)

        with pytest.raises(UnavailableError, match="could not be recorded: another replica"):
            await scene.ask(one, "web", "9")


async def test_a_save_that_hangs_grants_nothing(scene):
    class Hanging:
        def __init__(self, cluster, clock) -> None:
            self._cluster, self._clock = cluster, clock
            self.is_hanging = False

        def __getattr__(self, name):
            return getattr(self._cluster, name)

        async def patch(self, resource, *args, **options):
            if self.is_hanging and resource == CONFIG_MAPS:
                await self._clock.sleep(10**6)
            return await self._cluster.patch(resource, *args, **options)

    scene.writer = Hanging(scene.cluster, scene.clock)
    async with scene.leading("one") as one:
        await scene.takeover(one)
        scene.writer.is_hanging = True

        asked = asyncio.ensure_future(scene.ask(one, "web", "9"))
        await scene.moment(5)
        with pytest.raises(UnavailableError, match="not be recorded in time"):
            await asked
        # The record is written when that is possible again.
        await scene.moment(2 * CLEAN_SECONDS)
        scene.writer.is_hanging = False
        await scene.moment(3 * CLEAN_SECONDS)
        assert await scene.recorded() == ["web"]


async def test_a_leader_that_cannot_read_the_record_waits_until_every_promise_has_ended(scene):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "9") == ()
    torn = Patch(kind=PatchKind.MERGE, body={"data": {"promises": "["}})
    await scene.cluster.patch(CONFIG_MAPS, RECORD, torn)
    await scene.gated_pod("next", "cpu=2")

    async with scene.leading("two") as two:
        await scene.takeover(two)
        await scene.moment(BOUND_S - 2 * MOMENT_S)
        assert await scene.gates("next")
        with pytest.raises(UnavailableError, match="not complete yet"):
            await scene.ask(two, "db", "2")
        await scene.moment(2 * MOMENT_S)
        assert await scene.gates("next") == []


async def test_a_controller_that_nobody_can_ask_has_no_record(scene):
    async with scene.started("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "9") == ()
    assert not await scene.exists(CONFIG_MAPS, RECORD.name, HOME)


async def test_a_controller_without_the_right_to_the_record_releases_pods_but_grants_nothing(
    scene,
):
    """Its roles are those of an older version."""

    class Forbidding:
        def __init__(self, cluster) -> None:
            self._cluster = cluster

        def __getattr__(self, name):
            return getattr(self._cluster, name)

        async def get(self, resource, key):
            if resource == CONFIG_MAPS:
                raise ForbiddenError("configmaps is forbidden")
            return await self._cluster.get(resource, key)

    scene.writer = Forbidding(scene.cluster)
    await scene.gated_pod("next", "cpu=2")
    async with scene.leading("one") as one:
        await scene.takeover(one)
        await scene.moment(BOUND_S)
        assert await scene.gates("next") == []
        with pytest.raises(UnavailableError, match="could not be recorded"):
            await scene.ask(one, "web", "3")


class LateCluster:
    """The cluster, in which lists of single pods fail for a while."""

    def __init__(self, cluster) -> None:
        self._cluster = cluster
        self.failures = 2

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    async def list(self, resource, query=EVERYTHING, **options):
        if query.field_selector and self.failures:
            self.failures -= 1
            raise UnavailableError("no connection")
        return await self._cluster.list(resource, query, **options)


async def test_a_promise_to_a_pod_that_the_next_leader_has_not_seen_yet_is_kept(scene):
    """The watch of the earlier leader was ahead."""
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "9") == ()
        [recorded] = one.term.books.growth.recorded()
        pods, books = one.term.sources.books.pods, one.term.books
        known = pods.find(Key(TEAM, "web"))
        shown = {}

        class LatePods:
            def find(self, key):
                return shown.get(key)

        late = ResizeService(
            one.term.loop,
            LatePods(),
            (),
            reader=LateCluster(scene.cluster),
            clock=scene.clock,
            record=one.term.resizes._record,
        )
        for promise in list(books.growth):
            books.growth.end(promise)
        restoring = asyncio.ensure_future(late.restore())
        await scene.moment(5)
        assert not restoring.done()

        shown[Key(TEAM, "web")] = known
        await scene.moment(2)
        await restoring
        assert list(books.growth.recorded()) == [recorded]


async def test_a_promise_to_a_pod_that_is_gone_does_not_hold_the_next_leader_up(scene):
    async with scene.leading("one") as one:
        await scene.takeover(one)
        assert await scene.ask(one, "web", "9") == ()
    await scene.end_pod("web")
    await scene.gated_pod("next", "cpu=2")

    async with scene.leading("two") as two:
        await scene.takeover(two)
        assert await scene.gates("next") == []
