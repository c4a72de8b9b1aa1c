"""What only the embedded cluster has: admission, saving, manifests, sameness of runs."""

import asyncio
import json
import os
import random
import re
import stat

import pytest

from bursar.adapters.memory.admission import Admitted, Operation, Refused
from bursar.adapters.memory.manifests import UnknownKindError, load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.snapshot_file import SavedStateError, load, save
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import BINDINGS, CONFIG_MAPS, NAMESPACES, NODES, PODS, SECRETS
from bursar.app.cluster.ports import (
    ClusterError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Resource,
)

KEY = Key("default", "a")


def a_cluster(**options):
    return MemoryCluster(VirtualClock(), source=random.Random(1), **options)  # noqa: S311


def config_map(name="a", **fields):
    return {"metadata": {"name": name}, **fields}


def merge(body):
    return Patch(kind=PatchKind.MERGE, body=body)


async def read(cluster, resource=CONFIG_MAPS, key=KEY):
    return json.loads(await cluster.get(resource, key))


# ------------------------------------------------------------------ admission


async def test_those_who_may_change_an_object_come_first_and_in_order():
    calls = []

    def marking(name):
        async def mark(request):
            calls.append((name, request.operation, "uid" in request.new["metadata"]))
            data = {**(request.new.get("data") or {}), name: str(len(calls))}
            return Admitted(body={**request.new, "data": data})

        return mark

    async def check(request):
        calls.append(("check", request.operation, "uid" in request.new["metadata"]))
        assert sorted(request.new["data"]) == ["one", "two"]
        return Admitted()

    cluster = a_cluster(mutating=[marking("one"), marking("two")], validating=[check])
    made = json.loads(await cluster.create(CONFIG_MAPS, config_map(), namespace="default"))

    create = Operation.CREATE
    assert calls == [("one", create, False), ("two", create, False), ("check", create, True)]
    assert made["data"] == {"one": "1", "two": "2"}


@pytest.mark.parametrize("chain", ["mutating", "validating"])
async def test_a_refusal_stops_a_write(chain):
    async def refuse(request):
        return Refused(message=f"no {request.operation.value}")

    async def allow(_request):
        return Admitted()

    cluster = a_cluster(**{chain: [allow, refuse]})
    with pytest.raises(ForbiddenError) as caught:
        await cluster.create(CONFIG_MAPS, config_map(), namespace="default")

    assert (caught.value.message, caught.value.code) == ("no CREATE", 403)
    with pytest.raises(NotFoundError):
        await cluster.get(CONFIG_MAPS, KEY)


async def test_updates_and_deletions_are_asked_about_too():
    seen = []

    async def watch(request):
        seen.append((request.operation, request.old is None, request.new is None))
        if request.operation is Operation.DELETE:
            return Refused(message="kept", code=422, reason="Invalid")
        if request.old and request.old.get("data") == {"x": "1"}:
            return Refused(message="busy", code=429, reason="TooManyRequests")
        return Admitted()

    cluster = a_cluster(validating=[watch])
    await cluster.create(CONFIG_MAPS, config_map(), namespace="default")
    await cluster.patch(CONFIG_MAPS, KEY, merge({"data": {"x": "1"}}))
    with pytest.raises(ClusterError) as caught:
        await cluster.patch(CONFIG_MAPS, KEY, merge({"data": {"x": "2"}}))
    assert caught.value.code == 429
    with pytest.raises(InvalidError, match="kept"):
        await cluster.delete(CONFIG_MAPS, KEY)
    assert seen[0] == (Operation.CREATE, True, False)
    assert seen[-1] == (Operation.DELETE, False, True)
    assert await read(cluster)


async def test_a_dry_run_is_told_to_admission():
    told = []

    async def tell(request):
        told.append(request.is_dry_run)
        return Admitted()

    cluster = a_cluster(validating=[tell])
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map()}
    applied = Patch(kind=PatchKind.APPLY, body=body, field_manager="m")
    await cluster.patch(CONFIG_MAPS, KEY, applied, is_dry_run=True)
    await cluster.patch(CONFIG_MAPS, KEY, applied)

    assert told == [True, False]


