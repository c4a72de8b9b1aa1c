"""Server-side apply: who manages which field."""

import json

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, PODS
from bursar.app.cluster.ports import (
    ConflictError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
)


class Appliers:
    def __init__(self, cluster, namespace):
        self.cluster, self.key = cluster, Key(namespace, "shared")

    async def apply(self, manager, data=None, *, force=False, is_dry_run=False, **metadata):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "shared", **metadata},
        }
        if data is not None:
            body["data"] = data
        patch = Patch(kind=PatchKind.APPLY, body=body, field_manager=manager, is_forced=force)
        return json.loads(
            await self.cluster.port.patch(CONFIG_MAPS, self.key, patch, is_dry_run=is_dry_run)
        )


@pytest.fixture
async def appliers(cluster) -> Appliers:
    return Appliers(cluster, await cluster.namespace())


def managers(body):
    return {
        entry["manager"]: entry["fieldsV1"]
        for entry in body["metadata"].get("managedFields", ())
        if entry["operation"] == "Apply"
    }


async def test_applying_creates(appliers):
    made = await appliers.apply("one", {"x": "1"}, labels={"l": "1"})

    assert made["data"] == {"x": "1"}
    assert managers(made) == {
        "one": {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    }


async def test_applying_the_same_again_changes_nothing(appliers):
    first = await appliers.apply("one", {"x": "1"})
    second = await appliers.apply("one", {"x": "1"})

    assert first == second


async def test_another_value_for_a_managed_field_is_a_conflict(appliers):
    await appliers.apply("one", {"x": "1"})

    with pytest.raises(ConflictError) as caught:
        await appliers.apply("two", {"x": "9"})
    message = 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert caught.value.message == message
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")


async def test_all_conflicts_are_named(appliers):
    await appliers.apply("one", {"x": "1"}, labels={"a.b/c": "1"})
    await appliers.apply("two", {"x": "1"}, labels={"d": "1"})

    with pytest.raises(ConflictError) as caught:
        await appliers.apply("three", {"x": "2"}, labels={"a.b/c": "3", "d": "4"})
    assert caught.value.message == (
        'Apply failed with 4 conflicts: conflicts with "one":\\n- .data.x\\n- '
        '.metadata.labels.a.b/c\\nconflicts with "two":\\n- .data.x\\n- .metadata.labels.d'
    )


async def test_force_takes_fields_over(appliers):
    await appliers.apply("one", {"x": "1", "y": "1"})
    after = await appliers.apply("two", {"x": "2"}, force=True)

    assert after["data"] == {"x": "2", "y": "1"}
    assert managers(after) == {"one": {"f:data": {"f:y": {}}}, "two": {"f:data": {"f:x": {}}}}


async def test_what_is_no_longer_stated_goes_unless_somebody_else_states_it(appliers):
    await appliers.apply("one", {"x": "1", "y": "2"}, labels={"l": "1"})
    await appliers.apply("two", {"x": "1"})
    after = await appliers.apply("one", {"z": "3"})

    assert after["data"] == {"x": "1", "z": "3"}
    assert "labels" not in after["metadata"]


async def test_finalizers_of_several_appliers_add_up(appliers):
    await appliers.apply("one", finalizers=["x.io/one"])
    both = await appliers.apply("two", finalizers=["x.io/two"])
    after = await appliers.apply("one")

    assert both["metadata"]["finalizers"] == ["x.io/one", "x.io/two"]
    assert after["metadata"]["finalizers"] == ["x.io/two"]


async def test_another_write_takes_a_field_from_its_applier(cluster, appliers):
    await appliers.apply("one", {"x": "1", "y": "1"})
    patch = Patch(kind=PatchKind.MERGE, body={"data": {"x": "2"}})
    after = json.loads(await cluster.port.patch(CONFIG_MAPS, appliers.key, patch))

    assert managers(after) == {"one": {"f:data": {"f:y": {}}}}


async def test_an_applied_revision_must_be_current(appliers):
    await appliers.apply("one", {"x": "1"})

    with pytest.raises(ConflictError, match="the object has been modified"):
        await appliers.apply("one", {"x": "2"}, resourceVersion="1")


async def test_a_dry_run_applies_nothing(cluster, appliers):
    await appliers.apply("one", {"x": "1"}, is_dry_run=True)

    assert await cluster.is_gone(CONFIG_MAPS, appliers.key)


async def test_an_applier_has_a_name(appliers):
    with pytest.raises(InvalidError) as caught:
        await appliers.apply("", {"x": "1"})
    assert caught.value.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
        "apply patch"
    )


async def test_an_applied_object_names_itself(cluster, appliers):
    whole = {"apiVersion": "v1", "kind": "ConfigMap"}
    for body, message in (
        ({**whole, "metadata": {"name": "other"}}, "the name of the object (other) does not match"),
        (whole, "the name of the object (shared based on URL) was undeterminable"),
        ({"metadata": {"name": "shared"}}, "invalid object type"),
        (
            {**whole, "metadata": {"name": "shared", "managedFields": [{"manager": "x"}]}},
            "metadata.managedFields must be nil",
        ),
    ):
        patch = Patch(kind=PatchKind.APPLY, body=body, field_manager="one")
        with pytest.raises(InvalidError) as caught:
            await cluster.port.patch(CONFIG_MAPS, appliers.key, patch)
        assert caught.value.message.startswith(message)
        assert caught.value.code == 400


async def test_items_of_a_keyed_list_are_managed_one_by_one(cluster):
    namespace = await cluster.namespace(for_pods=True)
    key = Key(namespace, "g")

    async def apply(manager, part, subresource="", **options):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "g"}, **part}
        patch = Patch(kind=PatchKind.APPLY, body=body, field_manager=manager, **options)
        return json.loads(await cluster.port.patch(PODS, key, patch, subresource=subresource))

    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "schedulingGates": [{"name": "x.io/a"}, {"name": "x.io/b"}],
    }
    made = await apply("one", {"spec": spec})
    item = {".": {}, "f:name": {}}
    assert managers(made)["one"]["f:spec"] == {
        "f:containers": {'k:{"name":"c"}': {**item, "f:image": {}}},
        "f:schedulingGates": {'k:{"name":"x.io/a"}': item, 'k:{"name":"x.io/b"}': item},
    }
    after = await apply("one", {"spec": {**spec, "schedulingGates": [{"name": "x.io/b"}]}})
    assert after["spec"]["schedulingGates"] == [{"name": "x.io/b"}]

    condition = {"type": "x.io/Ready", "status": "True"}
    after = await apply("two", {"status": {"conditions": [condition]}}, "status")
    assert [each["type"] for each in after["status"]["conditions"]] == [
        "PodScheduled",
        "x.io/Ready",
    ]
    condition = {"type": "x.io/Ready", "status": "False"}
    with pytest.raises(ConflictError) as caught:
        await apply("three", {"status": {"conditions": [condition]}}, "status")
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "two" with subresource "status": '
        '.status.conditions[type="x.io/Ready"].status'
    )


async def test_a_status_is_not_applied_to_what_is_not_there(cluster, appliers):
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "none"}, "status": {}}
    patch = Patch(kind=PatchKind.APPLY, body=body, field_manager="one")
    with pytest.raises(NotFoundError):
        await cluster.port.patch(
            PODS, Key(appliers.key.namespace, "none"), patch, subresource="status"
        )
