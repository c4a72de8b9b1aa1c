"""Reading everything that quotas are about, once and in pages."""

import json

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.crds import crd_documents
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.listing import ATTEMPTS_MAX, PAGE_SIZE
from bursar.app.cluster.ports import EVERYTHING, ExpiredError, ForbiddenError, Page
from bursar.app.quota.inventory import read_inventory
from bursar.app.quota.kinds import CLUSTER_QUOTAS
from bursar.core.quota.quota import QuotaKind
from support.scripted_cluster import seeded

AAQ = "aaq.kubevirt.io/v1alpha1"


def a_manifest(version, kind, name, namespace="", **fields):
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, **fields}


def a_pod(name, namespace):
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return a_manifest("v1", "Pod", name, namespace, spec=spec)


NATIVE = a_manifest("v1", "ResourceQuota", "native", "a", spec={"hard": {"pods": "1"}})
QUOTAS = [
    NATIVE,
    a_manifest(
        AAQ, "ApplicationAwareResourceQuota", "own", "a", spec={"hard": {"requests.cpu": "1"}}
    ),
    a_manifest(
        AAQ,
        "ApplicationAwareClusterResourceQuota",
        "all",
        spec={"quota": {"hard": {"pods": "9"}}, "selector": {"labels": {"matchLabels": {}}}},
    ),
]
PLAIN = [
    *(a_manifest("v1", "Namespace", name) for name in "ab"),
    a_pod("one", "a"),
    a_pod("two", "b"),
]


async def a_cluster(*manifests):
    cluster = MemoryCluster(SYSTEM_CLOCK, source=seeded(1))
    await load_manifests(cluster, [*PLAIN, *manifests])
    return cluster


class Reluctant:
    """A reader that first raises the errors it was given for a kind."""

    def __init__(self, cluster, **errors):
        self._cluster, self.errors = cluster, errors

    async def get(self, resource, key):
        return await self._cluster.get(resource, key)

    async def list(self, resource, query=EVERYTHING, *, limit=0, page=""):
        errors = self.errors.get(resource.plural)
        if errors:
            raise errors.pop()
        return await self._cluster.list(resource, query, limit=limit, page=page)


def names(rows):
    return sorted(f"{row.namespace}/{row.name}" for row in rows)


async def test_pods_namespaces_and_all_kinds_of_quotas_are_read():
    inventory = await read_inventory(await a_cluster(*crd_documents(), *QUOTAS))

    assert names(inventory.rows) == ["a/one", "b/two"]
    assert {"a", "b"} <= {each.name for each in inventory.namespaces}
    assert [each.quota.key.kind for each in inventory.quotas] == list(QuotaKind)
    assert inventory.problems == ()


async def test_where_aaqs_kinds_are_not_installed_there_are_none():
    inventory = await read_inventory(await a_cluster(NATIVE))

    assert [each.quota.key.name for each in inventory.quotas] == ["native"]


async def test_for_one_namespace_only_its_pods_are_read():
    inventory = await read_inventory(await a_cluster(NATIVE), namespace="a")

    assert names(inventory.rows) == ["a/one"]


async def test_a_cluster_wide_quota_needs_all_pods_whatever_the_namespace():
    cluster = await a_cluster(*crd_documents(), *QUOTAS)
    inventory = await read_inventory(cluster, namespace="a")

    assert names(inventory.rows) == ["a/one", "b/two"]


async def test_whoever_may_not_see_cluster_wide_quotas_is_told_so():
    cluster = await a_cluster(*crd_documents(), *QUOTAS)
    refused = [ForbiddenError("you may not"), ForbiddenError("you may not")]
    reader = Reluctant(cluster, **{CLUSTER_QUOTAS.plural: refused})
    inventory = await read_inventory(reader, namespace="a")

    assert names(inventory.rows) == ["a/one"]
    assert inventory.problems == ("left out: cluster-wide quotas: you may not",)
    with pytest.raises(ForbiddenError):
        await read_inventory(reader)


async def test_a_list_that_took_too_long_is_begun_again_but_not_for_ever():
    cluster = await a_cluster()
    expired = [ExpiredError("too old") for _ in range(ATTEMPTS_MAX - 1)]

    inventory = await read_inventory(Reluctant(cluster, pods=[*expired]))

    assert names(inventory.rows) == ["a/one", "b/two"]
    with pytest.raises(ExpiredError):
        await read_inventory(Reluctant(cluster, pods=[*expired, ExpiredError("too old")]))


async def test_pages_are_put_together_and_told_about():
    cluster = await a_cluster(*(a_pod(f"p{number:04}", "a") for number in range(PAGE_SIZE)))
    told = []
    inventory = await read_inventory(cluster, progress=lambda *progress: told.append(progress))

    assert len(inventory.rows) == PAGE_SIZE + 2
    assert [count for kind, count in told if kind == "pods"] == [PAGE_SIZE, PAGE_SIZE + 2]


async def test_an_object_that_cannot_be_read_is_left_out_by_name():
    unreadable = {
        "metadata": {"name": "odd", "namespace": "a", "uid": "u", "resourceVersion": "1"},
        "spec": {"priority": "secret"},
    }

    class OneOdd(Reluctant):
        async def list(self, resource, query=EVERYTHING, *, limit=0, page=""):
            if resource == PODS:
                items = [json.dumps(unreadable).encode(), b"[]"]
                return Page(items=items, resource_version="1")
            return await super().list(resource, query, limit=limit, page=page)

    inventory = await read_inventory(OneOdd(await a_cluster()))
    odd, nameless = inventory.problems

    assert inventory.rows == []
    assert odd.startswith("left out: pods a/odd: ")
    assert "secret" not in odd
    assert nameless.startswith("left out: pods (without a name): ")