async def test_a_write_during_admission_is_not_lost():
    """The slow patch is made again on what the quick one left, as the API server does."""
    gate = asyncio.Event()

    async def slow(request):
        if (request.new.get("data") or {}).get("slow"):
            await gate.wait()
        return Admitted()

    cluster = a_cluster(mutating=[slow])
    await cluster.create(CONFIG_MAPS, config_map(), namespace="default")
    revision = (await read(cluster))["metadata"]["resourceVersion"]
    waiting = asyncio.ensure_future(cluster.patch(CONFIG_MAPS, KEY, merge({"data": {"slow": "1"}})))
    guarded = {"metadata": {"resourceVersion": revision}, "data": {"slow": "2"}}
    conflicting = asyncio.ensure_future(cluster.patch(CONFIG_MAPS, KEY, merge(guarded)))
    await asyncio.sleep(0)
    await cluster.patch(CONFIG_MAPS, KEY, merge({"data": {"quick": "1"}}))
    gate.set()
    await waiting

    assert (await read(cluster))["data"] == {"slow": "1", "quick": "1"}
    with pytest.raises(ConflictError):
        await conflicting


# ------------------------------------------------------------------ saving


async def test_a_saved_cluster_comes_back_the_same(tmp_path):
    cluster = a_cluster()
    await load_manifests(cluster, MANIFESTS)
    path = tmp_path / "state.jsonl"
    save(cluster, path)
    other = a_cluster()
    before = other.revision
    load(other, path)

    assert before != other.revision == cluster.revision
    for kind in cluster.objects.kinds:
        mine, theirs = await cluster.list(kind.resource), await other.list(kind.resource)
        assert [json.loads(each) for each in mine.items] == [json.loads(e) for e in theirs.items]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = tmp_path / "again.jsonl"
    save(other, again)
    assert again.read_bytes() == path.read_bytes()


async def test_after_loading_the_past_is_expired_and_owners_still_own(tmp_path):
    cluster = a_cluster()
    made = json.loads(await cluster.create(CONFIG_MAPS, config_map(), namespace="default"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": made["metadata"]["uid"]}
    owned = {"metadata": {"name": "b", "ownerReferences": [owner]}}
    await cluster.create(CONFIG_MAPS, owned, namespace="default")
    save(cluster, tmp_path / "state")
    stream = cluster.watch(CONFIG_MAPS, resource_version=cluster.revision)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    load(cluster, tmp_path / "state")

    with pytest.raises(StopAsyncIteration):
        await waiting
    with pytest.raises(ExpiredError):
        await anext(cluster.watch(CONFIG_MAPS, resource_version="1"))
    await cluster.delete(CONFIG_MAPS, KEY)
    assert (await cluster.list(CONFIG_MAPS)).items == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not a saved cluster"),
        ("hello\n", "not a saved cluster"),
        ('{"format":"other","version":1,"revision":1}\n', "not a saved cluster"),
        (
            '{"format":"bursar-cluster","version":2,"revision":1}\n',
            "saved in format 2, and only format 1 is known",
        ),
        ('{"format":"bursar-cluster","version":1,"revision":1}\n{}\n', ":2: not a saved object"),
        (
            (
                '{"format":"bursar-cluster","version":1,"revision":1}\n{"resource":"things.x","object":'
                '{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}}\n'
            ),
            "unknown resource 'things.x'",
        ),
    ],
)
async def test_a_file_that_is_no_saved_cluster_changes_nothing(tmp_path, content, problem):
    cluster = a_cluster()
    await cluster.create(CONFIG_MAPS, config_map(), namespace="default")
    path = tmp_path / "state"
    path.write_text(content)

    with pytest.raises(SavedStateError, match=problem):
        load(cluster, path)
    assert await read(cluster)


