"""The extender on the embedded cluster: bindings that fail, terms that end, statuses, signals."""

import json

import pytest

from bursar.app.cluster.kinds import EVENTS, LEASES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import (
    ClusterError,
    ForbiddenError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
)
from bursar.app.extender.binding import CHECK_SECONDS
from bursar.app.extender.extender import NotLeadingError
from bursar.app.extender.kinds import CLUSTER_RESOURCES, ENDPOINT_SLICES
from bursar.app.extender.names import EXTENDER
from bursar.app.extender.scheduler_config import SchedulerConfig, scheduler_configuration
from bursar.core.pools.holds import HoldState
from bursar.core.pools.refusal import PoolReason
from bursar.wire.extender import PreemptRequest, Victims
from support.extender.scene import HOME, LICENCE, SPACE, ExtenderScene, bind_request
from support.virtual_time import in_virtual_time

on_scene = in_virtual_time(on=ExtenderScene)


def reserved(extender) -> int:
    return extender.term.books.states[0].account.promised // 10**9


def used(extender) -> int:
    return extender.term.books.states[0].account.charged // 10**9


@on_scene
async def test_a_pod_that_passed_filter_is_bound(scene):
    extender = await scene.leading()
    await scene.pool()
    pod = await scene.pod("x")

    assert extender.filter(pod) == ()
    assert (await extender.bind(bind_request(pod))).message == ""

    await scene.clock.sleep(1)
    assert await scene.node_of("x") == "node-0"
    assert (used(extender), reserved(extender)) == (1, 0)


@on_scene
async def test_bind_alone_checks_as_well(scene):
    extender = await scene.leading()
    await scene.pool()
    first, second = await scene.pod("x"), await scene.pod("y")
    await extender.bind(bind_request(first))

    result = await extender.bind(bind_request(second))

    assert result.reason is PoolReason.EXHAUSTED
    assert await scene.node_of("y") == ""
    assert extender.refusals[PoolReason.EXHAUSTED] == 1
    await scene.clock.sleep(5)
    notes = [json.loads(each)["note"] for each in (await scene.cluster.list(EVENTS)).items]
    assert any(note.startswith("PoolExhausted: ClusterResource pool") for note in notes)


@on_scene
async def test_a_pod_that_the_watch_has_not_shown_is_read(scene):
    extender = await scene.leading()
    await scene.pool()
    pod = await scene.pod("x")
    row = extender.term.pods.find(Key(SPACE, "x"))
    extender.term.books.lose_pod(row)

    assert (await extender.bind(bind_request(pod))).message == ""

    gone = json.loads(pod)
    gone["metadata"] |= {"name": "gone", "uid": "u"}
    result = await extender.bind(bind_request(json.dumps(gone).encode()))
    assert "BindingFailed: the pod was not bound: the pod cannot be read" in result.message
    gone["metadata"]["name"] = "x"
    result = await extender.bind(bind_request(json.dumps(gone).encode()))
    assert "another one has its name" in result.message


@on_scene
async def test_a_refused_binding_returns_its_part(scene):
    extender = await scene.leading()
    await scene.pool()
    pod = await scene.pod("x")

    async def refuse():
        raise ForbiddenError("no", code=403)

    scene.cluster.before_bind = refuse
    extender.filter(pod)
    result = await extender.bind(bind_request(pod))
    await scene.clock.sleep(0.5)

    assert result.message == "BindingFailed: the pod was not bound: no"
    assert reserved(extender) == 0


@on_scene
async def test_a_lost_answer_frees_nothing(scene):
    extender = await scene.leading()
    await scene.pool()
    pod, other = await scene.pod("x"), await scene.pod("y")

    async def lose():
        raise UnavailableError("the connection broke")

    # Else the watch would tell the books.
    scene.cluster.watch_goes_on.clear()
    scene.cluster.after_bind = lose
    extender.filter(pod)
    result = await extender.bind(bind_request(pod))

    assert "the connection broke" in result.message
    assert extender.term.books.holds.find(bind_request(pod).uid).state is HoldState.UNCERTAIN
    assert [each.reason for each in extender.filter(other)] == [PoolReason.EXHAUSTED]
    again = await extender.bind(bind_request(pod))
    assert again.reason is PoolReason.BINDING_IN_PROGRESS
    write_seconds = extender.settings.timing.stop_seconds
    await scene.clock.sleep(3 * write_seconds)
    assert extender.term.books.holds.find(bind_request(pod).uid).state is HoldState.BOUND
    assert (await extender.bind(bind_request(pod))).message == ""
    assert [each.reason for each in extender.filter(other)] == [PoolReason.EXHAUSTED]


