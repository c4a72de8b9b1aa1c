"""Reading and writing objects of a real API server."""

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import AsyncIterator
from random import Random

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
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
    Reader,
    Resource,
    UnavailableError,
    Watcher,
    Writer,
)
from support.builders.kubeconfigs import loaded
from support.cluster.access import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    PlainAccess,
    a_client,
    access_of,
)

CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    is_namespaced=False,
)
WIDGETS = Resource("client-test.bursar.io", "v1", "widgets", "Widget")


@pytest.fixture
async def client(control_plane) -> AsyncIterator[KubeClient]:
    async with a_client(access_of(control_plane)) as client:
        yield client


@pytest.fixture
async def namespace(client) -> AsyncIterator[str]:
    name = f"client-{uuid.uuid4().hex[:12]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, Key("", name))


def a_config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


async def create(client: KubeClient, namespace: str, name: str, **data: str) -> dict:
    body = a_config_map(name, **data)
    return json.loads(await client.create(CONFIG_MAPS, body, namespace=namespace))


def json_patch(*operations: dict[str, object]) -> Patch:
    return Patch(kind=PatchKind.JSON, body=list(operations))


def replace_if_unchanged(version: str) -> Patch:
    return json_patch(
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/data", "value": {"a": "2"}},
    )


def test_a_client_is_all_three_ports(control_plane):
    client = a_client(access_of(control_plane))
    reader: Reader = client
    writer: Writer = client
    watcher: Watcher = client

    assert reader is writer is watcher


# ------------------------------------------------------------------ create, get


async def test_what_was_created_is_read_back(client, namespace):
    stored = await create(client, namespace, "a", color="blue")
    read = json.loads(await client.get(CONFIG_MAPS, Key(namespace, "a")))

    assert read == stored
    assert (read["kind"], read["data"]) == ("ConfigMap", {"color": "blue"})


async def test_the_server_completes_a_generated_name(client, namespace):
    body = {"metadata": {"generateName": "job-"}}
    stored = json.loads(await client.create(CONFIG_MAPS, body, namespace=namespace))

    assert stored["metadata"]["name"].startswith("job-")


async def test_a_name_that_exists_is_already_exists(client, namespace):
    await create(client, namespace, "a")
    with pytest.raises(AlreadyExistsError) as caught:
        await create(client, namespace, "a")

    error = caught.value
    assert (error.code, error.reason, error.key) == (409, "AlreadyExists", Key(namespace, "a"))
    assert error.message == 'configmaps "a" already exists'


async def test_an_invalid_object_is_refused_field_by_field(client, namespace):
    pod = {
        "metadata": {"name": "a", "labels": {"-": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "-1"}}}]},
    }
    await _service_account(client, namespace)
    with pytest.raises(InvalidError) as caught:
        await client.create(PODS, pod, namespace=namespace)

    error = caught.value
    assert (error.code, error.reason, error.key) == (422, "Invalid", Key(namespace, "a"))
    fields = {cause.partition(": ")[0] for cause in error.causes}
    assert fields >= {"spec.containers[0].image", "spec.containers[0].resources.limits[cpu]"}


async def test_an_object_of_the_wrong_shape_is_refused(client, namespace):
    with pytest.raises(InvalidError) as caught:
        await client.create(CONFIG_MAPS, {"metadata": 5}, namespace=namespace)

    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


async def test_unknown_fields_are_accepted(client, namespace):
    body = {"metadata": {"name": "a"}, "dta": {"typo": "x"}}
    stored = json.loads(await client.create(CONFIG_MAPS, body, namespace=namespace))

    assert "dta" not in stored


async def test_a_dry_run_stores_nothing(client, namespace):
    body = a_config_map("a")
    tried = await client.create(CONFIG_MAPS, body, namespace=namespace, is_dry_run=True)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, Key(namespace, "a"))

    assert json.loads(tried)["metadata"]["uid"]


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (CONFIG_MAPS, 'configmaps "none" not found'),
        (Resource("", "v1", "gadgets", "Gadget"), "the server could not find"),
        (Resource("no.such.group", "v9", "gadgets", "Gadget"), "404 Not Found"),
    ],
)
async def test_a_missing_object_is_not_found(client, namespace, resource, message):
    with pytest.raises(NotFoundError) as caught:
        await client.get(resource, Key(namespace, "none"))

    assert message in caught.value.message


async def test_creating_in_a_missing_namespace_is_not_found(client):
    with pytest.raises(NotFoundError):
        await create(client, "no-such-namespace", "a")


async def test_cluster_wide_objects_have_no_namespace(client):
    node = json.loads(await client.get(NODES, Key("", "node-0")))

    assert node["metadata"]["name"] == "node-0"


