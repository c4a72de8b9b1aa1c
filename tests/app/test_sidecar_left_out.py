"""With `--sidecar-failure native`, counting without a sidecar shows in events and conditions."""

import json

from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.ports import Key
from bursar.app.counting.feeds import Counting, CountingPart
from bursar.app.counting.sidecars.feed import SidecarFeed
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.counting.sidecars import SidecarCounter, SidecarRules
from bursar.wire.counting.pod_body import keep_body
from support.counting.scripted_sidecars import GONE, ScriptedSidecar, ScriptedSockets
from support.quota.aaq_controller import TEAM, AaqScene

REASON = "CountedWithoutSidecar"
ABSENT = "0 of 1 sidecars are connected"


def counting(scene, sockets):
    counter = SidecarCounter(SidecarRules(expected=1, falls_back=True), keep_body)
    feed = SidecarFeed(counter, sockets, scene.clock)
    return Counting.of([CountingPart(counter=counter, feeds=(feed,), left_out=counter.left_out)])


async def ready(scene, resource=APPLICATION_QUOTAS, key=Key(TEAM, "q")):  # noqa: B008 - a value
    quota = json.loads(await scene.cluster.get(resource, key))
    [found] = [each for each in quota["status"]["conditions"] if each["type"] == "Ready"]
    return found["status"], found["reason"], found["message"]


async def events(scene):
    bodies = map(json.loads, (await scene.cluster.list(EVENTS)).items)
    return sorted(
        (each["regarding"]["kind"], each["regarding"]["name"], each["note"])
        for each in bodies
        if each["reason"] == REASON
    )


async def test_counting_without_a_sidecar_is_told_on_the_quotas_and_taken_back():
    scene = AaqScene()
    await scene.furnish()
    await scene.quota("requests.cpu=5")
    await scene.cluster_quota("requests.cpu=9")
    sidecar = ScriptedSidecar(lambda *_: {"requests.cpu": "2"})
    sockets = ScriptedSockets(one=sidecar)
    async with scene.started(open_counting=lambda: counting(scene, sockets)):
        await scene.moment(15)
        await scene.gated_pod("web", "cpu=1")
        await scene.moment(15)
        assert await ready(scene) == ("True", "LimitsInForce", "the limits are in force")
        assert await events(scene) == []

        sidecar.ailment = GONE
        await scene.moment(30)
        note = f"pods of {TEAM} are counted without a sidecar: {ABSENT}"
        told = ("True", REASON, f"the limits are in force; {note}")
        assert await ready(scene) == told
        assert await ready(scene, CLUSTER_QUOTAS, Key("", "wide")) == told
        assert await events(scene) == [
            (CLUSTER_QUOTAS.kind, "wide", note),
            (APPLICATION_QUOTAS.kind, "q", note),
        ]

        # Nothing has this pod counted again, and the namespace of another quota is affected.
        await scene.gated_pod("late", "cpu=1", namespace="other")
        await scene.moment(30)
        _, _, message = await ready(scene, CLUSTER_QUOTAS, Key("", "wide"))
        assert f"pods of other and 1 more are counted without a sidecar: {ABSENT}" in message
        assert await ready(scene) == told

        sidecar.ailment = None
        await scene.moment(90)
        assert (await ready(scene))[1] == "LimitsInForce"
        assert (await ready(scene, CLUSTER_QUOTAS, Key("", "wide")))[1] == "LimitsInForce"
        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.moment(5)
        assert len(await events(scene)) == 3


async def test_a_pod_at_which_the_sidecar_fails_concerns_its_namespace_alone():
    scene = AaqScene()
    await scene.furnish()
    await scene.quota("requests.cpu=5")
    sockets = ScriptedSockets(one=ScriptedSidecar(lambda *_: b"garbage"))
    async with scene.started(open_counting=lambda: counting(scene, sockets)):
        await scene.gated_pod("elsewhere", "cpu=1", namespace="other")
        await scene.moment(30)
        assert (await ready(scene))[1] == "LimitsInForce"
        await scene.gated_pod("web", "cpu=1")
        await scene.moment(30)
        status, reason, message = await ready(scene)
        assert (status, reason) == ("True", REASON)
        assert "one: the answer is no PodUsageResponse" in message
