"""Asking whoever leads for room: found by its Lease, asked over HTTPS, once more if that fails."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest

from bursar.adapters.admission import desk_client
from bursar.adapters.admission.desk_client import DeskClient, DeskSettings
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response
from bursar.app.admission.pods import Denied, Granted, Reply, ResizeRequest, Unreachable
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from program import free_port
from support.admission_notation import RunningServer, posting, running
from support.kube_access import NAMESPACES

KEY = Key("aaq", "aaq-controller")
REQUEST = ResizeRequest(
    id="review-1",
    namespace="team-a",
    name="web",
    uid="pod-uid",
    old=b'{"old": 1}',
    new=b'{"spec": {"a": 1.50}}',
    is_dry_run=True,
)


class Desk:
    """The other side: answers by a script, the last answer for all further questions."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.received: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.received.append(request)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Response):
            return step
        return Response(json.dumps(step).encode(), content_type="application/json")


class World:
    """A cluster with a Lease, a desk, and the files of a service account."""

    def __init__(self, folder: Path, server: RunningServer) -> None:
        self.folder, self.server = folder, server
        self.cluster = MemoryCluster(SYSTEM_CLOCK, source=Random(1))  # noqa: S311 - not a secret
        self.token = folder / "token"
        self.token.write_text("first\n")

    async def lead_at(self, address: str | None) -> None:
        metadata = {"name": KEY.name, "annotations": {"bursar.io/address": address}}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        patch = Patch(kind=PatchKind.APPLY, body=lease, field_manager="test", is_forced=True)
        await self.cluster.patch(LEASES, KEY, patch)

    def client(self, **settings: str) -> DeskClient:
        known = {"token_file": str(self.token), "authority_file": str(self.folder / "ca.crt")}
        return DeskClient(self.cluster, DeskSettings(namespace="aaq", **{**known, **settings}))


Start = Callable[[Desk], contextlib.AbstractAsyncContextManager[World]]


@pytest.fixture
def world(tmp_path) -> Start:
    @contextlib.asynccontextmanager
    async def start(desk: Desk) -> AsyncIterator[World]:
        limits = ServerLimits(linger_seconds=0.01, finish_seconds=0.1)
        async with running(tmp_path, posting("/v1/resizes", desk), limits) as server:
            made = World(tmp_path, server)
            home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.namespace}}
            await made.cluster.create(NAMESPACES, home)
            await made.lead_at(server.url(""))
            yield made

    return start


async def asked(client: DeskClient) -> Reply:
    async with client as desk:
        return await desk.reserve_resize(REQUEST)


async def test_the_leader_is_asked_and_grants(world):
    desk = Desk({"allowed": True})
    async with world(desk) as made:
        assert await asked(made.client()) == Granted()

    [received] = desk.received
    assert (received.method, received.content_type) == ("POST", "application/json")
    assert received.authorization == "Bearer first"
    assert json.loads(received.body) == {
        "id": "review-1",
        "namespace": "team-a",
        "name": "web",
        "uid": "pod-uid",
        "pod": {"spec": {"a": 1.5}},
        "dryRun": True,
    }
    assert b"1.50" in received.body


async def test_the_leader_denies_in_its_own_words(world):
    async with world(Desk({"allowed": False, "message": "exceeded quota: a"})) as made:
        assert await asked(made.client()) == Denied("exceeded quota: a")


async def test_the_address_is_kept_and_the_token_is_read_again(world):
    desk = Desk({"allowed": True})
    async with world(desk) as made, made.client() as client:
        await client.reserve_resize(REQUEST)
        await made.cluster.delete(LEASES, KEY)
        made.token.write_text("second")

        assert await client.reserve_resize(REQUEST) == Granted()

    assert [each.authorization for each in desk.received] == ["Bearer first", "Bearer second"]


async def test_after_a_failure_the_new_leader_is_asked(world):
    desk = Desk({"allowed": True})
    async with world(desk) as made, made.client() as client:
        await made.lead_at(f"https://127.0.0.1:{free_port()}")
        assert isinstance(await client.reserve_resize(REQUEST), Unreachable)

        await made.lead_at(made.server.url(""))
        assert await client.reserve_resize(REQUEST) == Granted()


async def test_one_failure_is_forgiven_within_the_same_question(world):
    desk = Desk(Response(b"", 503), {"allowed": True})
    async with world(desk) as made:
        assert await asked(made.client()) == Granted()

    assert [json.loads(each.body)["id"] for each in desk.received] == ["review-1"] * 2


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (Response(b"hidden", 500), "aaq-controller answered 500"),
        (Response(b"", 302), "aaq-controller answered 302"),
        (Response(b"hidden"), "aaq-controller gave an answer that cannot be read"),
        ({"message": "hidden"}, "aaq-controller gave an answer that cannot be read"),
        (
            {"allowed": True, "message": "x" * 100_000},
            "aaq-controller gave an answer that is too long",
        ),
    ],
)
async def test_an_answer_that_is_none_is_no_answer(world, answer, cause):
    async with world(Desk(answer)) as made:
        assert await asked(made.client()) == Unreachable(cause)


async def test_a_leader_that_is_gone_is_unreachable(world):
    async with world(Desk({"allowed": True})) as made:
        await made.lead_at(f"https://127.0.0.1:{free_port()}")

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("aaq-controller could not be asked: no connection")


async def test_without_a_lease_nobody_leads(world):
    async with world(Desk({"allowed": True})) as made:
        await made.cluster.delete(LEASES, KEY)

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("the lease aaq/aaq-controller could not be read")


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:1", "https://", "https://[", "nonsense"])
async def test_an_address_without_tls_is_not_used(world, address):
    desk = Desk({"allowed": True})
    async with world(desk) as made:
        await made.lead_at(address)

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("the lease aaq/aaq-controller names")
    assert desk.received == []


async def test_a_leader_whom_nobody_vouches_for_gets_no_token(world):
    desk = Desk({"allowed": True})
    async with world(desk) as made:
        reply = await asked(made.client(server_name="somebody-else.example.com"))

    assert isinstance(reply, Unreachable)
    assert desk.received == []


async def test_a_leader_is_known_by_the_name_in_its_certificate(world):
    async with world(Desk({"allowed": True})) as made:
        assert await asked(made.client(server_name="kubernetes.default.svc")) == Granted()


@pytest.mark.parametrize("content", [None, "", "two\nlines", "\xe9"])
async def test_a_token_that_cannot_be_sent_is_not_sent(world, content):
    desk = Desk({"allowed": True})
    async with world(desk) as made:
        made.token.unlink()
        if content is not None:
            made.token.write_text(content)

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("the service account token cannot be")
    assert desk.received == []


async def test_without_an_authority_nobody_is_trusted(world):
    async with world(Desk({"allowed": True})) as made:
        reply = await asked(made.client(authority_file=str(made.folder / "missing")))

    assert reply == Unreachable("the authority for aaq-controller cannot be read")


async def test_a_question_can_be_cancelled(world):
    class Silent(Desk):
        async def __call__(self, request: Request) -> Response:
            self.received.append(request)
            is_asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    is_asked = asyncio.Event()
    async with world(Silent()) as made, made.client() as client:
        asking = asyncio.create_task(client.reserve_resize(REQUEST))
        await is_asked.wait()
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking


def test_the_answer_comes_before_the_api_server_gives_up():
    assert desk_client.ASK_SECONDS_MAX < 10
