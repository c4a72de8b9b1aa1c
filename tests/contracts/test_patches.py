"""Changing objects: merge patches, JSON patches, revisions, and the status apart."""

import asyncio
import json

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, DEPLOYMENTS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import (
    ConflictError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
)

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Kept:
    """A ConfigMap of the test's own, and how to change it."""

    def __init__(self, cluster, namespace):
        self.cluster, self.key = cluster, Key(namespace, "kept")

    async def merge(self, body, **options):
        patch = Patch(kind=PatchKind.MERGE, body=body)
        return json.loads(await self.cluster.port.patch(CONFIG_MAPS, self.key, patch, **options))

    async def steps(self, *operations, **options):
        patch = Patch(kind=PatchKind.JSON, body=list(operations))
        return json.loads(await self.cluster.port.patch(CONFIG_MAPS, self.key, patch, **options))

    async def read(self):
        return await self.cluster.read(CONFIG_MAPS, self.key)


@pytest.fixture
async def kept(cluster) -> Kept:
    namespace = await cluster.namespace()
    body = {"metadata": {"name": "kept"}, "data": {"a": "1", "b": "2"}}
    await cluster.port.create(CONFIG_MAPS, body, namespace=namespace)
    return Kept(cluster, namespace)


async def test_a_merge_patch_sets_and_removes(kept):
    before = await kept.read()
    after = await kept.merge({"data": {"a": None, "c": "3"}, "metadata": {"labels": {"x": "y"}}})

    assert after["data"] == {"b": "2", "c": "3"}
    assert after["metadata"]["labels"] == {"x": "y"}
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert await kept.read() == after


async def test_a_patch_that_changes_nothing_has_no_revision(kept):
    before = await kept.read()
    merged = await kept.merge({"data": {"a": "1"}})
    stepped = await kept.steps({"op": "test", "path": "/data/a", "value": "1"})

    assert merged["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert stepped["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_an_old_revision_is_a_conflict(kept):
    old = (await kept.read())["metadata"]["resourceVersion"]
    await kept.merge({"metadata": {"resourceVersion": old}, "data": {"a": "2"}})

    for change in (
        kept.merge({"metadata": {"resourceVersion": old}, "data": {"a": "3"}}),
        kept.steps(
            {"op": "replace", "path": "/metadata/resourceVersion", "value": old},
            {"op": "add", "path": "/data/a", "value": "3"},
        ),
    ):
        with pytest.raises(ConflictError) as caught:
            await change
        message = f'Operation cannot be fulfilled on configmaps "kept": {MODIFIED}'
        assert caught.value.message == message
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert (await kept.read())["data"]["a"] == "2"


async def test_no_revision_means_the_current_one(kept):
    assert (await kept.merge({"metadata": {"resourceVersion": ""}, "data": {"a": "2"}}))["data"]
    after = await kept.merge({"metadata": {"resourceVersion": None}, "data": {"a": "3"}})
    assert after["data"]["a"] == "3"


async def test_a_revision_is_a_number(kept):
    with pytest.raises(UnavailableError, match='parsing "abc": invalid syntax'):
        await kept.merge({"metadata": {"resourceVersion": "abc"}, "data": {"a": "2"}})


async def test_of_concurrent_writers_with_a_revision_one_wins(kept):
    old = (await kept.read())["metadata"]["resourceVersion"]
    changes = [
        kept.merge({"metadata": {"resourceVersion": old}, "data": {"a": str(number)}})
        for number in range(10, 16)
    ]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)

    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 5


async def test_concurrent_writers_of_different_fields_all_win(kept):
    await asyncio.gather(*(kept.merge({"data": {f"k{number}": "x"}}) for number in range(8)))

    assert len((await kept.read())["data"]) == 10


async def test_the_server_keeps_its_own_metadata(kept):
    before = (await kept.read())["metadata"]
    for name, value in (
        ("uid", None),
        ("creationTimestamp", "2001-01-01T00:00:00Z"),
        ("creationTimestamp", None),
        ("generation", 9),
        ("selfLink", "x"),
    ):
        after = (await kept.merge({"metadata": {name: value}}))["metadata"]
        assert after["resourceVersion"] == before["resourceVersion"], name


