"""Kinds that definitions bring."""

import asyncio
import json
import uuid

import pytest

from bursar.app.cluster.kinds import CRDS
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ConflictError,
    EventKind,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    Resource,
)
from support.until import until

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(resource, *, has_status, spec=None):
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": spec or ANYTHING, "status": ANYTHING},
            }
        },
    }
    if has_status:
        version["subresources"] = {"status": {}}
    names = {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower()}
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


class Custom:
    """A kind of the test's own."""

    def __init__(self, cluster, namespace, resource):
        self.cluster, self.namespace, self.resource = cluster, namespace, resource
        self.key = Key(namespace, "t")
        self.definition = Key("", str(resource))

    async def create(self, name="t", **fields):
        body = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": name},
            **fields,
        }
        made = await self.cluster.port.create(self.resource, body, namespace=self.namespace)
        return json.loads(made)

    async def patch(self, body, subresource="", kind=PatchKind.MERGE, **options):
        patch = Patch(kind=kind, body=body, **options)
        return json.loads(
            await self.cluster.port.patch(self.resource, self.key, patch, subresource=subresource)
        )

    async def apply(self, manager, spec):
        body = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": "t"},
            "spec": spec,
        }
        return await self.patch(body, kind=PatchKind.APPLY, field_manager=manager)


async def defined(cluster, *, has_status=True, spec=None):
    group = f"g{uuid.uuid4().hex[:8]}.bursar.io"
    resource = Resource(group, "v1", "things", "Thing")
    await cluster.port.create(CRDS, definition(resource, has_status=has_status, spec=spec))

    async def is_served():
        try:
            await cluster.port.list(resource)
        except NotFoundError:
            return False
        return True

    await until(is_served, f"{resource} is served")
    return Custom(cluster, await cluster.namespace(), resource)


async def test_custom_objects_live_like_others(cluster):
    custom = await defined(cluster)
    subject = f"things.{custom.resource.group}"
    made = await custom.create(spec={"a": 1}, status={"b": 2})

    assert made["metadata"]["generation"] == 1
    assert "status" not in made
    with pytest.raises(AlreadyExistsError) as caught:
        await custom.create()
    assert caught.value.message == f'{subject} "t" already exists'
    with pytest.raises(ConflictError) as caught:
        await custom.patch({"metadata": {"resourceVersion": "1"}, "spec": {"a": 2}})
    assert caught.value.message.startswith(f'Operation cannot be fulfilled on {subject} "t": ')
    with pytest.raises(InvalidError, match="field label not supported"):
        await cluster.port.list(custom.resource, Query(field_selector="spec.a=1"))
    await cluster.port.delete(custom.resource, custom.key)
    with pytest.raises(NotFoundError) as caught:
        await cluster.port.get(custom.resource, custom.key)
    assert caught.value.message == f'{subject} "t" not found'


async def test_a_custom_status_is_written_apart_and_brings_nothing_else(cluster):
    custom = await defined(cluster)
    await custom.create(spec={"a": 1})

    assert (await custom.patch({"status": {"b": 1}}))["metadata"]["generation"] == 1
    after = await custom.patch({"spec": {"a": 2}, "status": {"b": 1}})
    assert after["metadata"]["generation"] == 2
    assert "status" not in after
    change = {"spec": {"a": 3}, "status": {"b": 1}, "metadata": {"labels": {"x": "y"}}}
    after = await custom.patch(change, "status")
    assert (after["spec"], after["status"]) == ({"a": 2}, {"b": 1})
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 2
    with pytest.raises(ConflictError):
        await custom.patch({"metadata": {"resourceVersion": "1"}, "status": {"b": 2}}, "status")


async def test_without_the_subresource_a_status_is_a_field_like_others(cluster):
    custom = await defined(cluster, has_status=False)
    made = await custom.create(spec={"a": 1}, status={"b": 1})

    assert made["status"] == {"b": 1}
    after = await custom.patch({"status": {"b": 2}})
    assert (after["status"], after["metadata"]["generation"]) == ({"b": 2}, 2)
    with pytest.raises(NotFoundError):
        await custom.patch({"status": {"b": 3}}, "status")


async def test_lists_of_custom_objects_are_one_value_unless_the_schema_says_otherwise(cluster):
    text = {"type": "string"}
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": text, "value": text},
        },
    }
    properties = {"keyed": keyed, "plain": {"type": "array", "items": text}}
    custom = await defined(cluster, spec={"type": "object", "properties": properties})
    await custom.apply("one", {"plain": ["a"], "keyed": [{"name": "x", "value": "1"}]})
    after = await custom.apply("two", {"keyed": [{"name": "y", "value": "2"}]})

    assert [each["name"] for each in after["spec"]["keyed"]] == ["x", "y"]
    with pytest.raises(ConflictError) as caught:
        await custom.apply("two", {"plain": ["b"], "keyed": [{"name": "x", "value": "2"}]})
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\\n- .spec.plain\\n- '
        '.spec.keyed[name="x"].value'
    )


async def test_discovery_has_the_verbs_of_a_kind_while_it_is_served(cluster):
    custom = await defined(cluster)

    async def is_offered():
        return "create" in await cluster.port.verbs(custom.resource)

    async def is_ending():
        return "create" not in await cluster.port.verbs(custom.resource)

    async def is_gone():
        return not await cluster.port.verbs(custom.resource)

    await until(is_offered, "discovery has it")
    await custom.create()
    # The objects of a kind are deleted before its definition, so this object holds both.
    await custom.patch({"metadata": {"finalizers": ["bursar.io/hold"]}})
    await cluster.port.delete(CRDS, custom.definition)
    await until(is_ending, "nothing is created while the definition is being deleted")
    assert {"get", "list", "watch", "delete"} <= await cluster.port.verbs(custom.resource)
    with pytest.raises(ForbiddenError, match="while custom resource definition is terminating"):
        await custom.create(name="another")

    await custom.patch({"metadata": {"finalizers": None}})
    await until(is_gone, "discovery does not have it any more")


async def test_a_definition_that_is_held_after_its_objects_went_is_served_like_others(cluster):
    custom = await defined(cluster)
    await custom.create()
    hold = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": ["bursar.io/hold"]}})
    await cluster.port.patch(CRDS, custom.definition, hold)
    await cluster.port.delete(CRDS, custom.definition)

    async def is_empty_and_offered():
        is_empty = not (await cluster.port.list(custom.resource)).items
        return is_empty and "create" in await cluster.port.verbs(custom.resource)

    async def is_gone():
        return not await cluster.port.verbs(custom.resource)

    await until(is_empty_and_offered, "the objects are gone and the kind is served")
    release = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": None}})
    await cluster.port.patch(CRDS, custom.definition, release)
    await until(is_gone, "discovery does not have it any more")


async def test_a_kind_goes_with_its_definition(cluster):
    custom = await defined(cluster)
    await custom.create()
    start = (await cluster.port.list(custom.resource)).resource_version
    deleted = asyncio.ensure_future(
        cluster.events(custom.resource, count=1, resource_version=start)
    )
    await asyncio.sleep(0.05)
    await cluster.port.delete(CRDS, custom.definition)
    (event,) = await deleted

    async def is_unknown():
        try:
            await cluster.port.list(custom.resource)
        except NotFoundError:
            return True
        return False

    await until(is_unknown, "the kind is no longer served")
    assert event.kind in {EventKind.DELETED, EventKind.MODIFIED}
