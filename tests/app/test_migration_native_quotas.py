"""Import of ResourceQuotas and of OpenShift's ClusterResourceQuotas."""

import json
from random import Random

import pytest

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import (
    CRDS,
    MUTATING_BINDINGS,
    MUTATING_WEBHOOKS,
    RESOURCE_QUOTAS,
)
from bursar.app.cluster.ports import Key, NotFoundError, Patch, PatchKind
from bursar.app.migration.quota_import.native_quotas import Surroundings, imported
from bursar.app.migration.quota_import.run import (
    Import,
    Outcome,
    cluster_original,
    native_original,
    read_originals,
)
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS, CLUSTER_RESOURCE_QUOTAS
from bursar.core.quota.quota import QuotaKind
from bursar.wire.quota.objects import decode_quota
from support.builders.manifests import DEFINITIONS
from support.migration.aaq_objects import bursars_manifests

AROUND = Surroundings(home="aaq", gated={"team"})


def native(spec: dict, where: str = "team/q", **metadata) -> dict:
    namespace, _, name = where.partition("/")
    place = {"name": name, "namespace": namespace, "uid": "u", **metadata}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": place, "spec": spec}


def cluster_wide(spec: dict, name: str = "big") -> dict:
    return {
        "apiVersion": "quota.openshift.io/v1",
        "kind": "ClusterResourceQuota",
        "metadata": {"name": name, "uid": "u"},
        "spec": spec,
    }


def imported_native(*arguments, **metadata):
    body = json.dumps(native(*arguments, **metadata)).encode()
    return imported(native_original(body), AROUND)


def imported_cluster_wide(spec: dict):
    return imported(cluster_original(json.dumps(cluster_wide(spec, "big")).encode()), AROUND)


def test_a_resource_quota_keeps_name_limits_scopes_and_labels():
    spec = {
        "hard": {"pods": "5", "requests.cpu": "1500m", "services": "2"},
        "scopes": ["NotTerminating"],
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
                {"scopeName": "NotBestEffort", "operator": "Exists"},
            ]
        },
    }
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"}
    result = imported_native(spec, labels={"a": "b"}, annotations=applied)

    assert result.manifest == {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": "ApplicationAwareResourceQuota",
        "metadata": {
            "name": "q",
            "namespace": "team",
            "labels": {"a": "b"},
            "annotations": {"note": "x"},
        },
        "spec": spec,
    }
    assert result.is_replaceable
    assert result.notes[0].startswith("services: ")
    assert any("state nothing for requests.cpu" in note for note in result.notes)


def test_a_round_trip_means_the_same():
    spec = {"hard": {"pods": "5"}, "scopes": ["BestEffort"]}
    result = imported_native(spec)
    read = decode_quota(QuotaKind.NAMESPACED, json.dumps(result.manifest).encode()).quota
    original = result.original.quota

    assert (read.hard, read.scopes) == (original.hard, original.scopes)
    assert result.notes == ()


def test_a_cluster_wide_quota_keeps_its_selector_and_loses_what_no_gate_can_hold():
    selector = {"labels": {"matchLabels": {"t": "a"}}, "annotations": {"who": "b"}}
    spec = {"quota": {"hard": {"pods": "5", "secrets": "9"}}, "selector": selector}
    result = imported_cluster_wide(spec)

    assert result.manifest is not None
    assert result.manifest["spec"] == {"quota": {"hard": {"pods": "5"}}, "selector": selector}
    assert (result.left_out, result.is_replaceable) == (("secrets",), False)
    assert "secrets cannot be carried over" in result.notes[0]
    assert "Keep the original" in result.notes[0]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            lambda: imported_native(
                {"hard": {"services": "1"}}, "team/q-non-schedulable-resources-managed-rq-x"
            ),
            "belongs to a quota",
        ),
        (
            lambda: imported_native({"hard": {}}, labels={"aaq.kubevirt.io": ""}),
            "belongs to a quota",
        ),
        (lambda: imported_native({"hard": {"pods": "1"}}, "kube-system/q"), "kube-system"),
        (lambda: imported_native({"hard": {"pods": "1"}}, "aaq/q"), "namespace of Bursar"),
        (
            lambda: imported_cluster_wide({"quota": {"hard": {"pods": "1"}}, "selector": {}}),
            "selects no namespaces",
        ),
        (
            lambda: imported_cluster_wide({"quota": {"hard": {"pods": "x"}}, "selector": {}}),
            "cannot be read",
        ),
        (
            lambda: imported_cluster_wide(
                {"quota": {"hard": {"secrets": "1"}}, "selector": {"annotations": {"a": "b"}}}
            ),
            "cannot be carried over",
        ),
    ],
)
def test_quotas_that_are_not_imported_say_why(result, reason):
    found = result()

    assert found.manifest is None
    assert reason in found.notes[0]
    assert not found.is_replaceable


def test_a_namespace_that_is_not_gated_and_a_foreign_owner_are_noted():
    owner = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "t"}
    result = imported_native({"hard": {"pods": "1"}}, "other/q", ownerReferences=[owner])

    assert any("not gated" in note for note in result.notes)
    assert any("Tenant t owns the original" in note for note in result.notes)


# ------------------------------------------------------------------ on a cluster


async def a_cluster(*documents: dict) -> MemoryCluster:
    cluster = MemoryCluster(VirtualClock(), source=Random(1))  # noqa: S311 - a seed
    await load_manifests(cluster, DEFINITIONS)
    cluster.objects.kinds.add(Kind(resource=CLUSTER_RESOURCE_QUOTAS))
    for resource in (MUTATING_BINDINGS, MUTATING_WEBHOOKS):
        cluster.objects.kinds.add(Kind(resource=resource))
    label = {"application-aware-quota/enable-gating": ""}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": label}}
    gating = [each for each in bursars_manifests("policies") if each["kind"] == BINDING]
    await load_manifests(cluster, [team, *gating, *documents])
    return cluster


