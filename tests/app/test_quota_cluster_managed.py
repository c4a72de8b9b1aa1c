"""Managed ClusterResourceQuotas: kept where the cluster has OpenShift's kind, and only there."""

import asyncio

import pytest

from bursar.app.cluster.kinds import CRDS
from bursar.app.cluster.ports import Key
from bursar.app.quota.kinds import (
    APPLIED_CLUSTER_QUOTAS,
    CLUSTER_QUOTAS,
    CLUSTER_RESOURCE_QUOTAS,
)
from bursar.app.quota.managed.writer import Action, action_for
from bursar.core.counting.kind_state import KindState
from bursar.core.model.selectors.selector import LabelSelector, selector_of
from bursar.core.quota.quota import (
    NamespaceSelector,
    Quota,
    QuotaKey,
    QuotaKind,
    QuotaObject,
)
from bursar.core.quota.scopes import ScopeRule
from support.builders.pods import parsed
from support.quota.books_of_a_cluster import on_scene
from support.quota.openshift import DEFINITION, NAME

MANAGED = "wide-non-schedulable-resources-managed-crq-x"
WIDE = Key("", "wide")
PROBE_SECONDS = 20
NOT_DELEGATED = (
    "ApplicationAwareClusterResourceQuota without clusterResourceQuota support, operator cannot "
    "handle non scheduable resources :[services]"
)

# ------------------------------------------------------------------ deciding

SEA = NamespaceSelector(labels=selector_of(LabelSelector(match_labels={"team": "sea"})))
AIR = NamespaceSelector(labels=selector_of(LabelSelector(match_labels={"team": "air"})))


def wide(hard: str, kind=QuotaKind.CLUSTER, **fields) -> QuotaObject:
    name = "wide" if kind is QuotaKind.CLUSTER else MANAGED
    quota = {"selector": SEA, "uid": "u"}
    quota |= {
        each: fields.pop(each) for each in ("scopes", "selector", "problem") if each in fields
    }
    made = Quota(key=QuotaKey(kind, "", name), hard=parsed(hard), **quota)
    return QuotaObject(quota=made, **fields)


def managed(hard: str, **fields) -> QuotaObject:
    fields = {"labels": {"aaq.kubevirt.io": "true"}, "owner_uid": "u", **fields}
    return wide(hard, QuotaKind.OPENSHIFT, **fields)


CASES = {
    "quota absent": (None, managed("services=5"), Action.DELETE),
    "nothing to leave to it": (wide("pods=5"), managed("services=5"), Action.DELETE),
    "missing": (wide("pods=5 services=5"), None, Action.CREATE),
    "right": (wide("pods=5 services=5"), managed("services=5"), Action.NONE),
    "other limit": (wide("services=5"), managed("services=2"), Action.UPDATE),
    "other selector": (wide("services=5"), managed("services=5", selector=AIR), Action.UPDATE),
    "other scopes": (
        wide("count/pods=5", scopes=(ScopeRule("BestEffort", "Exists"),)),
        managed("count/pods=5"),
        Action.UPDATE,
    ),
    "unreadable": (wide("services=5"), managed("services=5", problem="no"), Action.UPDATE),
    "label lost": (wide("services=5"), managed("services=5", labels={}), Action.UPDATE),
    "owner unreadable": (wide("services=5", problem="no"), managed("services=2"), Action.NONE),
    "made by a person": (None, managed("services=5", labels={}, owner_uid=""), Action.NONE),
}


@pytest.mark.parametrize(("quota", "found", "wanted"), CASES.values(), ids=CASES)
def test_no_more_is_done_than_is_necessary(quota, found, wanted):
    assert action_for(quota, found) is wanted


# ------------------------------------------------------------------ on a cluster


async def install_openshift(scene):
    await scene.cluster.create(CRDS, DEFINITION)
    await asyncio.sleep(PROBE_SECONDS)
    assert scene.cluster_managed.state is KindState.SYNCED


async def found(scene):
    return await scene.read(CLUSTER_RESOURCE_QUOTAS, MANAGED)