async def test_a_uid_can_guard_a_change(kept):
    with pytest.raises(InvalidError) as caught:
        await kept.merge({"metadata": {"uid": "other"}, "data": {"a": "2"}})
    message = (
        'ConfigMap "kept" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )
    assert caught.value.message == message


async def test_an_object_cannot_be_renamed_or_moved(kept):
    with pytest.raises(InvalidError) as caught:
        await kept.merge({"metadata": {"name": "other"}})
    message = "the name of the object (other) does not match the name on the URL (kept)"
    assert caught.value.message == message
    with pytest.raises(InvalidError, match="namespace of the provided object does not match"):
        await kept.merge({"metadata": {"namespace": "other"}})
    with pytest.raises(InvalidError):
        await kept.merge({"kind": "Pod"})


async def test_a_json_patch_does_its_steps_in_order(kept):
    after = await kept.steps(
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/c", "value": "3"},
        {"op": "move", "from": "/data/c", "path": "/data/d"},
        {"op": "copy", "from": "/data/a", "path": "/data/e"},
        {"op": "remove", "path": "/data/b"},
        {"op": "replace", "path": "/data/new", "value": "n"},
    )

    assert after["data"] == {"a": "1", "d": "3", "e": "1", "new": "n"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "9"},
        {"op": "test", "path": "/data/none", "value": "9"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "remove", "path": "/data/none"},
        {"op": "replace", "path": "/none/none", "value": "x"},
        {"op": "add", "path": "/none/none", "value": "x"},
        {"op": "move", "from": "/data/none", "path": "/data/x"},
        {"op": "invent", "path": "/data/x"},
    ],
    ids=lambda operation: f"{operation['op']} {operation['path']}",
)
async def test_a_json_patch_that_does_not_apply_changes_nothing(kept, operation):
    before = await kept.read()
    with pytest.raises(ConflictError) as caught:
        await kept.steps({"op": "add", "path": "/data/z", "value": "z"}, operation)

    assert caught.value.message == "the patch does not apply to the object as it is now"
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert await kept.read() == before


async def test_an_absent_key_equals_null(kept):
    after = await kept.steps(
        {"op": "test", "path": "/data/none", "value": None},
        {"op": "add", "path": "/data/a", "value": "tested"},
    )

    assert after["data"]["a"] == "tested"


async def test_a_patch_must_have_the_right_shape(kept):
    for kind, body in ((PatchKind.MERGE, []), (PatchKind.JSON, {"op": "x"})):
        with pytest.raises(InvalidError):
            await kept.cluster.port.patch(CONFIG_MAPS, kept.key, Patch(kind=kind, body=body))


async def test_a_dry_run_changes_nothing(kept):
    before = await kept.read()
    after = await kept.merge({"data": {"a": "dry"}}, is_dry_run=True)

    assert after["data"]["a"] == "dry"
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert await kept.read() == before


async def test_only_what_is_there_can_be_patched(cluster):
    patch = Patch(kind=PatchKind.MERGE, body={"data": {}})
    with pytest.raises(NotFoundError) as caught:
        await cluster.port.patch(CONFIG_MAPS, Key("default", "none"), patch)
    assert caught.value.message == 'configmaps "none" not found'


async def test_a_kind_without_a_status_has_no_such_subresource(kept):
    with pytest.raises(NotFoundError) as caught:
        await kept.merge({"data": {"a": "2"}}, subresource="status")
    assert caught.value.message == "the server could not find the requested resource"


async def test_a_status_is_written_apart(cluster):
    namespace = await cluster.namespace()
    key = Key(namespace, "q")
    body = {"metadata": {"name": "q"}, "spec": {"scopes": ["BestEffort"]}, "status": {}}
    await cluster.port.create(RESOURCE_QUOTAS, body, namespace=namespace)
    change = {"spec": {"hard": {"pods": "5"}}, "status": {"hard": {"pods": "7"}}}
    patch = Patch(kind=PatchKind.MERGE, body=change)
    after = json.loads(await cluster.port.patch(RESOURCE_QUOTAS, key, patch, is_dry_run=True))

    assert after["spec"]["hard"] == {"pods": "5"}
    assert after.get("status", {}).get("hard") is None
    after = json.loads(await cluster.port.patch(RESOURCE_QUOTAS, key, patch, subresource="status"))
    assert "hard" not in after["spec"]
    assert after["status"]["hard"] == {"pods": "7"}


async def test_a_generation_counts_changes_of_the_spec(cluster):
    namespace = await cluster.namespace()
    key = Key(namespace, "d")
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {
        "replicas": 0,
        "paused": True,
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
    }
    body = {"metadata": {"name": "d"}, "spec": spec}
    made = json.loads(await cluster.port.create(DEPLOYMENTS, body, namespace=namespace))

    async def generation(change):
        patch = Patch(kind=PatchKind.MERGE, body=change)
        return json.loads(await cluster.port.patch(DEPLOYMENTS, key, patch))["metadata"][
            "generation"
        ]

    assert made["metadata"]["generation"] == 1
    assert await generation({"metadata": {"labels": {"x": "y"}}}) == 1
    assert await generation({"spec": {"minReadySeconds": 3}}) == 2
    assert await generation({"spec": {"minReadySeconds": 3}}) == 2
    # Of all kinds, a Deployment's annotations count as well.
    assert await generation({"metadata": {"annotations": {"x": "y"}}}) == 3
