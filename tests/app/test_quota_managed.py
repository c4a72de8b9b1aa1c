"""Managed ResourceQuotas: made, changed and removed when necessary, and only then."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from bursar.app.cluster.kinds import NAMESPACES, RESOURCE_QUOTAS
from bursar.app.cluster.ports import Key, NotFoundError, UnavailableError
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.app.quota.managed.writer import (
    CALM_SECONDS,
    MANAGED_SECONDS,
    OWN_COUNT,
    OWN_COUNT_SECONDS,
    RECOUNT_SECONDS,
    RECREATE_SECONDS_MAX,
    Action,
    action_for,
    is_uncounted,
    managed_spec,
)
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.scopes import ScopeRule
from support.builders.pods import parsed
from support.quota.books_of_a_cluster import on_scene

KEY = Key("blue", "q")
NAME = "q-non-schedulable-resources-managed-rq-x"
MANAGED = Key("blue", NAME)
BEST_EFFORT = ScopeRule("BestEffort", "Exists")
CLASSY = ScopeRule("PriorityClass", "In", ("high", "low"))


# ------------------------------------------------------------------ deciding


def keeper(hard: str, **fields) -> QuotaObject:
    key = QuotaKey(QuotaKind.NAMESPACED, "blue", "q")
    scopes = fields.pop("scopes", ())
    return QuotaObject(quota=Quota(key=key, uid="u", hard=parsed(hard), scopes=scopes), **fields)


def managed(hard: str, **fields) -> QuotaObject:
    key = QuotaKey(QuotaKind.NATIVE, "blue", NAME)
    quota = Quota(key=key, uid="m", hard=parsed(hard), scopes=fields.pop("scopes", ()))
    fields = {"labels": {"aaq.kubevirt.io": "true"}, "owner_uid": "u", **fields}
    return QuotaObject(quota=quota, **fields)


CASES = {
    "U-RQ-01 quota absent": (None, managed("services=5"), Action.DELETE),
    "quota absent, nothing there": (None, None, Action.NONE),
    "U-RQ-03 nothing to delegate": (keeper("limits.memory=1Gi"), None, Action.NONE),
    "U-RQ-04 services": (keeper("services=5"), None, Action.CREATE),
    "U-RQ-05 equal": (keeper("services=5 pods=1"), managed("services=5"), Action.NONE),
    "equal in another notation": (keeper("services=5"), managed("services=5e0"), Action.NONE),
    "U-RQ-06 other limit": (keeper("services=5"), managed("services=2"), Action.UPDATE),
    "other names": (keeper("services=5"), managed("services=5 secrets=1"), Action.UPDATE),
    "U-RQ-07 not any more": (keeper("requests.memory=1"), managed("services=5"), Action.DELETE),
    "names of machines": (keeper("cpu/vmi=1 memory/vmi=1 instances/vmi=1"), None, Action.NONE),
    "label removed": (keeper("services=5"), managed("services=5", labels={}), Action.UPDATE),
    "other owner": (keeper("services=5"), managed("services=5", owner_uid="x"), Action.UPDATE),
    "other scopes": (
        keeper("count/pods=5", scopes=(BEST_EFFORT,)),
        managed("count/pods=5"),
        Action.REPLACE,
    ),
    "scopes in another order": (
        keeper("count/pods=5", scopes=(BEST_EFFORT, CLASSY)),
        managed("count/pods=5", scopes=(CLASSY, BEST_EFFORT)),
        Action.NONE,
    ),
    "on its way out": (keeper("services=5"), managed("", is_deleting=True), Action.NONE),
    "quota on its way out": (keeper("services=5", is_deleting=True), None, Action.NONE),
    "made by a person": (None, managed("services=5", labels={}, owner_uid=""), Action.NONE),
    "made by a person, but wanted": (
        keeper("services=5"),
        managed("services=5", labels={}, owner_uid=""),
        Action.UPDATE,
    ),
}


@pytest.mark.parametrize(("quota", "found", "wanted"), CASES.values(), ids=CASES)
def test_measure_is_what_is_necessary(quota, found, wanted):
    assert action_for(quota, found) is wanted


@pytest.mark.parametrize(("quota", "found", "wanted"), CASES.values(), ids=CASES)
def test_nothing_is_done_in_a_namespace_that_ends(quota, found, wanted):
    """U-RQ-02."""
    del wanted
    assert action_for(quota, found, is_terminating=True) is Action.NONE


def test_every_measure_has_a_case():
    assert {wanted for _, _, wanted in CASES.values()} == set(Action)


def test_spec_has_the_limits_and_scopes_of_the_quota():
    quota = keeper("services=5 pods=1 requests.storage=1Gi").quota

    assert managed_spec(QuotaObject(quota=quota)) == {
        "hard": {"services": "5", "requests.storage": "1Gi"}
    }
    assert managed_spec(
        QuotaObject(quota=replace(quota, scopes=(BEST_EFFORT, CLASSY, BEST_EFFORT)))
    ) == {
        "hard": {"services": "5", "requests.storage": "1Gi"},
        "scopes": ["BestEffort"],
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ("high", "low")}
            ]
        },
    }


# ------------------------------------------------------------------ on a cluster


@on_scene
async def test_what_pods_cannot_wait_for_is_left_to_kubernetes(scene):
    """E-MIR-01."""
    await scene.quota({"pods": "3", "services": "5", "count/secrets": "7"})
    await scene.calm()
    quota = await scene.read(APPLICATION_QUOTAS, "q", "blue")
    made = await scene.read(RESOURCE_QUOTAS, NAME, "blue")

    assert made["spec"] == {"hard": {"services": "5", "count/secrets": "7"}}
    assert made["metadata"]["labels"] == {"aaq.kubevirt.io": "true"}
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "aaq.kubevirt.io/v1alpha1",
            "kind": "ApplicationAwareResourceQuota",
            "name": "q",
            "uid": quota["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@on_scene
async def test_quota_passes_on_what_kubernetes_counts(scene):
    """U-ARQ-16."""
    await scene.quota({"pods": "3", "services": "5"})
    await scene.calm()
    counted = {"status": {"hard": {"services": "5"}, "used": {"services": "2"}}}
    await scene.change(RESOURCE_QUOTAS, MANAGED, counted, subresource="status")
    await scene.calm()

    assert (await scene.quota_status())["used"] == {"pods": "0", "services": "2"}


@on_scene
async def test_limits_follow_the_quota_until_there_are_none(scene):
    """E-MIR-04 and E-MIR-02."""
    await scene.quota({"pods": "3", "services": "10", "secrets": "1"})
    await scene.calm()
    first = await scene.read(RESOURCE_QUOTAS, NAME, "blue")
    changed = {"spec": {"hard": {"services": "15", "secrets": None}}}
    await scene.change(APPLICATION_QUOTAS, KEY, changed)
    await scene.calm()
    second = await scene.read(RESOURCE_QUOTAS, NAME, "blue")

    assert second["spec"]["hard"] == {"services": "15"}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    await scene.change(APPLICATION_QUOTAS, KEY, {"spec": {"hard": {"services": None}}})
    await scene.calm()
    assert await scene.names(RESOURCE_QUOTAS) == []
    assert scene.writes_to(RESOURCE_QUOTAS) == ["create", "patch", "delete"]


@on_scene
async def test_it_goes_with_its_quota(scene):
    """E-MIR-03. Also if the owner was taken out by hand, so that nobody else collects it."""
    await scene.quota({"services": "5"})
    await scene.quota({"services": "5"}, "other")
    await scene.calm()
    scene.may_write = False
    await scene.change(RESOURCE_QUOTAS, MANAGED, {"metadata": {"ownerReferences": None}})
    await scene.cluster.delete(APPLICATION_QUOTAS, KEY)
    await asyncio.sleep(1)

    assert f"blue/{NAME}" in await scene.names(RESOURCE_QUOTAS)
    scene.may_write = True
    await scene.calm()
    assert await scene.names(RESOURCE_QUOTAS) == [f"blue/{NAME.replace('q', 'other', 1)}"]


@on_scene
async def test_changed_scopes_make_a_new_one(scene):
    await scene.quota({"count/pods": "5"}, scopes=["BestEffort"])
    await scene.calm()
    first = await scene.read(RESOURCE_QUOTAS, NAME, "blue")
    await scene.change(APPLICATION_QUOTAS, KEY, {"spec": {"scopes": ["NotBestEffort"]}})
    await scene.calm()
    second = await scene.read(RESOURCE_QUOTAS, NAME, "blue")

    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert second["spec"]["scopes"] == ["NotBestEffort"]
    assert scene.writes_to(RESOURCE_QUOTAS) == ["create", "delete", "create"]


@pytest.mark.parametrize(
    "edit",
    [
        {"metadata": {"labels": {"aaq.kubevirt.io": None}}},
        {"metadata": {"labels": None}},
        {"metadata": {"ownerReferences": None}},
        {"spec": {"hard": {"services": "9", "secrets": "2"}}},
    ],
    ids=["label", "all labels", "owner", "limits"],
)
@on_scene
async def test_edits_by_hand_are_put_right(scene, edit):
    await scene.quota({"services": "5"})
    await scene.calm()
    right = await scene.read(RESOURCE_QUOTAS, NAME, "blue")
    await scene.change(RESOURCE_QUOTAS, MANAGED, edit)
    await scene.calm()
    now = await scene.read(RESOURCE_QUOTAS, NAME, "blue")

    for each in (right, now):
        del each["metadata"]["resourceVersion"]
    assert now == right


@on_scene
async def test_one_that_was_deleted_by_hand_is_made_again(scene):
    await scene.quota({"services": "5"})
    await scene.calm()
    await scene.cluster.delete(RESOURCE_QUOTAS, MANAGED)
    await scene.calm()

    assert await scene.names(RESOURCE_QUOTAS) == [f"blue/{NAME}"]


@on_scene
async def test_labels_of_others_are_kept(scene):
    await scene.quota({"services": "5"})
    await scene.calm()
    labels = {"aaq.kubevirt.io": None, "cost-centre": "4711"}
    await scene.change(RESOURCE_QUOTAS, MANAGED, {"metadata": {"labels": labels}})
    await scene.calm()
    made = await scene.read(RESOURCE_QUOTAS, NAME, "blue")

    assert made["metadata"]["labels"] == {"aaq.kubevirt.io": "true", "cost-centre": "4711"}


@on_scene
async def test_nothing_is_written_for_nothing(scene):
    await scene.quota({"pods": "5"})
    await scene.quota({"pods": "5", "services": "1"}, "both")
    await scene.calm()
    for number in range(20):
        await scene.pod(f"p{number}")
        await asyncio.sleep(1)
    await scene.calm()

    assert scene.writes_to(RESOURCE_QUOTAS) == ["create"]


@on_scene
async def test_resource_quotas_of_people_are_left_alone(scene):
    body = {"metadata": {"name": "mine"}, "spec": {"hard": {"pods": "1"}}}
    await scene.cluster.create(RESOURCE_QUOTAS, body, namespace="blue")
    await scene.calm()

    assert scene.line.writes == []


@on_scene
async def test_namespace_that_ends_is_left_alone(scene):
    await scene.quota({"services": "5"})
    await scene.calm()
    finalizer = {"metadata": {"finalizers": ["example.com/wait"]}}
    await scene.change(APPLICATION_QUOTAS, KEY, finalizer)
    await scene.calm()
    scene.line.writes.clear()
    await scene.cluster.delete(NAMESPACES, Key("", "blue"))
    await scene.calm()

    assert await scene.names(RESOURCE_QUOTAS) == []
    assert scene.writes_to(RESOURCE_QUOTAS) == []
    await scene.change(APPLICATION_QUOTAS, KEY, {"metadata": {"finalizers": None}})
    await scene.calm()
    with pytest.raises(NotFoundError):
        await scene.read(NAMESPACES, "blue")


@on_scene
async def test_one_that_is_deleted_again_and_again_is_made_ever_more_rarely(scene):
    await scene.quota({"services": "5"})
    await scene.calm()
    await delete_for(scene, RECREATE_SECONDS_MAX * 20)

    creations = scene.writes_to(RESOURCE_QUOTAS).count("create")
    assert 20 <= creations <= 30
    await asyncio.sleep(RECREATE_SECONDS_MAX + CALM_SECONDS)
    assert f"blue/{NAME}" in await scene.names(RESOURCE_QUOTAS)


@on_scene
async def test_one_that_is_deleted_now_and_then_is_back_at_once(scene):
    await scene.quota({"services": "5"})
    await scene.calm()
    for _ in range(5):
        await asyncio.sleep(2 * CALM_SECONDS)
        await scene.cluster.delete(RESOURCE_QUOTAS, MANAGED)
        await asyncio.sleep(2 * MANAGED_SECONDS)

        assert f"blue/{NAME}" in await scene.names(RESOURCE_QUOTAS)


@on_scene
async def test_kubernetes_has_time_to_see_a_quota_that_is_counted_itself(scene):
    assert OWN_COUNT == "count/applicationawareresourcequotas.aaq.kubevirt.io"
    await scene.calm()
    await scene.quota({OWN_COUNT: "2", "services": "5"})
    await asyncio.sleep(OWN_COUNT_SECONDS * 0.9)
    assert await scene.names(RESOURCE_QUOTAS) == []

    await asyncio.sleep(OWN_COUNT_SECONDS * 0.2)
    assert await scene.names(RESOURCE_QUOTAS) == [f"blue/{NAME}"]

    # By now it has seen the quota, so nothing waits when someone deletes the managed one.
    await asyncio.sleep(2 * CALM_SECONDS)
    await scene.cluster.delete(RESOURCE_QUOTAS, MANAGED)
    await asyncio.sleep(MANAGED_SECONDS + 0.1)
    assert await scene.names(RESOURCE_QUOTAS) == [f"blue/{NAME}"]


@pytest.mark.parametrize(
    ("used", "expected"), [("", True), (f"{OWN_COUNT}=0", True), (f"{OWN_COUNT}=1", False)]
)
def test_a_quota_that_limits_quotas_is_itself_one_of_them(used, expected):
    owner = keeper(f"{OWN_COUNT}=2")
    assert is_uncounted(owner, managed(f"{OWN_COUNT}=2", reported_used=parsed(used))) is expected
    assert not is_uncounted(keeper("services=2"), managed("services=2"))
    cluster_wide = replace(owner.quota, key=QuotaKey(QuotaKind.CLUSTER, "", "q"))
    assert not is_uncounted(replace(owner, quota=cluster_wide), managed(f"{OWN_COUNT}=2"))


@on_scene
async def test_kubernetes_counts_again_if_it_did_not_know_the_kind(scene):
    async def limits() -> set[str]:
        return set((await scene.read(RESOURCE_QUOTAS, NAME, "blue"))["spec"]["hard"])

    await scene.quota({OWN_COUNT: "2", "services": "5"})
    await asyncio.sleep(OWN_COUNT_SECONDS + MANAGED_SECONDS)
    seen: list[set[str]] = []
    for _ in range(round(RECOUNT_SECONDS * 4 / 0.1)):
        now = await limits()
        if seen[-1:] != [now]:
            seen.append(now)
        await asyncio.sleep(0.1)
    whole = {OWN_COUNT, "services"}
    # After 5 s and after 10 s more the limit is taken away and set again.
    assert seen == [whole, {"services"}, whole, {"services"}, whole]

    status = {"used": {OWN_COUNT: "1", "services": "0"}}
    await scene.change(RESOURCE_QUOTAS, MANAGED, {"status": status}, subresource="status")
    await asyncio.sleep(RECOUNT_SECONDS * 20)
    assert await limits() == whole


@on_scene
async def test_changes_of_scopes_are_no_deletions_by_others(scene):
    await scene.quota({"count/pods": "5"}, scopes=["BestEffort"])
    for number in range(20):
        scopes = ["BestEffort" if number % 2 else "NotBestEffort"]
        await scene.change(APPLICATION_QUOTAS, KEY, {"spec": {"scopes": scopes}})
        await asyncio.sleep(2 * MANAGED_SECONDS + 1)
        made = await scene.read(RESOURCE_QUOTAS, NAME, "blue")

        assert made["spec"]["scopes"] == scopes


async def delete_for(scene, seconds):
    """Delete it whenever it is there."""
    end = scene.clock.monotonic() + seconds
    while scene.clock.monotonic() < end:
        with suppress(NotFoundError):
            await scene.cluster.delete(RESOURCE_QUOTAS, MANAGED)
        await asyncio.sleep(MANAGED_SECONDS / 2)


@on_scene
async def test_nothing_is_made_in_a_namespace_that_ends(scene):
    await scene.quota({"services": "5"})
    await scene.calm()
    phase = {"status": {"phase": "Terminating"}}
    await scene.change(NAMESPACES, Key("", "blue"), phase, subresource="status")
    await scene.calm()
    await scene.cluster.delete(RESOURCE_QUOTAS, MANAGED)
    await scene.calm()

    assert scene.writes_to(RESOURCE_QUOTAS) == ["create"]


@on_scene
async def test_what_a_person_made_under_that_name_is_not_deleted_by_mistake(scene):
    await scene.quota({"pods": "1", "services": "5"})
    await scene.calm()
    scene.view.held.add(RESOURCE_QUOTAS)
    await scene.cluster.delete(RESOURCE_QUOTAS, MANAGED)
    body = {"metadata": {"name": NAME}, "spec": {"hard": {"pods": "1"}}}
    await scene.cluster.create(RESOURCE_QUOTAS, body, namespace="blue")
    await scene.change(APPLICATION_QUOTAS, KEY, {"spec": {"hard": {"services": None}}})
    await asyncio.sleep(5)
    scene.view.held.clear()
    await scene.calm()

    assert scene.managed.reconciler.counters.failures > 0
    assert (await scene.read(RESOURCE_QUOTAS, NAME, "blue"))["spec"] == body["spec"]


@on_scene
async def test_lost_answers_and_refusals_do_no_harm(scene):
    troubles = iter([UnavailableError("down")] * 3)
    scene.line.trouble = lambda: next(troubles, None)
    scene.line.loses_answers = True
    await scene.quota({"services": "5"}, scopes=["BestEffort"])
    await asyncio.sleep(10)
    await scene.change(APPLICATION_QUOTAS, KEY, {"spec": {"scopes": None}})
    await asyncio.sleep(10)
    scene.line.loses_answers = False
    await scene.calm()

    assert (await scene.read(RESOURCE_QUOTAS, NAME, "blue"))["spec"] == {"hard": {"services": "5"}}