async def count(scene, hard, used, *, namespaces=()):
    """What OpenShift's controller writes."""
    parts = [
        {"namespace": name, "status": {"hard": hard, "used": each}} for name, each in namespaces
    ]
    status = {"total": {"hard": hard, "used": used}, "namespaces": parts}
    key = Key("", MANAGED)
    await scene.change(CLUSTER_RESOURCE_QUOTAS, key, {"status": status}, subresource="status")
    await scene.calm()


def ready(status):
    return next(each for each in status["conditions"] if each["type"] == "Ready")


@on_scene
async def test_what_pods_cannot_wait_for_is_left_to_openshift(scene):
    await install_openshift(scene)
    await scene.cluster_quota({"pods": "3", "services": "5", "requests.storage": "1Gi"}, team="sea")
    await scene.calm()
    quota, made = await scene.read(CLUSTER_QUOTAS, "wide"), await found(scene)

    assert made["spec"] == {
        "quota": {"hard": {"services": "5", "requests.storage": "1Gi"}},
        "selector": quota["spec"]["selector"],
    }
    assert made["metadata"]["labels"] == {"aaq.kubevirt.io": "true"}
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "aaq.kubevirt.io/v1alpha1",
            "kind": "ApplicationAwareClusterResourceQuota",
            "name": "wide",
            "uid": quota["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert scene.writes_to(CLUSTER_RESOURCE_QUOTAS) == ["create"]


@on_scene
async def test_quota_is_ready_only_when_openshift_enforces_its_limits(scene):
    await install_openshift(scene)
    await scene.cluster_quota({"pods": "3", "services": "5"}, team="sea")
    await scene.calm()
    before = ready(await scene.cluster_status())
    copied_before = ready((await scene.read(APPLIED_CLUSTER_QUOTAS, "wide", "blue"))["status"])
    await count(scene, {"services": "5"}, {"services": "0"})
    after = ready(await scene.cluster_status())
    copied_after = ready((await scene.read(APPLIED_CLUSTER_QUOTAS, "wide", "blue"))["status"])

    assert before["reason"] == copied_before["reason"] == "NotEnforced"
    assert (copied_after["status"], copied_after["reason"]) == ("True", "LimitsInForce")
    assert before["message"] == (
        f"not in force yet, because ClusterResourceQuota {MANAGED} is not: services"
    )
    assert (after["status"], after["reason"]) == ("True", "LimitsInForce")


@on_scene
async def test_use_that_openshift_counts_is_in_the_status_and_in_the_copies(scene):
    await install_openshift(scene)
    await scene.namespace("green", team="sea")
    await scene.cluster_quota({"pods": "3", "services": "5"}, team="sea")
    await scene.calm()
    parts = [("blue", {"services": "1"}), ("green", {"services": "3"})]
    await count(scene, {"services": "5"}, {"services": "4"}, namespaces=parts)
    status = await scene.cluster_status()
    copy = (await scene.read(APPLIED_CLUSTER_QUOTAS, "wide", "green"))["status"]

    used = {each["namespace"]: each["status"]["used"] for each in status["namespaces"]}
    assert status["total"]["used"] == {"pods": "0", "services": "4"}
    assert used == {
        "blue": {"pods": "0", "services": "1"},
        "green": {"pods": "0", "services": "3"},
    }
    assert copy["total"]["used"] == {"pods": "0", "services": "4"}
    assert [each["namespace"] for each in copy["namespaces"]] == ["green"]
    assert copy["namespaces"][0]["status"]["used"] == {"pods": "0", "services": "3"}


@on_scene
async def test_it_follows_limits_and_selector_until_nothing_is_left_to_it(scene):
    await install_openshift(scene)
    await scene.cluster_quota({"pods": "3", "services": "10"}, team="sea")
    await scene.calm()
    first = await found(scene)
    changed = {
        "quota": {"hard": {"services": "15"}, "scopes": []},
        "selector": {"labels": {"matchLabels": {"team": "air"}}, "annotations": {"a": "b"}},
    }
    await scene.change(CLUSTER_QUOTAS, WIDE, {"spec": changed})
    await scene.calm()
    second = await found(scene)

    assert second["spec"]["quota"] == {"hard": {"services": "15"}}
    assert second["spec"]["selector"] == changed["selector"]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    await scene.change(CLUSTER_QUOTAS, WIDE, {"spec": {"quota": {"hard": {"services": None}}}})
    await scene.calm()
    assert await scene.names(CLUSTER_RESOURCE_QUOTAS) == []
    assert scene.writes_to(CLUSTER_RESOURCE_QUOTAS) == ["create", "patch", "delete"]


@pytest.mark.parametrize(
    "edit",
    [
        {"metadata": {"labels": {"aaq.kubevirt.io": None}}},
        {"metadata": {"ownerReferences": None}},
        {"spec": {"quota": {"hard": {"services": "9", "secrets": "2"}}}},
        {"spec": {"quota": {"hard": {"services": "many"}}}},
        {"spec": {"quota": {"scopes": ["BestEffort"]}}},
        {"spec": {"selector": {"labels": {"matchLabels": {"team": "air"}}}}},
    ],
    ids=["label", "owner", "limits", "unreadable", "scopes", "selector"],
)
@on_scene
async def test_edits_by_hand_are_put_right(scene, edit):
    await install_openshift(scene)
    await scene.cluster_quota({"services": "5"}, team="sea")
    await scene.calm()
    right = await found(scene)
    await scene.change(CLUSTER_RESOURCE_QUOTAS, Key("", MANAGED), edit)
    await scene.calm()
    now = await found(scene)

    for each in (right, now):
        del each["metadata"]["resourceVersion"]
        each["metadata"].pop("generation", None)
    assert now == right


@on_scene
async def test_one_that_was_deleted_by_hand_is_made_again(scene):
    await install_openshift(scene)
    await scene.cluster_quota({"services": "5"}, team="sea")
    await scene.calm()
    await scene.cluster.delete(CLUSTER_RESOURCE_QUOTAS, Key("", MANAGED))
    await scene.calm()

    assert await scene.names(CLUSTER_RESOURCE_QUOTAS) == [f"/{MANAGED}"]


@on_scene
async def test_cluster_resource_quotas_of_people_are_left_alone(scene):
    await install_openshift(scene)
    body = {
        "apiVersion": CLUSTER_RESOURCE_QUOTAS.api_version,
        "kind": CLUSTER_RESOURCE_QUOTAS.kind,
        "metadata": {"name": "mine"},
        "spec": {"quota": {"hard": {"pods": "1"}}, "selector": {}},
    }
    await scene.cluster.create(CLUSTER_RESOURCE_QUOTAS, body)
    await scene.calm()

    assert scene.line.writes == []


# ------------------------------------------------------------------ the kind comes and goes


@on_scene
async def test_without_openshift_the_status_names_what_is_not_enforced(scene):
    await scene.cluster_quota({"pods": "3", "services": "5"}, team="sea")
    await scene.calm()
    condition = ready(await scene.cluster_status())

    assert (condition["status"], condition["reason"]) == ("False", "Invalid")
    assert condition["message"] == NOT_DELEGATED
    assert scene.writes_to(CLUSTER_RESOURCE_QUOTAS) == []


@on_scene
async def test_limits_are_left_to_the_kind_whenever_it_comes(scene):
    await scene.cluster_quota({"pods": "3", "services": "5"}, team="sea")
    await scene.calm()
    await install_openshift(scene)
    await scene.calm()
    await count(scene, {"services": "5"}, {"services": "2"})
    with_kind = await scene.cluster_status()
    await scene.cluster.delete(CRDS, Key("", NAME))
    await scene.calm(120)
    without = await scene.cluster_status()
    await scene.cluster.create(CRDS, DEFINITION)
    await scene.calm(120)

    assert with_kind["total"]["used"]["services"] == "2"
    assert without["total"]["used"]["services"] == "0"
    assert ready(without)["message"] == NOT_DELEGATED
    assert (await found(scene))["spec"]["quota"] == {"hard": {"services": "5"}}


@on_scene
async def test_nothing_is_written_before_all_of_the_kind_are_known(scene):
    await scene.cluster.create(CRDS, DEFINITION)
    await scene.cluster_quota({"services": "5"}, team="sea")
    scene.view.held.add(CLUSTER_RESOURCE_QUOTAS)
    await scene.calm()
    condition = ready(await scene.cluster_status())

    assert scene.writes_to(CLUSTER_RESOURCE_QUOTAS) == []
    assert condition["reason"] == "NotEnforced"
