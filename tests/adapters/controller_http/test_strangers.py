"""Strangers with made-up tokens at the leader's door, while the webhook asks about a resize."""

import asyncio
import base64
import json
from itertools import count

from bursar.adapters.admission.leader_client import LeaderClient, LeaderClientSettings
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.controller_http.resizes import webhook_user
from bursar.adapters.controller_http.routes import controller_routes
from bursar.adapters.kube.token_review import REVIEW_SECONDS, TokenReviewer
from bursar.adapters.serving.bearer import bearer_guard, only
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import JSON, Request, Response
from bursar.app.admission.pods import Granted, ResizeRequest
from bursar.app.cluster.ports import Json, Key, Resource
from support.builders.reviews import RunningServer, running
from support.http_peer import connected, request_bytes
from support.until import until

LIMITS = ServerLimits(linger_seconds=0.01, finish_seconds=1, discard_seconds=0.2)
STRANGERS = 40


def a_jwt(user: str, number: int) -> str:
    claims = json.dumps({"sub": user, "jti": str(number)}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


class SlowAuthority:
    """Knows one token. For all others the answer comes too late."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.strangers = 0

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        assert (resource.kind, namespace, is_dry_run) == ("TokenReview", "", False)
        is_known = body["spec"]["token"] == self.token
        if not is_known:
            self.strangers += 1
            await asyncio.sleep(2 * REVIEW_SECONDS)
        user = {"username": webhook_user("aaq")}
        return json.dumps({"status": {"authenticated": is_known, "user": user}}).encode()


class OneLease:
    """The reading side of a cluster whose Lease names the leader."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def get(self, resource: Resource, key: Key) -> bytes:
        assert (resource.kind, key) == ("Lease", Key("aaq", "aaq-controller"))
        return json.dumps(
            {"metadata": {"annotations": {"bursar.io/address": self.address}}}
        ).encode()


async def grant(_: Request) -> Response:
    return Response(b'{"allowed": true}', content_type=JSON)


async def bother(server: RunningServer, name: int, codes: list[int]) -> None:
    """Ask again and again, each time with another token."""
    for number in count():
        async with connected(server.port, server.trust) as peer:
            token = f"Bearer made-up-{name}-{number}"
            await peer.send(request_bytes("POST", "/v1/resizes", b"{}", Authorization=token))
            codes.append((await peer.answer()).code)


async def test_the_webhook_is_answered_while_strangers_wait_or_are_refused(tmp_path):
    token = a_jwt(webhook_user("aaq"), 1)
    (tmp_path / "token").write_text(token)
    authority = SlowAuthority(token)
    reviewer = TokenReviewer(authority, SYSTEM_CLOCK, expected=webhook_user("aaq"))
    routes = controller_routes(
        is_leader=lambda: True,
        problem=str,
        metrics=bytes,
        resizes=grant,
        metrics_guard=None,
        resizes_guard=bearer_guard(reviewer.find_username, only(webhook_user("aaq"))),
    )
    async with running(tmp_path, routes, LIMITS) as server:
        codes: list[int] = []
        strangers = [asyncio.create_task(bother(server, each, codes)) for each in range(STRANGERS)]
        try:
            await until(lambda: codes.count(429) >= STRANGERS and authority.strangers)
            settings = LeaderClientSettings(
                namespace="aaq",
                token_file=str(tmp_path / "token"),
                authority_file=str(tmp_path / "ca.crt"),
            )
            async with LeaderClient(OneLease(server.url("")), settings) as client:
                replies = [await client.reserve_resize(_request(number)) for number in range(3)]
        finally:
            for each in strangers:
                each.cancel()
            await asyncio.gather(*strangers, return_exceptions=True)

    assert replies == [Granted()] * 3


def _request(number: int) -> ResizeRequest:
    return ResizeRequest(
        id=f"r-{number}",
        namespace="shop",
        name="web",
        uid="u",
        old=b"{}",
        new=b"{}",
        is_dry_run=False,
    )
