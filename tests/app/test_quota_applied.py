"""Applied quotas: what each namespace is shown of the cluster-wide quotas that cover it."""

import asyncio
from dataclasses import replace

import pytest

from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import Key, UnavailableError
from bursar.app.cluster.reconcile import REPAIR_SECONDS
from bursar.app.names import APPLIED_QUOTAS_ANNOTATION
from bursar.app.quota.applied import APPLIED_SECONDS
from bursar.app.quota.kinds import APPLIED_CLUSTER_QUOTAS, CLUSTER_QUOTAS
from bursar.app.quota.managed.applied_usage import AppliedUsage
from support.quota.books_of_a_cluster import a_scene, on_scene
from support.virtual_time import in_virtual_time

COPY = Key("blue", "wide")


async def copy(scene, namespace: str = "blue"):
    return await scene.read(APPLIED_CLUSTER_QUOTAS, "wide", namespace)


@on_scene
async def test_namespace_is_shown_the_limits_the_total_and_its_own_part(scene):
    """E-MIR-05, but without what others use."""
    await scene.namespace("green", team="sea")
    await scene.namespace("red")
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.pod("a", "green")
    await scene.pod("b", "blue")
    await scene.pod("c", "blue")
    await scene.calm()
    original = await scene.read(CLUSTER_QUOTAS, "wide")
    shown = await copy(scene)

    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == ["blue/wide", "green/wide"]
    assert shown["spec"] == original["spec"]
    assert shown["metadata"]["labels"] == {"aaq.kubevirt.io": "true"}
    owner = shown["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (original["metadata"]["uid"], True)
    assert shown["status"]["total"] == {"hard": {"pods": "5"}, "used": {"pods": "3"}}
    assert shown["status"]["namespaces"] == [
        {"namespace": "blue", "status": {"hard": {"pods": "5"}, "used": {"pods": "2"}}}
    ]
    assert shown["status"]["summary"] == "pods 3/5"
    types = {each["type"]: each["status"] for each in shown["status"]["conditions"]}
    assert types == {"Ready": "True", "Exceeded": "False"}


@on_scene
async def test_on_request_a_copy_shows_the_usage_of_every_namespace(scene):
    """E-MIR-05 in AAQ's form."""
    scene.applied.shown = AppliedUsage.ALL
    await scene.namespace("green", team="sea")
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.pod("a", "green")
    await scene.pod("b", "blue")
    await scene.calm()
    original = await scene.read(CLUSTER_QUOTAS, "wide")

    assert [each["namespace"] for each in original["status"]["namespaces"]] == ["blue", "green"]
    for namespace in ("blue", "green"):
        shown = (await copy(scene, namespace))["status"]
        assert shown["namespaces"] == original["status"]["namespaces"]
        assert shown["total"] == original["status"]["total"]


def test_an_aaq_object_chooses_the_form_by_an_annotation():
    own, every = AppliedUsage.OWN, AppliedUsage.ALL

    assert AppliedUsage.of_aaq({}, own) is own
    assert AppliedUsage.of_aaq({}, every) is every
    assert AppliedUsage.of_aaq({APPLIED_QUOTAS_ANNOTATION: "all"}, own) is every
    assert AppliedUsage.of_aaq({APPLIED_QUOTAS_ANNOTATION: "own"}, every) is own
    with pytest.raises(ValueError, match="own or all is expected, not 'everything'"):
        AppliedUsage.of_aaq({APPLIED_QUOTAS_ANNOTATION: "everything"}, own)


@on_scene
async def test_changed_spec_is_copied_to_the_letter(scene):
    await scene.cluster_quota({"pods": "5", "requests.cpu": "1"}, team="sea")
    await scene.calm()
    changed = {
        "hard": {"pods": "0.5e1", "requests.cpu": None},
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["low"]}
            ]
        },
    }
    await scene.change(CLUSTER_QUOTAS, Key("", "wide"), {"spec": {"quota": changed}})
    await scene.calm()
    original = await scene.read(CLUSTER_QUOTAS, "wide")

    assert original["spec"]["quota"]["hard"] == {"pods": "0.5e1"}
    assert (await copy(scene))["spec"] == original["spec"]


