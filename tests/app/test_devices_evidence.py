"""Pods, inventories and ResourceClaims of a cluster, read once and in pages."""

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.ports import EVERYTHING, ExpiredError, ForbiddenError, NotFoundError
from bursar.app.cluster.reading.listing import ATTEMPTS_MAX, PAGE_SIZE
from bursar.app.devices.reports.evidence import read_evidence
from bursar.core.devices.source import KOORDINATOR
from support.builders.manifests import namespace_manifest, pod_manifest
from support.cluster.scripted_cluster import seeded
from support.faults.line import ScriptedLists

SOURCES = (KOORDINATOR,)
NO_INVENTORY = "no devices.scheduling.koordinator.sh in this cluster; ids are not checked"


def gpu_pod(name, namespace="a", node="n1"):
    annotations = {KOORDINATOR.annotation: '{"gpu": [{"minor": 0, "id": "GPU-1"}]}'}
    return pod_manifest(f"{namespace}/{name}", node=node, metadata={"annotations": annotations})


async def a_cluster(*manifests):
    cluster = MemoryCluster(SYSTEM_CLOCK, source=seeded(1))
    await load_manifests(cluster, [*map(namespace_manifest, "ab"), *manifests])
    return cluster


def names(evidence):
    return sorted(f"{pod.namespace}/{pod.name}" for pod in evidence.pods)


async def test_cluster_without_inventories_is_read_with_a_word_about_it():
    evidence = await read_evidence(await a_cluster(gpu_pod("one"), gpu_pod("two", "b")), SOURCES)

    assert names(evidence) == ["a/one", "b/two"]
    assert evidence.pods[0].claims[0].claims[0].device == "GPU-1"
    assert (evidence.inventories, list(evidence.dynamic)) == ({}, [])
    assert evidence.problems == (NO_INVENTORY,)


async def test_pods_of_one_node_are_asked_for_by_its_name():
    cluster = await a_cluster(gpu_pod("one"), gpu_pod("two", node="n2"))

    assert names(await read_evidence(cluster, SOURCES, node="n2")) == ["a/two"]


async def test_all_pages_are_read():
    cluster = await a_cluster(*(gpu_pod(f"pod-{number:04}") for number in range(PAGE_SIZE + 1)))

    assert len((await read_evidence(cluster, SOURCES)).pods) == PAGE_SIZE + 1


async def test_what_cannot_be_read_is_left_out_and_told():
    bad = {
        "metadata": {"name": "n2", "uid": "u", "resourceVersion": "1"},
        "spec": {"devices": "none"},
    }
    half = {"metadata": {"name": "n1"}, "spec": {"devices": [{"minor": 0}]}}
    reader = ScriptedLists(await a_cluster(), {"devices": [bad, half]})
    evidence = await read_evidence(reader, SOURCES)

    assert list(evidence.inventories) == ["n1"]
    assert [problem.split(": ")[0] for problem in evidence.problems] == [
        "left out",
        "devices.scheduling.koordinator.sh n1",
    ]
    assert "devices.scheduling.koordinator.sh n2" in evidence.problems[0]


async def test_kinds_that_may_not_be_seen_are_left_out():
    refusal = ForbiddenError("no")
    cluster = await a_cluster(gpu_pod("one"))
    reader = ScriptedLists(cluster, devices=[refusal], resourceclaims=[refusal])
    evidence = await read_evidence(reader, SOURCES)

    assert names(evidence) == ["a/one"]
    assert evidence.problems == (
        "left out: devices.scheduling.koordinator.sh: no",
        "left out: resourceclaims.resource.k8s.io: no",
    )


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_claims_are_read_in_the_newest_version_that_the_cluster_has(version):
    claim = {
        "metadata": {"name": "c", "namespace": "a"},
        "status": {
            "allocation": {"devices": {"results": [{"driver": "d", "pool": "p", "device": "0"}]}},
            "reservedFor": [{"resource": "pods", "name": "one", "uid": "u"}],
        },
    }
    asked = []

    class Older(ScriptedLists):
        async def list(self, resource, query=EVERYTHING, *, limit=0, page=""):
            if resource.plural == "resourceclaims":
                asked.append(resource.version)
                if resource.version != version:
                    raise NotFoundError("no such version")
            return await super().list(resource, query, limit=limit, page=page)

    evidence = await read_evidence(
        Older(await a_cluster(), {"resourceclaims": [claim], "devices": []}), SOURCES
    )

    assert [(each.pod, each.device) for each in evidence.dynamic] == [("one", "0")]
    assert asked == ["v1", "v1beta2", "v1beta1"][: len(asked)]
    assert (asked[-1], evidence.problems) == (version, ())


async def test_whoever_may_see_one_namespace_gets_its_pods_and_claims():
    refusal = ForbiddenError("no")
    cluster = await a_cluster(gpu_pod("one"), gpu_pod("two", "b"))
    reader = ScriptedLists(cluster, pods=[refusal], resourceclaims=[refusal])
    evidence = await read_evidence(reader, SOURCES, namespace="a")

    assert names(evidence) == ["a/one"]
    assert evidence.problems == (
        "pods of other namespaces may not be listed; conflicts with them are not found",
        NO_INVENTORY,
    )


async def test_pods_that_may_not_be_seen_at_all_are_an_error():
    reader = ScriptedLists(await a_cluster(), pods=[ForbiddenError("no")])

    with pytest.raises(ForbiddenError):
        await read_evidence(reader, SOURCES)


async def test_list_that_takes_too_long_is_begun_again_but_not_for_ever():
    cluster = await a_cluster(gpu_pod("one"))
    late = [ExpiredError("too old")] * (ATTEMPTS_MAX - 1)

    assert names(await read_evidence(ScriptedLists(cluster, pods=list(late)), SOURCES)) == ["a/one"]
    with pytest.raises(ExpiredError):
        await read_evidence(ScriptedLists(cluster, pods=[*late, ExpiredError("again")]), SOURCES)
