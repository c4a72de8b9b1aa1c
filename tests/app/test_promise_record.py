"""The record of resize promises: written before the answer, and taken over by the next leader."""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import (
    ForbiddenError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
)
from bursar.app.quota.growth.promise_record import RECORD_BYTES_MAX, SAVE_SECONDS, PromiseRecord
from bursar.core.quota.growth.promises import RecordedPromise
from bursar.core.quota.ledger import PodKey
from support.virtual_time import MachineClock, in_virtual_time

PLACE = Key("aaq", "bursar-resizes")
WEB = RecordedPromise(PodKey("a", "web"), "u", 7, {"cpu": 5})
DB = RecordedPromise(PodKey("a", "db"), "v", 9, {"cpu": 3})


class FaultyCluster(MemoryCluster):
    """Counts writes; loses answers, hangs or refuses if it is told to."""

    def __init__(self, clock: MachineClock) -> None:
        super().__init__(clock, source=Random(3))  # noqa: S311 - a seed
        self.writes = 0
        self.loses_answers = 0
        self.hangs = 0
        self.refuses = False

    async def get(self, resource: Any, key: Key) -> bytes:
        if self.refuses and resource == CONFIG_MAPS:
            raise ForbiddenError("configmaps is forbidden")
        return await super().get(resource, key)

    async def patch(self, resource: Any, key: Key, patch: Patch, **options: Any) -> bytes:
        self.writes += 1
        if self.hangs:
            self.hangs -= 1
            await asyncio.Event().wait()
        body = await super().patch(resource, key, patch, **options)
        if self.loses_answers:
            self.loses_answers -= 1
            raise UnavailableError("the connection was closed")
        return body


class Scene:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = FaultyCluster(self.clock)
        self.leader = "one"

    async def record(self, term: str) -> PromiseRecord:
        if not self.cluster.revision or term == "one":
            await self.cluster.create(NAMESPACES, {"metadata": {"name": "aaq"}})
        return PromiseRecord(
            self.cluster,
            self.clock,
            namespace="aaq",
            term=term,
            is_leader=lambda: self.leader == term,
        )

    async def stored(self) -> dict[str, str]:
        return json.loads(await self.cluster.get(CONFIG_MAPS, PLACE))["data"]


@in_virtual_time(on=Scene)
async def test_the_next_leader_reads_what_its_predecessor_has_saved(scene):
    one, two = await scene.record("one"), await scene.record("two")
    assert await one.take_over() == ()
    await one.save(lambda: [WEB])
    await one.save(lambda: [WEB, DB])

    assert sorted(await two.take_over()) == [DB, WEB]
    assert (await scene.stored())["term"] == "two"


@in_virtual_time(on=Scene)
async def test_a_leader_that_was_followed_by_another_can_save_nothing(scene):
    """It was paused, and does not know."""
    one, two = await scene.record("one"), await scene.record("two")
    await one.take_over()
    assert await two.take_over() == ()

    for _ in range(2):
        with pytest.raises(UnavailableError, match="another replica has taken over"):
            await one.save(lambda: [WEB])

    await two.save(lambda: [DB])
    assert "web" not in (await scene.stored())["promises"]


@in_virtual_time(on=Scene)
async def test_a_write_that_comes_while_the_record_is_taken_over_is_read(scene):
    one, two = await scene.record("one"), await scene.record("two")
    await one.take_over()
    reads = scene.cluster.get

    async def get(resource: Any, key: Key) -> bytes:
        body = await reads(resource, key)
        scene.cluster.get = reads
        await one.save(lambda: [WEB])
        return body

    scene.cluster.get = get

    assert await two.take_over() == (WEB,)


@in_virtual_time(on=Scene)
async def test_a_save_whose_answer_is_lost_is_no_success_and_the_next_one_is(scene):
    one = await scene.record("one")
    await one.take_over()
    scene.cluster.loses_answers = 1

    with pytest.raises(UnavailableError):
        await one.save(lambda: [WEB])
    await one.save(lambda: [WEB, DB])

    assert "db" in (await scene.stored())["promises"]