@on_scene
async def test_copy_comes_and_goes_with_the_namespace(scene):
    """E-MIR-06."""
    await scene.namespace("green", team="sea")
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    await scene.label("green", team=None)
    await scene.calm()

    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == ["blue/wide"]
    await scene.label("green", team="sea")
    await scene.calm()
    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == ["blue/wide", "green/wide"]


@on_scene
async def test_copies_go_with_the_quota(scene):
    """Also if the owner was taken out by hand, so that nobody else collects them."""
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    scene.may_write = False
    await scene.change(APPLIED_CLUSTER_QUOTAS, COPY, {"metadata": {"ownerReferences": None}})
    await scene.cluster.delete(CLUSTER_QUOTAS, Key("", "wide"))
    await asyncio.sleep(1)

    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == ["blue/wide"]
    scene.may_write = True
    await scene.calm()
    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == []
    assert scene.applied._namespaces == scene.applied._pending._writes == {}


@in_virtual_time(on=a_scene)
async def test_copy_of_a_quota_that_went_while_nobody_looked_is_removed(scene):
    body = {
        "apiVersion": APPLIED_CLUSTER_QUOTAS.api_version,
        "kind": APPLIED_CLUSTER_QUOTAS.kind,
        "metadata": {"name": "old", "labels": {"aaq.kubevirt.io": "true"}},
        "spec": {"quota": {}, "selector": {}},
    }
    await scene.cluster.create(APPLIED_CLUSTER_QUOTAS, body, namespace="blue")
    await scene.start()
    await scene.calm()

    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == []


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"quota": {"hard": {"pods": "500", "cpu": "1"}}}},
        {"spec": None},
        {"status": {"total": {"used": {"pods": "0", "cpu": "3"}}}},
        {"status": None},
        {"status": {"namespaces": None, "conditions": None}},
        {"status": {"conditions": "none"}},
        {"metadata": {"labels": None}},
        {"metadata": {"ownerReferences": None}},
    ],
    ids=lambda edit: str(next(iter(edit.values()))),
)
@on_scene
async def test_edits_by_hand_are_put_right(scene, edit):
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.pod("a")
    await asyncio.sleep(0.5)
    right = _lasting(await copy(scene))
    await scene.change(APPLIED_CLUSTER_QUOTAS, COPY, edit)
    await scene.calm()

    assert _lasting(await copy(scene)) == right


def _lasting(raw):
    """Without what every write changes."""
    for name in ("resourceVersion", "generation"):
        del raw["metadata"][name]
    for condition in raw["status"]["conditions"]:
        del condition["lastTransitionTime"]
    return raw


@on_scene
async def test_copy_that_was_deleted_by_hand_is_made_again(scene):
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    await scene.cluster.delete(APPLIED_CLUSTER_QUOTAS, COPY)
    await scene.calm()

    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == ["blue/wide"]


async def deleted(scene):
    await scene.cluster.delete(APPLIED_CLUSTER_QUOTAS, COPY)


def edited(edit):
    async def change(scene):
        await scene.change(APPLIED_CLUSTER_QUOTAS, COPY, edit)

    return change


async def limited(scene):
    await scene.change(CLUSTER_QUOTAS, Key("", "wide"), {"spec": {"quota": {"hard": {"cpu": "1"}}}})


@pytest.mark.parametrize(
    "damage",
    [
        deleted,
        edited({"spec": {"quota": {"hard": {"pods": "500"}}}}),
        edited({"status": {"total": {"used": {"pods": "0"}}}}),
        edited({"metadata": {"labels": None}}),
        limited,
    ],
    ids=["deleted", "spec", "status", "labels", "original"],
)
@on_scene
async def test_damage_is_repaired_before_the_interval_of_usage_is_over(scene, damage):
    """Also if the copy was written a moment ago, and again and again."""
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    for number in range(3):
        await scene.pod(f"p{number}")
        # The copy is written, and then waits for the end of its interval.
        await asyncio.sleep(APPLIED_SECONDS + 0.5)
        await damage(scene)
        await asyncio.sleep(REPAIR_SECONDS + 0.5)
        original = await scene.read(CLUSTER_QUOTAS, "wide")
        shown = await copy(scene)

        assert shown["spec"] == original["spec"]
        assert shown["status"]["total"]["used"]["pods"] == str(number + 1)
        assert shown["metadata"]["labels"] == {"aaq.kubevirt.io": "true"}