# ------------------------------------------------------------------ who we are


async def test_a_user_without_rights_is_forbidden(control_plane):
    stranger = access_of(control_plane, control_plane.client("nobody-special"))
    async with a_client(stranger) as client:
        with pytest.raises(ForbiddenError) as caught:
            await client.list(PODS)

    assert (caught.value.code, caught.value.resource) == (403, "pods")
    assert 'User "nobody-special" cannot list resource "pods"' in caught.value.message


async def test_a_kubeconfig_is_all_a_client_needs(control_plane):
    access = loaded([str(control_plane.kubeconfig)])
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=Random(1)) as client:  # noqa: S311 - pauses
        assert await client.get(NODES, Key("", "node-0"))


async def test_an_untrusted_server_receives_no_request(control_plane):
    context = ssl.create_default_context()
    async with a_client(PlainAccess(control_plane.url, ssl_context=context)) as client:
        with pytest.raises(UnavailableError, match="certificate is not trusted"):
            await client.get(NODES, Key("", "node-0"))


async def test_the_name_in_the_certificate_can_be_configured(control_plane):
    access = access_of(control_plane)
    access.tls_server_name = "kubernetes.default"
    async with a_client(access) as client:
        assert await client.get(NODES, Key("", "node-0"))

    access.tls_server_name = "elsewhere.example"
    async with a_client(access) as client:
        with pytest.raises(UnavailableError, match="certificate is not trusted: hostname mismatch"):
            await client.get(NODES, Key("", "node-0"))


# ------------------------------------------------------------------ patch


async def test_a_json_patch_changes_an_object_that_is_still_the_same(client, namespace):
    before = await create(client, namespace, "a", a="1")
    patch = replace_if_unchanged(before["metadata"]["resourceVersion"])
    after = json.loads(await client.patch(CONFIG_MAPS, Key(namespace, "a"), patch))

    assert after["data"] == {"a": "2"}


async def test_a_json_patch_whose_test_fails_is_a_conflict(client, namespace):
    key = Key(namespace, "a")
    before = await create(client, namespace, "a", a="1")
    await client.patch(CONFIG_MAPS, key, Patch(kind=PatchKind.MERGE, body={"data": {"b": "1"}}))
    with pytest.raises(ConflictError) as caught:
        await client.patch(
            CONFIG_MAPS, key, replace_if_unchanged(before["metadata"]["resourceVersion"])
        )

    assert (caught.value.code, caught.value.key) == (422, key)
    assert json.loads(await client.get(CONFIG_MAPS, key))["data"] == {"a": "1", "b": "1"}


async def test_a_json_patch_that_makes_an_object_invalid_is_no_conflict(client, namespace):
    await create(client, namespace, "a", a="1")
    bad = json_patch({"op": "add", "path": "/metadata/labels", "value": {"-": "x"}})
    with pytest.raises(InvalidError) as caught:
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), bad)

    assert caught.value.causes[0].startswith("metadata.labels: ")


async def test_a_merge_patch_with_an_old_version_is_a_conflict(client, namespace):
    key = Key(namespace, "a")
    before = await create(client, namespace, "a", a="1")
    version = before["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": {"a": "2"}}
    fenced = Patch(kind=PatchKind.MERGE, body=body)
    after = json.loads(await client.patch(CONFIG_MAPS, key, fenced))
    with pytest.raises(ConflictError) as caught:
        await client.patch(
            CONFIG_MAPS,
            key,
            Patch(kind=PatchKind.MERGE, body={**body, "data": {"a": "3"}}),
        )

    assert after["data"] == {"a": "2"}
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")


async def test_a_dry_run_patch_changes_nothing(client, namespace):
    key = Key(namespace, "a")
    await create(client, namespace, "a", a="1")
    patch = Patch(kind=PatchKind.MERGE, body={"data": {"a": "2"}})
    tried = json.loads(await client.patch(CONFIG_MAPS, key, patch, is_dry_run=True))

    assert tried["data"] == {"a": "2"}
    assert json.loads(await client.get(CONFIG_MAPS, key))["data"] == {"a": "1"}


def apply_patch(manager: str, value: str, *, is_forced: bool = False) -> Patch:
    return Patch(
        kind=PatchKind.APPLY,
        body={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {"a": value},
        },
        field_manager=manager,
        is_forced=is_forced,
    )


async def test_applying_anothers_field_is_a_conflict_unless_forced(client, namespace):
    key = Key(namespace, "a")
    await client.patch(CONFIG_MAPS, key, apply_patch("one", "1"))
    with pytest.raises(ConflictError) as caught:
        await client.patch(CONFIG_MAPS, key, apply_patch("two", "2"))
    forced = await client.patch(CONFIG_MAPS, key, apply_patch("two", "2", is_forced=True))

    assert caught.value.causes == ('.data.a: conflict with "one"',)
    assert json.loads(forced)["data"] == {"a": "2"}