@in_virtual_time(on=Scene)
async def test_a_save_that_hangs_is_given_up(scene):
    one = await scene.record("one")
    await one.take_over()
    scene.cluster.hangs = 1

    with pytest.raises(TimeoutError):
        await one.save(lambda: [WEB])

    assert scene.clock.monotonic() == SAVE_SECONDS
    await one.save(lambda: [WEB])


@in_virtual_time(on=Scene)
async def test_saves_at_the_same_time_share_a_write(scene):
    one = await scene.record("one")
    await one.take_over()
    promises = []

    async def promise(number: int) -> None:
        made = WEB._replace(uid=f"u{number}")
        promises.append(made)
        await one.save(lambda: promises)
        assert f'"u{number}"' in (await scene.stored())["promises"]

    await asyncio.gather(*(promise(number) for number in range(20)))

    assert scene.cluster.writes <= 2
    await one.save(lambda: promises)
    assert scene.cluster.writes <= 2


@in_virtual_time(on=Scene)
async def test_a_record_that_somebody_deletes_is_made_again_by_the_leader_only(scene):
    one = await scene.record("one")
    await one.take_over()
    await scene.cluster.delete(CONFIG_MAPS, PLACE)
    scene.leader = "two"
    with pytest.raises(UnavailableError, match="does not lead any more"):
        await one.save(lambda: [WEB])
    with pytest.raises(NotFoundError):
        await scene.stored()

    scene.leader = "one"
    await one.save(lambda: [WEB])

    assert "web" in (await scene.stored())["promises"]


@in_virtual_time(on=Scene)
async def test_a_record_that_keeps_changing_is_given_up(scene):
    one = await scene.record("one")
    await one.take_over()
    patches = scene.cluster.patch

    async def patch(resource: Any, key: Key, change: Patch, **options: Any) -> bytes:
        label = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {"a": str(len(made))}}})
        made.append(await patches(resource, key, label))
        return await patches(resource, key, change, **options)

    made: list[bytes] = []
    scene.cluster.patch = patch

    with pytest.raises(UnavailableError, match="keeps changing"):
        await one.save(lambda: [WEB])


@in_virtual_time(on=Scene)
async def test_a_record_that_is_too_long_is_not_written(scene):
    one = await scene.record("one")
    await one.take_over()
    long = WEB._replace(uid="u" * RECORD_BYTES_MAX)

    with pytest.raises(UnavailableError, match="too many resizes are being admitted"):
        await one.save(lambda: [long])


@in_virtual_time(on=Scene)
async def test_the_record_is_tried_again_until_it_can_be_taken_over(scene, caplog):
    one, two = await scene.record("one"), await scene.record("two")
    await one.take_over()
    await one.save(lambda: [WEB])
    scene.cluster.loses_answers, scene.cluster.hangs = 1, 1

    assert await two.take_over() == (WEB,)

    assert caplog.messages == ["cannot take over the record of resize promises; trying again"] * 2


@pytest.mark.parametrize("text", ["", "[", '{"promises": 1}'])
@in_virtual_time(on=Scene)
async def test_a_record_that_cannot_be_decoded_is_not_taken_for_an_empty_one(scene, text):
    one, two = await scene.record("one"), await scene.record("two")
    await one.take_over()
    body = {"data": {"promises": text}}
    await scene.cluster.patch(CONFIG_MAPS, PLACE, Patch(kind=PatchKind.MERGE, body=body))

    assert await two.take_over() is None
    await two.save(lambda: [DB])
    assert await (await scene.record("three")).take_over() == (DB,)


@in_virtual_time(on=Scene)
async def test_without_the_right_to_the_record_nothing_is_known_and_nothing_is_saved(scene):
    one = await scene.record("one")
    scene.cluster.refuses = True

    assert await one.take_over() is None
    with pytest.raises(ForbiddenError):
        await one.save(lambda: [WEB])


@in_virtual_time(on=Scene)
async def test_the_record_goes_with_the_account_of_the_controller(scene):
    one = await scene.record("one")
    account = {"metadata": {"name": "aaq-controller"}}
    await scene.cluster.create(SERVICE_ACCOUNTS, account, namespace="aaq")
    await one.take_over()

    stored = json.loads(await scene.cluster.get(CONFIG_MAPS, PLACE))
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ServiceAccount", "aaq-controller")