@on_scene
async def test_a_program_that_overwrites_copies_is_answered_once_in_a_while(scene):
    """No more often than once per `REPAIR_SECONDS`, however often it writes."""
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    scene.line.writes.clear()
    for _ in range(100):
        edit = {"spec": {"quota": {"hard": {"pods": "500"}}}}
        await scene.change(APPLIED_CLUSTER_QUOTAS, COPY, edit)
        await asyncio.sleep(0.1)

    assert 5 <= len(scene.writes_to(APPLIED_CLUSTER_QUOTAS)) <= 12


@on_scene
async def test_quota_made_anew_under_the_same_name_gets_new_copies(scene):
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    for _ in range(4):
        await scene.cluster.delete(CLUSTER_QUOTAS, Key("", "wide"))
        await scene.cluster_quota({"pods": "7"}, team="sea")
        await asyncio.sleep(0.005)
    await scene.calm()
    original = await scene.read(CLUSTER_QUOTAS, "wide")
    shown = await copy(scene)

    assert shown["spec"]["quota"]["hard"] == {"pods": "7"}
    assert shown["metadata"]["ownerReferences"][0]["uid"] == original["metadata"]["uid"]


@on_scene
async def test_copies_are_written_rarely_and_never_for_nothing(scene):
    await scene.namespace(*(f"n{number}" for number in range(10)), team="sea")
    await scene.cluster_quota({"pods": "500"}, team="sea")
    await scene.calm()
    scene.line.writes.clear()
    for number in range(100):
        await scene.pod(f"p{number}")
        await asyncio.sleep(0.1)
    await scene.calm()

    assert len(scene.writes_to(APPLIED_CLUSTER_QUOTAS)) <= 11 * 4
    assert (await copy(scene, "n3"))["status"]["total"]["used"] == {"pods": "100"}
    scene.line.writes.clear()
    await scene.change(CLUSTER_QUOTAS, Key("", "wide"), {"metadata": {"labels": {"a": "b"}}})
    await scene.calm()
    assert scene.line.writes == []


@on_scene
async def test_namespace_that_ends_is_left_alone(scene):
    await scene.namespace("green", team="sea")
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    finalizer = {"metadata": {"finalizers": ["example.com/wait"]}}
    await scene.pod("a", "green")
    await scene.change(PODS, Key("green", "a"), finalizer)
    await scene.calm()
    await scene.cluster.delete(NAMESPACES, Key("", "green"))
    await asyncio.sleep(1)
    scene.line.writes.clear()
    await scene.calm()

    assert await scene.names(APPLIED_CLUSTER_QUOTAS) == ["blue/wide"]
    assert scene.applied.reconciler.counters.failures == 0
    await scene.change(PODS, Key("green", "a"), {"metadata": {"finalizers": None}})
    await scene.calm()


@on_scene
async def test_copy_is_not_owned_by_a_quota_that_the_books_take_for_another(scene):
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    scene.line.writes.clear()
    (covered,) = scene.books.coverage.quotas()
    scene.books.see_quota(replace(covered.quota, uid="another"))
    scene.applied.enqueue([covered.quota.key])
    await scene.calm()

    assert scene.line.writes == []


@on_scene
async def test_what_was_written_is_known_before_the_watch_shows_it(scene):
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await scene.calm()
    scene.line.writes.clear()
    scene.view.held.add(APPLIED_CLUSTER_QUOTAS)
    await scene.pod("a")
    await scene.calm()
    await scene.end_pod("a")
    await scene.calm()

    assert scene.writes_to(APPLIED_CLUSTER_QUOTAS) == ["patch", "patch"]
    assert (await copy(scene))["status"]["total"]["used"] == {"pods": "0"}


@on_scene
async def test_lost_answers_and_refusals_do_no_harm(scene):
    troubles = iter([UnavailableError("down")] * 3)
    scene.line.trouble = lambda: next(troubles, None)
    scene.line.loses_answers = True
    await scene.cluster_quota({"pods": "5"}, team="sea")
    await asyncio.sleep(20)
    await scene.pod("a")
    await asyncio.sleep(20)
    scene.line.loses_answers = False
    await scene.calm(120)

    assert (await copy(scene))["status"]["total"]["used"] == {"pods": "1"}