async def test_patching_a_missing_object_is_not_found(client, namespace):
    with pytest.raises(NotFoundError):
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), replace_if_unchanged("1"))


# ------------------------------------------------------------------ delete


async def test_a_deleted_object_is_gone(client, namespace):
    key = Key(namespace, "a")
    await create(client, namespace, "a")
    await client.delete(CONFIG_MAPS, key)

    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, key)
    with pytest.raises(NotFoundError):
        await client.delete(CONFIG_MAPS, key)


@pytest.mark.parametrize(
    "preconditions",
    [
        Preconditions(uid="11111111-2222-3333-4444-555555555555"),
        Preconditions(resource_version="1"),
    ],
)
async def test_another_object_of_the_same_name_is_not_deleted(client, namespace, preconditions):
    key = Key(namespace, "a")
    stored = await create(client, namespace, "a")
    with pytest.raises(ConflictError) as caught:
        await client.delete(CONFIG_MAPS, key, preconditions=preconditions)
    survivor = json.loads(await client.get(CONFIG_MAPS, key))
    metadata = stored["metadata"]
    expected = Preconditions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    await client.delete(CONFIG_MAPS, key, preconditions=expected)

    assert caught.value.code == 409
    assert survivor == stored


async def test_a_finalizer_delays_the_end(client, namespace):
    key = Key(namespace, "a")
    body = {"metadata": {"name": "a", "finalizers": ["bursar.io/test"]}}
    await client.create(CONFIG_MAPS, body, namespace=namespace)
    await client.delete(CONFIG_MAPS, key)
    dying = json.loads(await client.get(CONFIG_MAPS, key))
    await client.patch(
        CONFIG_MAPS, key, Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": None}})
    )

    assert dying["metadata"]["deletionTimestamp"]
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, key)


# ------------------------------------------------------------------ pods, subresources


async def _service_account(client: KubeClient, namespace: str) -> None:
    """Pods need one; the controller that makes it may be slower than the test."""
    with contextlib.suppress(AlreadyExistsError):
        body = {"metadata": {"name": "default"}}
        await client.create(SERVICE_ACCOUNTS, body, namespace=namespace)


async def test_a_gated_pod_is_released_resized_and_deleted(client, namespace):
    key = Key(namespace, "web")
    pod = {
        "metadata": {"name": "web"},
        "spec": {
            "schedulingGates": [{"name": "bursar.io/test"}],
            "nodeSelector": {"no": "where"},
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
            ],
        },
    }
    await _service_account(client, namespace)
    stored = json.loads(await client.create(PODS, pod, namespace=namespace))
    released = json_patch(
        {"op": "test", "path": "/metadata/uid", "value": stored["metadata"]["uid"]},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    )
    free = json.loads(await client.patch(PODS, key, released))
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    larger = Patch(kind=PatchKind.MERGE, body={"spec": {"containers": [container]}})
    resized = json.loads(await client.patch(PODS, key, larger, subresource="resize"))
    await client.delete(PODS, key, grace_seconds=0)

    assert not free["spec"].get("schedulingGates")
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    with pytest.raises(NotFoundError):
        await client.get(PODS, key)


@pytest.fixture
async def widgets(client) -> AsyncIterator[Resource]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget"}
    spec = {"group": WIDGETS.group, "scope": "Namespaced", "names": names, "versions": [version]}
    name = f"widgets.{WIDGETS.group}"
    await client.create(CRDS, {"metadata": {"name": name}, "spec": spec})
    for _ in range(200):
        if await _is_served(client):
            break
        await asyncio.sleep(0.1)
    yield WIDGETS
    await client.delete(CRDS, Key("", name))


async def _is_served(client: KubeClient) -> bool:
    try:
        await client.list(WIDGETS)
    except NotFoundError:
        return False
    return True


async def test_status_is_written_by_its_subresource(client, namespace, widgets):
    key = Key(namespace, "a")
    body = {
        "apiVersion": widgets.api_version,
        "kind": widgets.kind,
        "metadata": {"name": "a"},
        "spec": {"size": 1},
        "status": {"used": 9},
    }
    await client.create(widgets, body, namespace=namespace)
    both = Patch(kind=PatchKind.MERGE, body={"spec": {"size": 2}, "status": {"used": 1}})
    stored = json.loads(await client.patch(widgets, key, both, subresource="status"))

    assert (stored["spec"], stored["status"]) == ({"size": 1}, {"used": 1})