@on_scene
async def test_a_binding_that_was_never_stored_is_found_out_and_freed(scene):
    extender = await scene.leading()
    await scene.pool()
    pod = await scene.pod("x")

    async def lose():
        raise UnavailableError("the connection broke")

    scene.cluster.before_bind = lose
    extender.filter(pod)
    await extender.bind(bind_request(pod))
    await scene.clock.sleep(1)
    assert reserved(extender) == 1

    await scene.clock.sleep(3 * extender.settings.timing.stop_seconds)

    assert reserved(extender) == 0


@on_scene
async def test_a_bound_pod_that_the_watch_never_showed_is_found_out(scene):
    extender = await scene.leading()
    await scene.pool()
    scene.cluster.watch_goes_on.clear()
    pod = await scene.pod("x")
    extender.filter(pod)
    await extender.bind(bind_request(pod))
    await scene.clock.sleep(CHECK_SECONDS + 1)
    assert reserved(extender) == 1, "it is bound"
    await scene.delete("x")
    await scene.clock.sleep(2 * CHECK_SECONDS)

    assert reserved(extender) == 0


@on_scene
async def test_a_pod_that_cannot_be_read_is_asked_about_again(scene):
    extender = await scene.leading()
    await scene.pool()
    pod = await scene.pod("x")

    async def refuse():
        raise ForbiddenError("no", code=403)

    scene.cluster.before_bind = refuse
    get, answers = scene.cluster.get, [UnavailableError("busy"), NotFoundError("gone")]

    async def fail(resource, key):
        if resource.plural == "pods" and answers:
            raise answers.pop(0)
        return await get(resource, key)

    scene.cluster.get = fail
    extender.filter(pod)
    await extender.bind(bind_request(pod))
    await scene.clock.sleep(0.5)
    assert reserved(extender) == 1
    await scene.clock.sleep(2)

    assert reserved(extender) == 0


@on_scene
async def test_a_former_leader_binds_nothing(scene):
    extender = await scene.leading()
    await scene.pool()
    pod = await scene.pod("x")
    binder = extender.term.binder
    binder.is_leader = lambda: False

    result = await binder.bind(bind_request(pod))

    assert "does not lead any more" in result.message
    assert await scene.node_of("x") == ""


@on_scene
async def test_only_the_leader_answers_and_the_next_one_knows_what_is_bound(scene):
    first = await scene.leading()
    second = scene.start()
    await scene.pool()
    pod, other = await scene.pod("x"), await scene.pod("y")
    await first.bind(bind_request(pod))
    with pytest.raises(NotLeadingError, match="another replica"):
        second.filter(other)
    assert second.readiness_problem in {"", "no extender leads yet"}

    await scene.stop(0)
    with pytest.raises(NotLeadingError):
        first.filter(other)
    while second.term is None:
        await scene.clock.sleep(0.1)
    await scene.synced(second)

    assert [each.reason for each in second.filter(other)] == [PoolReason.EXHAUSTED]
    assert second.readiness_problem == ""


@on_scene
async def test_a_leader_that_has_not_read_the_cluster_does_not_answer(scene):
    extender = scene.start()
    while extender.term is None:
        await scene.clock.sleep(0)
    assert not extender.term.is_synced

    with pytest.raises(NotLeadingError, match="has not been read"):
        extender.filter(b"{}")
    assert extender.readiness_problem == "the cluster has not been read yet"


@on_scene
async def test_preempt_keeps_the_nodes_where_it_helps(scene):
    extender = await scene.leading()
    await scene.pool()
    pod, holder = await scene.pod("x"), await scene.pod("holder")
    await extender.bind(bind_request(holder))
    await scene.clock.sleep(1)
    uid = json.loads(holder)["metadata"]["uid"]
    victims = {
        "useful": Victims(uids=(uid,), violations=1),
        "in-vain": Victims(uids=("other",), violations=0),
    }

    assert extender.preempt(PreemptRequest(pod=pod, victims=victims)) == {
        "useful": victims["useful"]
    }


# ------------------------------------------------------------------ what is reported


@on_scene
async def test_the_status_says_what_is_used_reserved_and_waited_for(scene):
    extender = await scene.leading()
    await scene.pool(3, shares=[{"name": "all", "namespaceSelector": {}, "maximum": 2}])
    bound, held = await scene.pod("bound"), await scene.pod("held")
    await scene.pod("waits", 2)
    await extender.bind(bind_request(bound))
    extender.filter(held)
    await scene.clock.sleep(3)

    status = await scene.status()
    conditions = {each["type"]: each for each in status.pop("conditions")}
    assert status == {
        "observedGeneration": 1,
        "capacity": "3",
        "used": "1",
        "reserved": "1",
        "available": "1",
        "waitingPods": 1,
        "waiting": "2",
        "shares": [{"name": "all", "maximum": "2", "used": "1", "reserved": "1"}],
    }
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("True", "InUse")
    assert conditions["Overdrawn"]["reason"] == "Covered"


