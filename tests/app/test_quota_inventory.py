"""Reading everything that quotas are about, once and in pages."""

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import ExpiredError, ForbiddenError
from bursar.app.cluster.reading.listing import ATTEMPTS_MAX, PAGE_SIZE
from bursar.app.quota.kinds import CLUSTER_QUOTAS
from bursar.app.quota.kinds import QUOTAS as KINDS
from bursar.app.quota.views.inventory import inventory_of_bodies, read_inventory
from bursar.core.quota.quota import QUOTA_KINDS
from support.builders.manifests import (
    AAQ_VERSION,
    ACRQ,
    DEFINITIONS,
    a_manifest,
    arq_manifest,
    namespace_manifest,
    pod_manifest,
)
from support.cluster.scripted_cluster import seeded
from support.faults.line import ScriptedLists

NATIVE = a_manifest("v1", "ResourceQuota", "a/native", spec={"hard": {"pods": "1"}})
QUOTAS = [
    NATIVE,
    arq_manifest("a/own", {"requests.cpu": "1"}),
    a_manifest(
        AAQ_VERSION,
        ACRQ,
        "all",
        spec={"quota": {"hard": {"pods": "9"}}, "selector": {"labels": {"matchLabels": {}}}},
    ),
]
PLAIN = [
    *map(namespace_manifest, "ab"),
    pod_manifest("a/one"),
    pod_manifest("b/two"),
]


async def a_cluster(*manifests):
    cluster = MemoryCluster(SYSTEM_CLOCK, source=seeded(1))
    await load_manifests(cluster, [*PLAIN, *manifests])
    return cluster


def names(rows):
    return sorted(f"{row.namespace}/{row.name}" for row in rows)


async def test_pods_namespaces_and_all_kinds_of_quotas_are_read():
    inventory = await read_inventory(await a_cluster(*DEFINITIONS, *QUOTAS))

    assert names(inventory.rows) == ["a/one", "b/two"]
    assert {"a", "b"} <= {each.name for each in inventory.namespaces}
    assert [each.quota.key.kind for each in inventory.quotas] == list(QUOTA_KINDS)
    assert inventory.problems == ()


async def test_where_aaqs_kinds_are_not_installed_there_are_none():
    inventory = await read_inventory(await a_cluster(NATIVE))

    assert [each.quota.key.name for each in inventory.quotas] == ["native"]


async def test_for_one_namespace_only_its_pods_are_read():
    inventory = await read_inventory(await a_cluster(NATIVE), namespace="a")

    assert names(inventory.rows) == ["a/one"]


async def test_for_one_namespace_its_labels_are_read_as_well():
    cluster = await a_cluster(NATIVE)

    known = await read_inventory(cluster, namespace="a")
    unknown = await read_inventory(cluster, namespace="nowhere")

    assert ([each.name for each in known.namespaces], known.undescribed) == (["a"], frozenset())
    assert unknown.undescribed == {"nowhere"}


async def test_what_a_command_has_read_is_an_inventory_as_well():
    cluster = await a_cluster(*DEFINITIONS, *QUOTAS)
    kinds = [PODS, NAMESPACES, *(KINDS[kind] for kind in QUOTA_KINDS)]
    bodies = {kind: (await cluster.list(kind)).items for kind in kinds}
    bodies[PODS] = [*bodies[PODS], b'{"metadata": {"name": "odd", "namespace": 1}}']

    inventory = inventory_of_bodies(bodies)

    assert names(inventory.rows) == ["a/one", "b/two"]
    assert {"a", "b"} <= {each.name for each in inventory.namespaces}
    assert [each.quota.key.kind for each in inventory.quotas] == list(QUOTA_KINDS)
    assert len(inventory.problems) == 1
    assert inventory.problems[0].startswith("left out: pods ")


async def test_a_cluster_wide_quota_needs_all_pods_whatever_the_namespace():
    cluster = await a_cluster(*DEFINITIONS, *QUOTAS)
    inventory = await read_inventory(cluster, namespace="a")

    assert names(inventory.rows) == ["a/one", "b/two"]


async def test_whoever_may_not_see_cluster_wide_quotas_is_told_so():
    cluster = await a_cluster(*DEFINITIONS, *QUOTAS)
    refused = [ForbiddenError("you may not"), ForbiddenError("you may not")]
    reader = ScriptedLists(cluster, **{CLUSTER_QUOTAS.plural: refused})
    inventory = await read_inventory(reader, namespace="a")

    assert names(inventory.rows) == ["a/one"]
    assert inventory.problems == ("left out: cluster-wide quotas: you may not",)
    with pytest.raises(ForbiddenError):
        await read_inventory(reader)


async def test_a_list_that_took_too_long_is_begun_again_but_not_for_ever():
    cluster = await a_cluster()
    expired = [ExpiredError("too old") for _ in range(ATTEMPTS_MAX - 1)]

    inventory = await read_inventory(ScriptedLists(cluster, pods=[*expired]))

    assert names(inventory.rows) == ["a/one", "b/two"]
    with pytest.raises(ExpiredError):
        await read_inventory(ScriptedLists(cluster, pods=[*expired, ExpiredError("too old")]))


async def test_pages_are_put_together_and_told_about():
    cluster = await a_cluster(*(pod_manifest(f"a/p{number:04}") for number in range(PAGE_SIZE)))
    told = []
    inventory = await read_inventory(cluster, progress=lambda *progress: told.append(progress))

    assert len(inventory.rows) == PAGE_SIZE + 2
    assert [count for kind, count in told if kind == "pods"] == [PAGE_SIZE, PAGE_SIZE + 2]


async def test_an_object_that_cannot_be_read_is_left_out_by_name():
    unreadable = {
        "metadata": {"name": "odd", "namespace": "a", "uid": "u", "resourceVersion": "1"},
        "spec": {"priority": "secret"},
    }

    lists = {"pods": [unreadable, []]}
    inventory = await read_inventory(ScriptedLists(await a_cluster(), lists))
    odd, nameless = inventory.problems

    assert inventory.rows == []
    assert odd.startswith("left out: pods a/odd: ")
    assert "secret" not in odd
    assert nameless.startswith("left out: pods (without a name): ")


async def test_a_quota_that_cannot_be_read_is_kept_and_told_about():
    body = arq_manifest("a/odd", {"pods": "many"})
    inventory = await read_inventory(await a_cluster(*DEFINITIONS, body))
    (told,) = inventory.problems

    assert "pods that it may cover wait: ApplicationAwareResourceQuota a/odd: spec.hard" in told
    assert [each.quota.problem for each in inventory.quotas if each.quota.problem] != []