BINDING = "MutatingAdmissionPolicyBinding"


class Reporting:
    """A clock; while it sleeps, the controller says that quotas are in force, or are not."""

    def __init__(self, cluster: MemoryCluster, status: str) -> None:
        self._cluster, self._status, self._now = cluster, status, 0.0

    def now(self):
        raise AssertionError("only durations are measured")

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        condition = {
            "type": "Ready",
            "status": self._status,
            "reason": "NotGated",
            "message": "no pod is held",
            "observedGeneration": 1,
        }
        patch = Patch(kind=PatchKind.MERGE, body={"status": {"conditions": [condition]}})
        key = Key("team", "q")
        await self._cluster.patch(APPLICATION_QUOTAS, key, patch, subresource="status")


async def run(cluster: MemoryCluster, *, deletes: bool = False, status: str = "True"):
    found, around = await read_originals(cluster, "", "aaq")
    work = Import(cluster=cluster, clock=Reporting(cluster, status), deletes=deletes)
    return await work.run(imported(each, around) for each in found)


async def test_the_import_creates_quotas_and_leaves_the_originals():
    selector = {"labels": {"matchLabels": {"t": "a"}}}
    big = cluster_wide({"quota": {"hard": {"pods": "5"}}, "selector": selector})
    cluster = await a_cluster(native({"hard": {"pods": "5"}}), big)
    results = await run(cluster)

    assert [each.outcome for each in results] == [Outcome.CREATED, Outcome.CREATED]
    assert [each.quota.notes for each in results] == [(), ()]
    assert await cluster.get(APPLICATION_QUOTAS, Key("team", "q"))
    assert await cluster.get(CLUSTER_QUOTAS, Key("", "big"))
    assert await cluster.get(RESOURCE_QUOTAS, Key("team", "q"))
    again = await run(cluster)
    assert [each.outcome for each in again] == [Outcome.EXISTS, Outcome.EXISTS]


async def test_a_quota_of_the_same_name_with_other_limits_is_left_as_it_is():
    cluster = await a_cluster(native({"hard": {"pods": "5"}}))
    await run(cluster)
    patch = Patch(kind=PatchKind.MERGE, body={"spec": {"hard": {"pods": "9"}}})
    await cluster.patch(APPLICATION_QUOTAS, Key("team", "q"), patch)
    (result,) = await run(cluster, deletes=True)

    assert result.outcome is Outcome.DIFFERS
    assert "has other limits" in result.problem
    assert await cluster.get(RESOURCE_QUOTAS, Key("team", "q"))


async def test_an_original_is_deleted_when_the_new_quota_is_in_force():
    cluster = await a_cluster(native({"hard": {"pods": "5"}}))
    (result,) = await run(cluster, deletes=True)

    assert (result.outcome, result.is_original_deleted) == (Outcome.CREATED, True)
    with pytest.raises(NotFoundError):
        await cluster.get(RESOURCE_QUOTAS, Key("team", "q"))


async def test_an_original_is_kept_while_the_new_quota_is_not_in_force():
    cluster = await a_cluster(native({"hard": {"pods": "5"}}))
    (result,) = await run(cluster, deletes=True, status="False")

    assert not result.is_original_deleted
    assert result.why_kept == "the new quota is not in force: no pod is held"
    assert await cluster.get(RESOURCE_QUOTAS, Key("team", "q"))


async def test_an_original_that_limits_more_is_kept():
    selector = {"labels": {"matchLabels": {"t": "a"}}}
    hard = {"pods": "5", "secrets": "1"}
    cluster = await a_cluster(cluster_wide({"quota": {"hard": hard}, "selector": selector}))
    (result,) = await run(cluster, deletes=True)

    assert result.why_kept == "only it can limit secrets"
    assert await cluster.get(CLUSTER_RESOURCE_QUOTAS, Key("", "big"))


async def test_a_quota_that_is_not_imported_is_skipped_and_a_refusal_is_reported():
    cluster = await a_cluster(
        native({"hard": {"pods": "5"}}, "kube-system/q"), native({"hard": {"pods": "5"}}, "gone/q")
    )
    found, around = await read_originals(cluster, "", "aaq")
    (skipped,) = [each for each in found if each.metadata.namespace == "kube-system"]
    (other,) = [each for each in found if each.metadata.namespace == "gone"]
    definition = "applicationawareresourcequotas.aaq.kubevirt.io"
    await cluster.delete(CRDS, Key("", definition))
    work = Import(cluster=cluster, clock=Reporting(cluster, "True"))
    results = await work.run([imported(skipped, around), imported(other, around)])

    assert [each.outcome for each in results] == [Outcome.SKIPPED, Outcome.FAILED]
    assert around.gated == {"team"}


async def test_without_a_gate_it_is_not_known_where_pods_wait_and_openshifts_kind_may_be_missing():
    cluster = MemoryCluster(VirtualClock(), source=Random(1))  # noqa: S311 - a seed
    await load_manifests(cluster, [native({"hard": {"pods": "5"}})])
    found, around = await read_originals(cluster, "team", "aaq")

    assert [str(each) for each in found] == ["ResourceQuota team/q"]
    assert around.gated is None
    found, _ = await read_originals(cluster, "", "aaq")
    assert len(found) == 1
