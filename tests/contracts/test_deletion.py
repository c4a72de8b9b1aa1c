"""The end of objects: preconditions, finalizers, grace, owners, namespaces."""

import json

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES, PODS
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Preconditions,
    Query,
)
from support.builders.manifests import pod_manifest
from support.until import until


async def made(cluster, namespace, name, **metadata):
    body = {"metadata": {"name": name, **metadata}}
    return json.loads(await cluster.port.create(CONFIG_MAPS, body, namespace=namespace))["metadata"]


async def merged(cluster, resource, key, body, subresource=""):
    patch = Patch(kind=PatchKind.MERGE, body=body)
    return json.loads(await cluster.port.patch(resource, key, patch, subresource=subresource))


async def create_pod(cluster, key, *, node="", **metadata):
    body = pod_manifest(key.name, node=node, metadata=metadata, schedulerName="nobody")
    return json.loads(await cluster.port.create(PODS, body, namespace=key.namespace))


async def test_an_object_goes_at_once(cluster):
    namespace = await cluster.namespace()
    await made(cluster, namespace, "a")
    key = Key(namespace, "a")
    await cluster.port.delete(CONFIG_MAPS, key)

    assert await cluster.is_gone(CONFIG_MAPS, key)
    with pytest.raises(NotFoundError) as caught:
        await cluster.port.delete(CONFIG_MAPS, key)
    assert caught.value.message == 'configmaps "a" not found'


async def test_only_the_meant_object_is_deleted(cluster):
    namespace = await cluster.namespace()
    metadata = await made(cluster, namespace, "a")
    key = Key(namespace, "a")
    uid, revision = metadata["uid"], metadata["resourceVersion"]

    with pytest.raises(ConflictError) as caught:
        await cluster.port.delete(CONFIG_MAPS, key, preconditions=Preconditions(uid="x"))
    assert caught.value.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not '
        f"match the UID in record ({uid}). The object might have been deleted and then recreated"
    )
    preconditions = Preconditions(uid=uid, resource_version="1")
    with pytest.raises(ConflictError) as caught:
        await cluster.port.delete(CONFIG_MAPS, key, preconditions=preconditions)
    assert caught.value.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition '
        f"(1) does not match the ResourceVersion in record ({revision}). The object might have "
        "been modified"
    )
    preconditions = Preconditions(uid=uid, resource_version=revision)
    await cluster.port.delete(CONFIG_MAPS, key, preconditions=preconditions)
    assert await cluster.is_gone(CONFIG_MAPS, key)


async def test_a_finalizer_holds_an_object(cluster):
    namespace = await cluster.namespace()
    await made(cluster, namespace, "a", finalizers=["x.io/f"])
    key = Key(namespace, "a")
    await cluster.port.delete(CONFIG_MAPS, key)
    ending = await cluster.read(CONFIG_MAPS, key)
    await cluster.port.delete(CONFIG_MAPS, key)

    assert ending["metadata"]["deletionTimestamp"]
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await cluster.read(CONFIG_MAPS, key) == ending
    with pytest.raises(AlreadyExistsError) as caught:
        await made(cluster, namespace, "a")
    assert caught.value.message == 'object is being deleted: configmaps "a" already exists'
    change = {"metadata": {"finalizers": ["x.io/f", "x.io/g"]}}
    with pytest.raises(InvalidError) as caught:
        await merged(cluster, CONFIG_MAPS, key, change)
    assert caught.value.message == (
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added '
        'if the object is being deleted, found new finalizers []string{"x.io/g"}'
    )
    back = await merged(cluster, CONFIG_MAPS, key, {"metadata": {"deletionTimestamp": None}})
    assert back == ending
    await merged(cluster, CONFIG_MAPS, key, {"metadata": {"finalizers": None}})
    assert await cluster.is_gone(CONFIG_MAPS, key)


async def test_a_deleted_object_can_be_made_anew_with_another_uid(cluster):
    namespace = await cluster.namespace()
    first = await made(cluster, namespace, "a")
    await cluster.port.delete(CONFIG_MAPS, Key(namespace, "a"))
    second = await made(cluster, namespace, "a")

    assert first["uid"] != second["uid"]


# ------------------------------------------------------------------ pods


async def test_a_pod_without_a_node_goes_at_once(cluster):
    key = Key(await cluster.namespace(for_pods=True), "p")
    await create_pod(cluster, key)
    await cluster.port.delete(PODS, key)

    assert await cluster.is_gone(PODS, key)


