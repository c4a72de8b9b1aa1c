"""Statuses of quotas: equal to the books when all is calm, whatever happened before."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from bursar.app.cluster.kinds import NAMESPACES
from bursar.app.cluster.ports import (
    BusyError,
    ForbiddenError,
    Key,
    UnavailableError,
)
from bursar.app.cluster.reconcile import IN_FLIGHT_MAX
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from support.quota.books_of_a_cluster import a_scene, on_scene
from support.virtual_time import in_virtual_time

QUOTA = Key("blue", "q")


def conditions(status) -> dict:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def timeless(status) -> dict:
    conditions = [{**each, "lastTransitionTime": ""} for each in status["conditions"]]
    return {**status, "conditions": conditions}


# ------------------------------------------------------------------ what is written


@on_scene
async def test_quota_shows_limits_use_and_conditions(scene):
    await scene.quota({"pods": "5", "requests.cpu": "1"})
    await scene.pod("a", cpu="250m")
    await scene.pod("b", cpu="250m")
    await scene.calm()

    assert await scene.quota_status() == {
        "hard": {"pods": "5", "requests.cpu": "1"},
        "used": {"pods": "2", "requests.cpu": "500m"},
        "summary": "pods 2/5, requests.cpu 500m/1",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "LimitsInForce",
                "message": "the limits are in force",
                "lastTransitionTime": "2026-11-15T00:00:00Z",
                "observedGeneration": 1,
            },
            {
                "type": "Exceeded",
                "status": "False",
                "reason": "WithinLimits",
                "message": "usage is within the limits",
                "lastTransitionTime": "2026-11-15T00:00:00Z",
                "observedGeneration": 1,
            },
        ],
    }


@on_scene
async def test_cluster_quota_shows_the_total_and_each_namespace(scene):
    await scene.namespace("green", "grey", team="sea")
    await scene.namespace("red")
    await scene.cluster_quota({"pods": "5"}, team="sea")
    for number, namespace in enumerate(("blue", "blue", "green", "red")):
        await scene.pod(f"p{number}", namespace)
    await scene.calm()
    status = await scene.cluster_status()

    assert status["total"] == {"hard": {"pods": "5"}, "used": {"pods": "3"}}
    assert status["namespaces"] == [
        {"namespace": name, "status": {"hard": {"pods": "5"}, "used": {"pods": used}}}
        for name, used in (("blue", "2"), ("green", "1"), ("grey", "0"))
    ]
    assert status["summary"] == "pods 3/5"


@on_scene
async def test_namespace_that_leaves_a_cluster_quota_leaves_its_status(scene):
    await scene.namespace("green", team="sea")
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.pod("a", "green")
    await scene.calm()
    await scene.label("green", team="land")
    await scene.calm()
    status = await scene.cluster_status()

    assert [each["namespace"] for each in status["namespaces"]] == ["blue"]
    assert status["total"]["used"] == {"pods": "0"}


@on_scene
async def test_name_removed_from_the_limits_leaves_the_status(scene):
    await scene.cluster_quota({"pods": "5", "requests.cpu": "1"}, team="sea")
    await scene.pod("a")
    await scene.calm()
    hard = {"requests.cpu": None}
    await scene.change(CLUSTER_QUOTAS, Key("", "wide"), {"spec": {"quota": {"hard": hard}}})
    await scene.calm()
    status = await scene.cluster_status()

    assert status["total"] == {"hard": {"pods": "5"}, "used": {"pods": "1"}}
    assert status["namespaces"][0]["status"] == status["total"]


@on_scene
async def test_lowered_limit_is_exceeded_until_pods_end(scene):
    await scene.quota({"pods": "5"})
    for name in "abc":
        await scene.pod(name)
    await scene.calm()
    await scene.change(APPLICATION_QUOTAS, QUOTA, {"spec": {"hard": {"pods": "1"}}})
    await scene.calm()
    exceeded = (await scene.quota_status())["conditions"][1]

    assert exceeded["status"] == "True"
    assert exceeded["message"] == "usage exceeds the limits: pods 3/1"
    assert exceeded["lastTransitionTime"] == "2026-11-15T00:01:00Z"
    for name in "ab":
        await scene.end_pod(name)
    await scene.calm()
    assert conditions(await scene.quota_status())["Exceeded"] == ("False", "WithinLimits")


@on_scene
async def test_condition_keeps_its_time_while_it_stays_the_same(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    await scene.pod("a")
    await scene.calm()
    times = {each["lastTransitionTime"] for each in (await scene.quota_status())["conditions"]}

    assert times == {"2026-11-15T00:00:00Z"}


@on_scene
async def test_conditions_of_others_are_kept(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    foreign = {
        "type": "Paid",
        "status": "True",
        "reason": "InvoiceSettled",
        "message": "until May",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await scene.change(
        APPLICATION_QUOTAS, QUOTA, {"status": {"conditions": [foreign]}}, subresource="status"
    )
    await scene.calm()
    found = (await scene.quota_status())["conditions"]

    assert [each["type"] for each in found] == ["Ready", "Exceeded", "Paid"]
    assert found[2] == foreign


@on_scene
async def test_order_nobody_knows_is_reported(scene):
    await scene.quota({"pods": "5"})
    await scene.change(
        APPLICATION_QUOTAS, QUOTA, {"metadata": {"annotations": {"bursar.io/order": "alphabet"}}}
    )
    await scene.calm()

    assert conditions(await scene.quota_status())["Ready"] == ("True", "OrderUnknown")


# ------------------------------------------------------------------ putting right (E-ARQ-15)


@on_scene
async def test_status_that_somebody_overwrites_is_put_right(scene):
    await scene.quota({"pods": "5", "requests.cpu": "1"})
    await scene.pod("a")
    await scene.calm()
    right = await scene.quota_status()
    wrong = {"status": {"hard": {"pods": "9", "memory": "1Gi"}, "used": None, "summary": "mine"}}
    await scene.change(APPLICATION_QUOTAS, QUOTA, wrong, subresource="status")
    await scene.calm()

    assert await scene.quota_status() == right


@on_scene
async def test_status_that_cannot_be_read_is_written_anew(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    right = await scene.quota_status()
    wrong = {"status": {"used": {"pods": "many", "x": "y"}}}
    await scene.change(APPLICATION_QUOTAS, QUOTA, wrong, subresource="status")
    await scene.calm()

    assert timeless(await scene.quota_status()) == timeless(right)


@in_virtual_time(on=a_scene)
async def test_status_left_by_another_controller_is_replaced(scene):
    await scene.quota({"pods": "4"})
    old = {"status": {"hard": {"pods": "3"}, "used": {"pods": "3", "services": "1"}}}
    await scene.change(APPLICATION_QUOTAS, QUOTA, old, subresource="status")
    await scene.start()
    await scene.calm()
    status = await scene.quota_status()

    assert (status["hard"], status["used"]) == ({"pods": "4"}, {"pods": "0"})


@on_scene
async def test_quota_made_anew_gets_its_own_numbers(scene):
    await scene.quota({"pods": "5"})
    await scene.pod("a")
    await scene.calm()
    for number in range(5):
        await scene.pod(f"p{number}")
        await scene.cluster.delete(APPLICATION_QUOTAS, QUOTA)
        await scene.quota({"requests.cpu": "7"})
        await asyncio.sleep(0.005)
    await scene.calm()
    status = await scene.quota_status()

    assert status["hard"] == {"requests.cpu": "7"}
    assert status["used"] == {"requests.cpu": "600m"}


@on_scene
async def test_numbers_of_a_quota_that_is_gone_are_never_shown_by_the_next(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    await scene.pod("a")
    await asyncio.sleep(0.005)
    await scene.cluster.delete(APPLICATION_QUOTAS, QUOTA)
    await scene.quota({"requests.cpu": "7"})
    for _ in range(1000):
        await asyncio.sleep(0.001)
        status = await scene.quota_status()

        assert status.get("hard") in (None, {"requests.cpu": "7"})
    assert status["used"] == {"requests.cpu": "100m"}


@on_scene
async def test_quota_made_anew_before_we_hear_that_it_was_gone_is_not_forgotten(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    await scene.pod("a")
    await asyncio.sleep(0.005)
    await scene.cluster.delete(APPLICATION_QUOTAS, QUOTA)
    await asyncio.sleep(0.01)
    await scene.quota({"pods": "6"})
    await scene.calm()

    assert scene.status.reconciler.counters.gone == 1
    assert (await scene.quota_status())["hard"] == {"pods": "6"}


@on_scene
async def test_books_about_other_limits_than_those_shown_are_not_reported(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    scene.line.writes.clear()
    (covered,) = scene.books.coverage.quotas()
    for behind in (replace(covered.quota, hard={}), replace(covered.quota, uid="another")):
        scene.books.see_quota(behind)
        scene.status.enqueue([behind.key])
        await scene.calm()

    assert scene.line.writes == []


@on_scene
async def test_what_was_written_is_known_before_the_watch_shows_it(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    scene.line.writes.clear()
    scene.view.held.add(APPLICATION_QUOTAS)
    await scene.pod("a")
    await scene.calm()

    assert (await scene.quota_status())["used"] == {"pods": "1"}
    assert len(scene.line.writes) == 1
    await scene.end_pod("a")
    await scene.calm()
    assert (await scene.quota_status())["used"] == {"pods": "0"}
    assert len(scene.line.writes) == 2
    scene.view.held.clear()
    await scene.calm()
    assert len(scene.line.writes) == 2


# ------------------------------------------------------------------ how much is written


@on_scene
async def test_nothing_is_written_that_is_there_already(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    writes = len(scene.line.writes)
    await scene.change(APPLICATION_QUOTAS, QUOTA, {"metadata": {"labels": {"a": "b"}}})
    scene.status.enqueue(covered.quota.key for covered in scene.books.coverage.quotas())
    await scene.calm()

    assert writes == len(scene.line.writes) == 1


@on_scene
async def test_many_changes_are_few_writes_and_the_first_comes_at_once(scene):
    await scene.quota({"pods": "1000"})
    await scene.calm()
    scene.line.writes.clear()
    await scene.pod("first")
    await asyncio.sleep(0.1)

    assert (await scene.quota_status())["used"] == {"pods": "1"}
    for number in range(200):
        await scene.pod(f"p{number}")
        await asyncio.sleep(0.05)
    assert len(scene.line.writes) <= 1 + 10 / 0.5 + 1
    await scene.calm()
    assert (await scene.quota_status())["used"] == {"pods": "201"}


@on_scene
async def test_writes_in_flight_are_bounded(scene):
    for number in range(100):
        await scene.quota({"pods": "5"}, f"q{number}")
    await scene.calm()

    assert scene.line.in_flight_most == IN_FLIGHT_MAX
    assert len(scene.line.writes) == 100


@on_scene
async def test_nothing_is_written_by_one_who_may_not(scene):
    scene.may_write = False
    await scene.quota({"pods": "5"})
    await asyncio.sleep(60)

    assert scene.line.writes == []
    scene.may_write = True
    await scene.calm()
    assert (await scene.quota_status())["hard"] == {"pods": "5"}


# ------------------------------------------------------------------ trouble


@pytest.mark.parametrize(
    "error",
    [BusyError("later", retry_after=3), UnavailableError("down"), ForbiddenError("not now")],
    ids=lambda error: type(error).__name__,
)
@on_scene
async def test_trouble_is_outlasted(scene, error, caplog):
    scene.line.trouble = lambda: error
    await scene.quota({"pods": "5"})
    await asyncio.sleep(600)

    assert await scene.quota_status() == {}
    counters = scene.status.reconciler.counters
    assert 20 <= counters.failures <= 60
    assert counters.failures_by_class == {type(error).__name__: counters.failures}
    fields = caplog.records[0].fields
    assert fields["part"] == "status of quotas"
    assert (fields["reason"], fields["error"]) == (type(error).__name__, str(error))
    scene.line.trouble = lambda: None
    await scene.calm(120)
    assert (await scene.quota_status())["hard"] == {"pods": "5"}


@on_scene
async def test_one_quota_in_trouble_does_not_hold_up_the_others(scene):
    troubles = iter([UnavailableError("down")] * 10)
    scene.line.trouble = lambda: next(troubles, None)
    for number in range(20):
        await scene.quota({"pods": "5"}, f"q{number}")
    await asyncio.sleep(0.1)

    assert len(scene.line.writes) == 10
    await scene.calm()


@on_scene
async def test_lost_answers_do_no_harm(scene):
    scene.line.loses_answers = True
    await scene.quota({"pods": "5"})
    await scene.pod("a")
    await asyncio.sleep(60)
    scene.line.loses_answers = False
    await scene.calm()

    assert (await scene.quota_status())["used"] == {"pods": "1"}


@on_scene
async def test_server_that_never_answers_is_asked_again(scene):
    scene.line.is_silent = True
    await scene.quota({"pods": "5"})
    await asyncio.sleep(60)
    scene.line.is_silent = False
    await scene.calm(120)

    assert (await scene.quota_status())["hard"] == {"pods": "5"}


@on_scene
async def test_quota_that_goes_is_forgotten(scene):
    await scene.quota({"pods": "5"})
    await scene.calm()
    await scene.pod("a")
    await asyncio.sleep(0.001)
    await scene.cluster.delete(APPLICATION_QUOTAS, QUOTA)
    await scene.calm()

    assert scene.status._pending._writes == {}
    assert scene.status.reconciler.counters.failures == 0


# ------------------------------------------------------------------ whatever the order


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time(on=a_scene)
async def test_when_all_is_calm_every_status_is_true(scene, seed):
    """Pods, quotas, namespaces and statuses change while writes fail at random."""
    await scene.namespace("green", team="sea")
    await scene.start()
    chance = Random(seed)  # noqa: S311 - a seed, so that a failure can be repeated
    scene.line.trouble = lambda: UnavailableError("down") if chance.random() < 0.2 else None
    await scene.quota({"pods": "5", "requests.cpu": "1"})
    await scene.cluster_quota({"pods": "9"}, team="sea")
    pods: dict[str, str] = {}
    for step in range(80):
        await _stir(scene, chance, pods, step)
        scene.line.loses_answers = chance.random() < 0.2
        await asyncio.sleep(chance.choice((0, 0.005, 0.02, 0.7)))
    scene.line.trouble, scene.line.loses_answers = lambda: None, False
    await scene.calm(120)
    here = sum(namespace == "blue" for namespace in pods.values())
    own, wide = await scene.quota_status(), await scene.cluster_status()

    assert own["used"]["pods"] == str(here)
    assert own["hard"].keys() == own["used"].keys()
    labels = (await scene.read(NAMESPACES, "green"))["metadata"].get("labels", {})
    parts = {"blue": here}
    if labels.get("team") == "sea":
        parts["green"] = len(pods) - here
    assert wide["total"]["used"] == {"pods": str(sum(parts.values()))}
    assert {
        each["namespace"]: int(each["status"]["used"]["pods"]) for each in wide["namespaces"]
    } == parts


async def _stir(scene, chance, pods, step) -> None:
    match chance.randrange(8):
        case 0 | 1 | 2:
            pods[f"p{step}"] = chance.choice(("blue", "green"))
            await scene.pod(f"p{step}", pods[f"p{step}"])
        case 3 | 4 if pods:
            name = chance.choice(sorted(pods))
            await scene.end_pod(name, pods.pop(name))
        case 5:
            limits = {"spec": {"hard": {"pods": str(step), "requests.cpu": None}}}
            await scene.change(APPLICATION_QUOTAS, QUOTA, limits)
        case 6:
            await scene.label("green", team=chance.choice(("sea", None)))
        case 7:
            wrong = {"status": {"used": {"pods": str(step)}, "summary": "mine"}}
            await scene.change(APPLICATION_QUOTAS, QUOTA, wrong, subresource="status")
