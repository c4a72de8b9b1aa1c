"""New pods are gated only from when a controller is able to release them."""

import asyncio
import json
import random

from bursar.app.admission.gate_switch import GateSwitch
from bursar.app.admission.pods import NOT_YET
from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind
from bursar.app.cluster.reconcile import RETRY_SECONDS_MAX
from bursar.app.counting.feeds import Counting
from bursar.app.names import GATING_ANNOTATION
from bursar.core.counting.counters import Counters
from support.builders.reviews import a_review, a_reviewer, raw_pod, response_to
from support.quota.aaq_controller import HOME

ACCOUNT = Key(HOME, "aaq-controller")


async def create_account(scene):
    body = {"metadata": {"name": "aaq-controller"}}
    await scene.cluster.create(SERVICE_ACCOUNTS, body, namespace=HOME)


async def annotations(scene):
    body = json.loads(await scene.cluster.get(SERVICE_ACCOUNTS, ACCOUNT))
    return body["metadata"].get("annotations", {})


class NeverListed:
    """A kind of object that a counter depends on and that is never listed."""

    is_named_by_pods = True

    def feed(self, *_):
        return self

    async def wait_known(self):
        await asyncio.Event().wait()

    async def run(self, _):
        await asyncio.Event().wait()


async def test_a_leader_switches_the_gate_on_when_it_can_decide(scene):
    await create_account(scene)
    slow = NeverListed()

    async with scene.started(
        open_counting=lambda: Counting(counter=Counters(()), kinds=(slow,))
    ) as controller:
        await scene.moment(1)
        assert not controller.term.loop.is_synced
        assert await annotations(scene) == {}

        await scene.moment(60)
        assert controller.term.loop.is_synced
        assert await annotations(scene) == {GATING_ANNOTATION: "active"}
    # A controller that is down gates pods all the same: they wait for the next one.
    assert await annotations(scene) == {GATING_ANNOTATION: "active"}


async def test_an_account_that_is_made_later_is_found(scene):
    async with scene.started():
        await scene.moment(1)
        await create_account(scene)
        await scene.moment(5)
        assert await annotations(scene) == {GATING_ANNOTATION: "active"}


async def test_an_annotation_that_another_writer_removes_comes_back(scene):
    await create_account(scene)
    async with scene.started():
        await scene.moment(5)
        change = {"metadata": {"annotations": {GATING_ANNOTATION: None}}}
        patch = Patch(kind=PatchKind.MERGE, body=change)
        await scene.cluster.patch(SERVICE_ACCOUNTS, ACCOUNT, patch)
        await scene.moment(5)
        assert await annotations(scene) == {GATING_ANNOTATION: "active"}


class Refusing:
    """A cluster that refuses the first two patches of service accounts."""

    def __init__(self, cluster):
        self._cluster, self._refusals = cluster, 2

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    async def patch(self, resource, key, patch, **more):
        if resource == SERVICE_ACCOUNTS and self._refusals:
            self._refusals -= 1
            raise ForbiddenError("not allowed")
        return await self._cluster.patch(resource, key, patch, **more)


async def test_a_refused_write_is_logged_and_tried_again(scene, caplog):
    await create_account(scene)
    scene.writer = Refusing(scene.cluster)

    async with scene.started():
        await scene.moment(RETRY_SECONDS_MAX)
        assert "reconcile failed; trying again" in caplog.messages
        assert await annotations(scene) == {GATING_ANNOTATION: "active"}


# ------------------------------------------------------------------ the webhook


async def test_the_webhook_follows_the_switch(scene):
    switch = GateSwitch(scene.cluster, scene.clock, random.Random(1), HOME)  # noqa: S311
    reviewer = a_reviewer(is_gating=lambda: switch.is_on)
    watching = asyncio.create_task(switch.run())
    try:
        await scene.moment(1)
        assert await message_of_a_new_pod(reviewer) == "Pod has successfully gated"

        await create_account(scene)
        await scene.moment(1)
        assert await message_of_a_new_pod(reviewer) == NOT_YET

        change = {"metadata": {"annotations": {GATING_ANNOTATION: "active"}}}
        patch = Patch(kind=PatchKind.MERGE, body=change)
        await scene.cluster.patch(SERVICE_ACCOUNTS, ACCOUNT, patch)
        await scene.moment(1)
        assert await message_of_a_new_pod(reviewer) == "Pod has successfully gated"
    finally:
        watching.cancel()


async def message_of_a_new_pod(reviewer):
    response = await response_to(reviewer, a_review("Pod", "CREATE", raw_pod()))
    assert response["allowed"]
    assert ("patch" in response) == (response["status"]["message"] != NOT_YET)
    return response["status"]["message"]