async def test_a_pod_on_a_node_has_time_to_end(cluster):
    key = Key(await cluster.namespace(for_pods=True), "p")
    await create_pod(cluster, key, node="not-a-node")
    await cluster.port.delete(PODS, key)
    ending = (await cluster.read(PODS, key))["metadata"]
    await cluster.port.delete(PODS, key)
    again = (await cluster.read(PODS, key))["metadata"]
    await cluster.port.delete(PODS, key, grace_seconds=10)
    sooner = (await cluster.read(PODS, key))["metadata"]
    await cluster.port.delete(PODS, key, grace_seconds=60)
    later = (await cluster.read(PODS, key))["metadata"]

    assert (ending["deletionGracePeriodSeconds"], ending["generation"]) == (30, 2)
    assert again == ending
    assert (sooner["deletionGracePeriodSeconds"], sooner["generation"]) == (10, 2)
    assert sooner["deletionTimestamp"] < ending["deletionTimestamp"]
    assert later == sooner
    await cluster.port.delete(PODS, key, grace_seconds=0)
    assert await cluster.is_gone(PODS, key)


async def test_a_pod_that_has_ended_goes_at_once(cluster):
    key = Key(await cluster.namespace(for_pods=True), "p")
    await create_pod(cluster, key, node="not-a-node")
    await merged(cluster, PODS, key, {"status": {"phase": "Succeeded"}}, "status")
    await cluster.port.delete(PODS, key)

    assert await cluster.is_gone(PODS, key)


async def test_a_finalizer_and_a_node_must_both_let_go_of_a_pod(cluster):
    namespace = await cluster.namespace(for_pods=True)
    key, other = Key(namespace, "p"), Key(namespace, "o")
    for each in (key, other):
        await create_pod(cluster, each, node="not-a-node", finalizers=["x.io/f"])
        await cluster.port.delete(PODS, each)
    await merged(cluster, PODS, key, {"metadata": {"finalizers": None}})
    await cluster.port.delete(PODS, other, grace_seconds=0)

    assert await cluster.exists(PODS, key)
    assert await cluster.exists(PODS, other)
    await cluster.port.delete(PODS, key, grace_seconds=0)
    await merged(cluster, PODS, other, {"metadata": {"finalizers": None}})
    assert await cluster.is_gone(PODS, key)
    assert await cluster.is_gone(PODS, other)


# ------------------------------------------------------------------ what depends on others


def owner(metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


async def test_what_an_object_owned_goes_with_it(cluster):
    namespace = await cluster.namespace()
    top = await made(cluster, namespace, "top")
    middle = await made(cluster, namespace, "middle", ownerReferences=[owner(top)])
    await made(cluster, namespace, "bottom", ownerReferences=[owner(middle)])
    other = await made(cluster, namespace, "other")
    await made(cluster, namespace, "shared", ownerReferences=[owner(top), owner(other)])
    await cluster.port.delete(CONFIG_MAPS, Key(namespace, "top"))

    for name in ("middle", "bottom"):
        key = Key(namespace, name)
        await until(lambda key=key: cluster.is_gone(CONFIG_MAPS, key), f"{name} is deleted")

    async def has_one_owner():
        shared = await cluster.read(CONFIG_MAPS, Key(namespace, "shared"))
        return [each["name"] for each in shared["metadata"]["ownerReferences"]] == ["other"]

    await until(has_one_owner, "one owner is left")
    await cluster.port.delete(CONFIG_MAPS, Key(namespace, "other"))
    shared = Key(namespace, "shared")
    await until(lambda: cluster.is_gone(CONFIG_MAPS, shared), "what had two owners is deleted")


async def test_a_namespace_is_emptied_before_it_goes(cluster):
    namespace = await cluster.namespace()
    place = Key("", namespace)
    await made(cluster, namespace, "free")
    await made(cluster, namespace, "held", finalizers=["x.io/f"])
    await cluster.port.delete(NAMESPACES, place)
    await cluster.port.delete(NAMESPACES, place)
    ending = await cluster.read(NAMESPACES, place)

    assert ending["status"]["phase"] == "Terminating"
    assert ending["metadata"]["deletionTimestamp"]
    with pytest.raises(ForbiddenError) as caught:
        await made(cluster, namespace, "late")
    assert caught.value.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {namespace} '
        "because it is being terminated"
    )
    with pytest.raises(AlreadyExistsError, match="object is being deleted: namespaces "):
        await cluster.port.create(NAMESPACES, {"metadata": {"name": namespace}})

    async def only_held():
        page = await cluster.port.list(CONFIG_MAPS, Query(namespace=namespace))
        found = [json.loads(item)["metadata"] for item in page.items]
        return [each["name"] for each in found if "deletionTimestamp" in each] == ["held"]

    await until(only_held, "only what has a finalizer is left")
    await merged(cluster, CONFIG_MAPS, Key(namespace, "held"), {"metadata": {"finalizers": None}})
    await until(lambda: cluster.is_gone(NAMESPACES, place), "the namespace is deleted")


async def test_system_namespaces_stay(cluster):
    with pytest.raises(ForbiddenError) as caught:
        await cluster.port.delete(NAMESPACES, Key("", "default"))
    message = 'namespaces "default" is forbidden: this namespace may not be deleted'
    assert caught.value.message == message
