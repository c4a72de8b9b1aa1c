"""Requests to the leader's resize service. The Lease holds its address; failures are retried."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest

from bursar.adapters.admission import leader_client
from bursar.adapters.admission.leader_client import LeaderClient, LeaderClientSettings
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.controller_http.routes import CONTROLLER_LIMITS
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response
from bursar.app.admission.pods import Denied, Granted, Reply, ResizeRequest, Unreachable
from bursar.app.cluster.kinds import LEASES, NAMESPACES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from certificates import Authority
from program import free_port
from support.builders.reviews import RunningServer, posting, running

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


class Leader:
    """A leader that answers by a script; the last answer repeats."""

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
    """A cluster with a Lease, a leader, and the files of a service account."""

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

    def client(self, **settings: str) -> LeaderClient:
        known = {"token_file": str(self.token), "authority_file": str(self.folder / "ca.crt")}
        return LeaderClient(
            self.cluster, LeaderClientSettings(namespace="aaq", **{**known, **settings})
        )


Start = Callable[[Leader], contextlib.AbstractAsyncContextManager[World]]


@pytest.fixture
def world(tmp_path) -> Start:
    @contextlib.asynccontextmanager
    async def start(leader: Leader) -> AsyncIterator[World]:
        limits = ServerLimits(linger_seconds=0.01, finish_seconds=0.1)
        async with running(tmp_path, posting("/v1/resizes", leader), limits) as server:
            made = World(tmp_path, server)
            home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.namespace}}
            await made.cluster.create(NAMESPACES, home)
            await made.lead_at(server.url(""))
            yield made

    return start


async def asked(client: LeaderClient) -> Reply:
    async with client:
        return await client.reserve_resize(REQUEST)


async def test_the_leader_is_asked_and_grants(world):
    leader = Leader({"allowed": True})
    async with world(leader) as made:
        assert await asked(made.client()) == Granted()

    [received] = leader.received
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


async def test_a_denial_has_the_words_of_the_leader(world):
    async with world(Leader({"allowed": False, "message": "exceeded quota: a"})) as made:
        assert await asked(made.client()) == Denied("exceeded quota: a")


async def test_the_address_is_kept_and_the_token_is_read_again(world):
    leader = Leader({"allowed": True})
    async with world(leader) as made, made.client() as client:
        await client.reserve_resize(REQUEST)
        await made.cluster.delete(LEASES, KEY)
        made.token.write_text("second")

        assert await client.reserve_resize(REQUEST) == Granted()

    assert [each.authorization for each in leader.received] == ["Bearer first", "Bearer second"]


async def test_after_a_failure_the_new_leader_is_asked(world):
    leader = Leader({"allowed": True})
    async with world(leader) as made, made.client() as client:
        await made.lead_at(f"https://127.0.0.1:{free_port()}")
        assert isinstance(await client.reserve_resize(REQUEST), Unreachable)

        await made.lead_at(made.server.url(""))
        assert await client.reserve_resize(REQUEST) == Granted()


async def test_a_failed_request_is_sent_once_more(world):
    leader = Leader(Response(b"", 503), {"allowed": True})
    async with world(leader) as made:
        assert await asked(made.client()) == Granted()

    assert [json.loads(each.body)["id"] for each in leader.received] == ["review-1"] * 2


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
async def test_an_invalid_answer_counts_as_unreachable(world, answer, cause):
    async with world(Leader(answer)) as made:
        assert await asked(made.client()) == Unreachable(cause)


async def test_a_leader_that_is_gone_is_unreachable(world):
    async with world(Leader({"allowed": True})) as made:
        await made.lead_at(f"https://127.0.0.1:{free_port()}")

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("aaq-controller could not be asked: no connection")


async def test_without_a_lease_there_is_no_leader(world):
    async with world(Leader({"allowed": True})) as made:
        await made.cluster.delete(LEASES, KEY)

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("the lease aaq/aaq-controller could not be read")


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:1", "https://", "https://[", "nonsense"])
async def test_an_address_without_tls_is_not_used(world, address):
    leader = Leader({"allowed": True})
    async with world(leader) as made:
        await made.lead_at(address)

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("the lease aaq/aaq-controller names")
    assert leader.received == []


async def test_a_leader_with_an_untrusted_certificate_gets_no_token(world):
    leader = Leader({"allowed": True})
    async with world(leader) as made:
        reply = await asked(made.client(server_name="somebody-else.example.com"))

    assert isinstance(reply, Unreachable)
    assert leader.received == []


async def test_the_name_in_the_certificate_can_be_configured(world):
    async with world(Leader({"allowed": True})) as made:
        assert await asked(made.client(server_name="kubernetes.default.svc")) == Granted()


@pytest.mark.parametrize("content", [None, "", "two\nlines", "\xe9"])
async def test_a_token_that_cannot_be_sent_is_not_sent(world, content):
    leader = Leader({"allowed": True})
    async with world(leader) as made:
        made.token.unlink()
        if content is not None:
            made.token.write_text(content)

        reply = await asked(made.client())

    assert isinstance(reply, Unreachable)
    assert reply.cause.startswith("the service account token cannot be")
    assert leader.received == []


async def test_without_an_authority_no_certificate_is_trusted(world):
    async with world(Leader({"allowed": True})) as made:
        reply = await asked(made.client(authority_file=str(made.folder / "missing")))

    assert reply == Unreachable("the authority for aaq-controller cannot be read")


async def test_authorities_that_change_are_used_for_the_next_request(world, tmp_path):
    """A new CA is published before the leader's certificate is signed by it."""
    other = tmp_path / "other"
    other.mkdir()
    strange = Authority(other).certificate.read_text()
    leader = Leader({"allowed": True})
    async with world(leader) as made:
        ours = (made.folder / "ca.crt").read_text()
        trusted = ours
        settings = LeaderClientSettings(
            namespace="aaq", token_file=str(made.token), authority_file=""
        )
        async with LeaderClient(made.cluster, settings, lambda: trusted) as client:
            assert await client.reserve_resize(REQUEST) == Granted()

            trusted = strange
            assert isinstance(await client.reserve_resize(REQUEST), Unreachable)

            trusted = strange + ours
            assert await client.reserve_resize(REQUEST) == Granted()

            trusted = ""
            assert isinstance(await client.reserve_resize(REQUEST), Unreachable)


async def test_a_request_can_be_cancelled(world):
    class Silent(Leader):
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


async def test_many_resizes_at_a_time_wait_for_few_connections(world):
    class Counting(Leader):
        at_once = most = 0

        async def __call__(self, request: Request) -> Response:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await asyncio.sleep(0.01)
            self.at_once -= 1
            return await super().__call__(request)

    leader = Counting({"allowed": True})
    async with world(leader) as made, made.client() as client:
        replies = await asyncio.gather(*(client.reserve_resize(REQUEST) for _ in range(100)))

    assert replies == [Granted()] * 100
    assert leader.most <= leader_client.IN_FLIGHT_MAX


def test_all_connections_of_two_webhooks_behind_one_address_are_accepted():
    assert CONTROLLER_LIMITS.connections_per_address_max >= 2 * leader_client.IN_FLIGHT_MAX


def test_the_answer_comes_before_the_api_server_gives_up():
    assert leader_client.ASK_SECONDS_MAX < 10