@pytest.mark.parametrize(
    "metadata",
    [
        '{"name":"a","uid":"u"}',
        '{"name":"a","uid":"u","resourceVersion":"x"}',
        '{"name":"a","uid":"u","resourceVersion":7}',
        '{"name":"a","uid":"u","resourceVersion":"1","namespace":null}',
        '{"name":"a","uid":"u","resourceVersion":"1","ownerReferences":[{}]}',
        '{"name":"a","uid":"u","resourceVersion":"1","x":' + "[" * 9999 + "]" * 9999 + "}",
    ],
)
async def test_a_saved_object_that_no_cluster_can_hold_is_refused(tmp_path, metadata):
    path = tmp_path / "state"
    path.write_text(
        '{"format":"bursar-cluster","version":1,"revision":1}\n'
        '{"resource":"configmaps","object":{"metadata":' + metadata + "}}\n"
    )

    with pytest.raises(SavedStateError, match=":2: not a saved object"):
        load(a_cluster(), path)


async def test_a_file_edited_by_hand_is_taken_without_its_digest(tmp_path):
    cluster = a_cluster()
    await cluster.create(CONFIG_MAPS, config_map(data={"x": "1"}), namespace="default")
    path = tmp_path / "state"
    save(cluster, path)
    edited = path.read_text().replace('"x":"1"', '"x":"2"')
    path.write_text(edited)

    with pytest.raises(SavedStateError, match="damaged: the content differs from what was saved"):
        load(a_cluster(), path)

    path.write_text(re.sub(r',"digest":"\w+"', "", edited))
    load(cluster, path)
    assert (await read(cluster))["data"] == {"x": "2"}


async def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "state").mkdir()

    with pytest.raises(SavedStateError, match="state: is a directory"):
        save(a_cluster(), tmp_path / "state")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


async def test_saving_through_a_link_keeps_the_link(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "state")
    save(a_cluster(), link)

    assert link.is_symlink()
    assert (tmp_path / "state").is_file()


async def test_what_is_not_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SavedStateError, match="pipe: not a file"):
        load(a_cluster(), tmp_path / "pipe")
    with pytest.raises(SavedStateError, match="none: no such file or directory"):
        load(a_cluster(), tmp_path / "none")


# ------------------------------------------------------------------ manifests

RUNNING = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "11111111-1111-4111-8111-111111111111",
        "creationTimestamp": "2025-05-05T05:05:05Z",
        "resourceVersion": "777",
    },
    "spec": {
        "nodeName": "n1",
        "priority": 0,
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}],
    },
    "status": {"phase": "Running", "startTime": "2025-05-05T05:05:06Z"},
}
THING = {
    "apiVersion": "x.io/v1",
    "kind": "Thing",
    "metadata": {"name": "t", "namespace": "shop"},
    "spec": {"a": 1},
    "status": {"b": 2},
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
        ],
    },
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"capacity": {"cpu": "4"}},
}
MANIFESTS = [
    {"apiVersion": "v1", "kind": "List", "items": [RUNNING, THING]},
    DEFINITION,
    {"apiVersion": "v1", "kind": "NodeList", "items": [NODE]},
]


async def test_manifests_are_believed():
    cluster = a_cluster()
    count = await load_manifests(cluster, MANIFESTS)
    pod = await read(cluster, PODS, Key("shop", "web"))
    thing = await read(cluster, Resource("x.io", "v1", "things", "Thing"), Key("shop", "t"))
    node = await read(cluster, NODES, Key("", "n1"))

    assert count == 4
    assert pod["metadata"]["uid"].startswith("11111111")
    assert pod["metadata"]["creationTimestamp"] == "2025-05-05T05:05:05Z"
    assert pod["metadata"]["resourceVersion"] != "777"
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["qosClass"] == "Burstable"
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert thing["status"] == {"b": 2}
    assert node["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Frob", "apiVersion": "v1"}, 'object 2: .*knows no kind "Frob" in "v1"'),
        ({}, 'object 2: .*knows no kind "" in ""'),
        (["x"], "a document that is not an object"),
        ({"kind": "List", "items": [7]}, "a document that is not an object"),
    ],
)
async def test_unknown_kinds_are_refused_before_anything_is_created(document, message):
    cluster = a_cluster()
    before = cluster.revision

    with pytest.raises(UnknownKindError, match=message):
        await load_manifests(cluster, [NODE, document])
    assert cluster.revision == before


