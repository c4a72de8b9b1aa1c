"""What only a real API server shows of the client; its operations are in `tests/contracts`."""

import asyncio
import json
import ssl

import pytest

from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import CONFIG_MAPS, NODES, PODS
from bursar.app.cluster.ports import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    Key,
    Patch,
    PatchKind,
    Query,
    UnavailableError,
)
from support.cluster.access import PlainAccess, a_client, access_of

NODE = Key("", "node-0")


async def test_an_invalid_object_is_refused_field_by_field(client, namespace):
    name = {"metadata": {"name": "a"}}
    await client.create(CONFIG_MAPS, name, namespace=namespace)
    wrong = [
        {"op": "add", "path": f"/metadata/{field}", "value": {"+": "x"}}
        for field in ("annotations", "labels")
    ]
    patch = Patch(kind=PatchKind.JSON, body=wrong)
    with pytest.raises(InvalidError) as caught:
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), patch)

    assert (caught.value.code, caught.value.key) == (422, Key(namespace, "a"))
    fields = {cause.partition(": ")[0] for cause in caught.value.causes}
    assert fields == {"metadata.annotations", "metadata.labels"}


async def test_a_conflict_of_appliers_names_the_field_and_its_manager(client, namespace):
    def applied(manager: str, value: str) -> Patch:
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        body = {**whole, "data": {"a": value}}
        return Patch(kind=PatchKind.APPLY, body=body, field_manager=manager)

    await client.patch(CONFIG_MAPS, Key(namespace, "a"), applied("one", "1"))
    with pytest.raises(ConflictError) as caught:
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), applied("two", "2"))

    assert caught.value.causes == ('.data.a: conflict with "one"',)


async def test_unknown_fields_are_accepted(client, namespace):
    body = {"metadata": {"name": "a"}, "dta": {"typo": "x"}}
    stored = json.loads(await client.create(CONFIG_MAPS, body, namespace=namespace))

    assert "dta" not in stored


async def test_a_compressed_list_has_every_object(control_plane, client, namespace):
    """The server compresses from 128 KiB on."""
    large = {"a": "x" * 100_000}
    bodies = [{"metadata": {"name": f"c{number}"}, "data": large} for number in range(5)]
    await asyncio.gather(
        *(client.create(CONFIG_MAPS, body, namespace=namespace) for body in bodies)
    )
    query = Query(namespace=namespace, field_selector="metadata.name!=kube-root-ca.crt")
    async with a_client(access_of(control_plane), limits=Limits(is_gzip_accepted=True)) as zipped:
        page = await zipped.list(CONFIG_MAPS, query)

    found = [json.loads(item) for item in page.items]
    assert [(each["metadata"]["name"], each["data"]) for each in found] == [
        (f"c{number}", large) for number in range(5)
    ]


# ------------------------------------------------------------------ who we are


async def test_a_user_without_rights_may_neither_list_nor_watch(control_plane):
    stranger = access_of(control_plane, control_plane.client("nobody-special"))
    async with a_client(stranger) as client:
        with pytest.raises(ForbiddenError) as caught:
            await client.list(PODS)
        with pytest.raises(ForbiddenError, match='cannot watch resource "pods"'):
            await anext(client.watch(PODS))

    assert (caught.value.code, caught.value.resource) == (403, "pods")
    assert 'User "nobody-special" cannot list resource "pods"' in caught.value.message


async def test_an_untrusted_server_receives_no_request(control_plane):
    context = ssl.create_default_context()
    async with a_client(PlainAccess(control_plane.url, ssl_context=context)) as client:
        with pytest.raises(UnavailableError, match="certificate is not trusted"):
            await client.get(NODES, NODE)


async def test_the_name_in_the_certificate_can_be_configured(control_plane):
    access = access_of(control_plane)
    access.tls_server_name = "kubernetes.default"
    async with a_client(access) as client:
        assert await client.get(NODES, NODE)

    access.tls_server_name = "elsewhere.example"
    async with a_client(access) as client:
        with pytest.raises(UnavailableError, match="certificate is not trusted: hostname mismatch"):
            await client.get(NODES, NODE)