@on_scene
async def test_problems_are_conditions_and_events(scene):
    await scene.leading()
    await scene.pool(1)
    await scene.clock.sleep(2)
    await scene.pool(1, "younger")
    for name in ("one", "two"):
        await scene.pod(name, nodeName="node-0")
    await scene.clock.sleep(10)

    older, younger = await scene.status(), await scene.status("younger")
    assert older["conditions"][1]["message"] == "pods hold 2 of 1: 1 more than the capacity"
    assert younger["conditions"][0]["reason"] == "DuplicateResource"
    since = older["conditions"][0]["lastTransitionTime"]
    notes = {json.loads(each)["reason"] for each in (await scene.cluster.list(EVENTS)).items}
    assert notes == {"Overdrawn", "DuplicateResource"}
    await scene.delete("one")
    await scene.clock.sleep(5)
    healed = (await scene.status())["conditions"]
    assert healed[1]["status"] == "False"
    assert healed[0]["lastTransitionTime"] == since


@on_scene
async def test_a_status_that_cannot_be_written_is_tried_again(scene):
    await scene.leading()
    patch, failures = scene.cluster.patch, [ClusterError("no")] * 2

    async def fail(resource, *arguments, **more):
        if resource == CLUSTER_RESOURCES and failures:
            raise failures.pop()
        return await patch(resource, *arguments, **more)

    scene.cluster.patch = fail
    await scene.pool(1)
    await scene.clock.sleep(10)

    assert (await scene.status())["capacity"] == "1"


# ------------------------------------------------------------------ signals and the endpoint


@on_scene
async def test_the_scheduler_is_signalled_when_a_refused_pod_would_fit(scene):
    extender = await scene.leading()
    await scene.pool(0)
    pod = await scene.pod("x")
    extender.filter(pod)
    await scene.clock.sleep(5)
    assert extender.term.signal.count == 0

    raised = Patch(kind=PatchKind.MERGE, body={"spec": {"capacity": 1}})
    for _ in range(2):
        await scene.cluster.patch(CLUSTER_RESOURCES, Key("", "pool"), raised)
        await scene.clock.sleep(5)

    assert extender.term.signal.count == 1


@on_scene
async def test_the_leader_publishes_its_address(scene):
    written = []
    patch = scene.cluster.patch

    async def note(resource, key, change, **more):
        if resource == ENDPOINT_SLICES:
            written.append((key, change.body))
            if len(written) == 1:
                raise UnavailableError("busy")
            return b"{}"
        return await patch(resource, key, change, **more)

    scene.cluster.patch = note
    account = {"metadata": {"name": EXTENDER}}
    made = await scene.cluster.create(SERVICE_ACCOUNTS, account, namespace=HOME)
    await scene.leading(address=("10.1.2.3", 8443))
    await scene.clock.sleep(5)

    key, body = written[-1]
    assert len(written) == 2
    assert key == Key(HOME, EXTENDER)
    assert body["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert body["addressType"] == "IPv4"
    (owner,) = body["metadata"]["ownerReferences"]
    assert owner["uid"] == json.loads(made)["metadata"]["uid"]
    lease = json.loads(await scene.cluster.get(LEASES, Key(HOME, EXTENDER)))
    assert lease["metadata"]["ownerReferences"] == [owner]


@on_scene
async def test_without_its_service_account_it_leads_all_the_same(scene):
    get = scene.cluster.get

    async def fail(resource, key):
        if resource == SERVICE_ACCOUNTS:
            raise UnavailableError("busy")
        return await get(resource, key)

    scene.cluster.get = fail
    extender = await scene.leading()
    await scene.clock.sleep(1)

    assert extender.readiness_problem == ""


def test_the_scheduler_is_configured_for_the_managed_resources():
    config = SchedulerConfig(
        url="https://10.0.0.1/",
        resources=(LICENCE, LICENCE),
        ca_file="ca",
        cert_file="crt",
        key_file="key",
        server_name="bursar-extender.aaq.svc",
    )

    extender = scheduler_configuration(config)["extenders"][0]

    assert extender["urlPrefix"] == "https://10.0.0.1/scheduler"
    assert extender["managedResources"] == [{"name": LICENCE, "ignoredByScheduler": True}]
    assert extender["tlsConfig"]["serverName"] == "bursar-extender.aaq.svc"
    assert extender["nodeCacheCapable"]