async def test_a_manifest_that_breaks_a_rule_is_refused_like_a_creation():
    cluster = a_cluster()
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}

    with pytest.raises(InvalidError, match="Required value"):
        await load_manifests(cluster, [bad])


# ------------------------------------------------------------------ the rest


async def test_the_same_seed_gives_the_same_objects():
    async def run():
        cluster = a_cluster()
        for _ in range(3):
            body = {"metadata": {"generateName": "x-"}}
            await cluster.create(CONFIG_MAPS, body, namespace="default")
        return (await cluster.list(CONFIG_MAPS)).items

    assert await run() == await run()


async def test_what_is_stored_does_not_change_with_what_was_given():
    cluster = a_cluster()
    body = config_map(data={"a": "1"})
    await cluster.create(CONFIG_MAPS, body, namespace="default")
    change = {"data": {"b": "2"}}
    await cluster.patch(CONFIG_MAPS, KEY, merge(change))
    body["data"]["a"] = "changed"
    change["data"]["b"] = "changed"

    assert (await read(cluster))["data"] == {"a": "1", "b": "2"}


async def test_a_secrets_plain_text_is_stored_encoded():
    cluster = a_cluster()
    body = {"metadata": {"name": "a"}, "stringData": {"k": "v"}}
    made = json.loads(await cluster.create(SECRETS, body, namespace="default"))

    assert made["data"] == {"k": "dg=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


async def test_removed_fields_and_nulls_are_the_same_to_built_in_kinds():
    cluster = a_cluster()
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "a.b/c"}]}
    await cluster.create(PODS, {"metadata": {"name": "a"}, "spec": spec}, namespace="default")
    operation = {"op": "replace", "path": "/spec/schedulingGates", "value": None}
    patch = Patch(kind=PatchKind.JSON, body=[operation])
    after = json.loads(await cluster.patch(PODS, KEY, patch))

    assert "schedulingGates" not in after["spec"]


async def test_a_large_namespace_is_emptied_in_one_go():
    cluster = a_cluster(history_max=100)
    await cluster.create(NAMESPACES, {"metadata": {"name": "big"}})
    for number in range(2000):
        await cluster.create(CONFIG_MAPS, config_map(f"m{number}"), namespace="big")
    before = int(cluster.revision)
    await cluster.delete(NAMESPACES, Key("", "big"))

    assert int(cluster.revision) - before == 2002
    with pytest.raises(NotFoundError):
        await cluster.get(NAMESPACES, Key("", "big"))


async def test_a_namespace_waits_for_its_pods():
    cluster = a_cluster()
    await cluster.create(NAMESPACES, {"metadata": {"name": "n"}})
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "x"}
    await cluster.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace="n")
    await cluster.delete(NAMESPACES, Key("", "n"))

    pod = await read(cluster, PODS, Key("n", "p"))
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    await cluster.delete(PODS, Key("n", "p"), grace_seconds=0)
    with pytest.raises(NotFoundError):
        await cluster.get(NAMESPACES, Key("", "n"))


async def test_a_binding_must_name_a_pod_and_a_node():
    for body in ({}, [], {"metadata": {"name": "p"}}):
        with pytest.raises(InvalidError, match="a binding names a pod and a target"):
            await a_cluster().create(BINDINGS, body, namespace="default")
