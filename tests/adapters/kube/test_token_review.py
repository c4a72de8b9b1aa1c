"""Token reviews: cached for a while, bounded, and without storing tokens."""

import asyncio
import base64
import json
import uuid

import pytest

from bursar.adapters.kube import token_review
from bursar.adapters.kube.token_review import TOKEN_LENGTH_MAX, TokenReviewer, claimed_user
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.cluster.kinds import NAMESPACES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import BusyError, ForbiddenError, Json, Resource, UnavailableError
from support.cluster.access import a_client, access_of

DEEP = b'{"deep": ' + b"[" * 9000
WEBHOOK = "system:serviceaccount:aaq:aaq-server"


class Authority:
    """The TokenReview endpoint of an API server."""

    def __init__(self, **usernames: str) -> None:
        self.usernames = usernames
        self.asked: list[str] = []
        self.opinion: Exception | bytes | None = None
        self.under_way = self.under_way_most = 0
        self.delay: asyncio.Event | None = None

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        assert (str(resource), namespace, is_dry_run) == (
            "tokenreviews.authentication.k8s.io",
            "",
            False,
        )
        token = body["spec"]["token"]
        self.asked.append(token)
        self.under_way += 1
        self.under_way_most = max(self.under_way_most, self.under_way)
        if self.delay is not None:
            await self.delay.wait()
        self.under_way -= 1
        if isinstance(self.opinion, Exception):
            raise self.opinion
        if self.opinion is not None:
            return self.opinion
        known = token in self.usernames
        user = {"username": self.usernames[token], "groups": ["a"]} if known else {}
        status = {"authenticated": known, "user": user}
        return json.dumps({"kind": "TokenReview", "status": status}).encode()


@pytest.fixture
def clock():
    return VirtualClock()


async def answered(clock: VirtualClock, asking):
    """Await while virtual time advances, so that timeouts can fire."""
    task = asyncio.ensure_future(asking)
    await clock.advance(0)
    return await task


async def test_a_valid_token_is_reviewed_once_a_minute(clock):
    authority = Authority(good=WEBHOOK)
    reviewer = TokenReviewer(authority, clock)

    for _ in range(3):
        assert await answered(clock, reviewer.find_username("good")) == WEBHOOK
    assert authority.asked == ["good"]

    await clock.advance(61)
    authority.usernames = {}
    assert await answered(clock, reviewer.find_username("good")) is None
    assert authority.asked == ["good", "good"]


async def test_an_invalid_token_is_reviewed_again_after_seconds(clock):
    authority = Authority()
    reviewer = TokenReviewer(authority, clock)

    for _ in range(3):
        assert await answered(clock, reviewer.find_username("new")) is None
    authority.usernames = {"new": WEBHOOK}
    await clock.advance(6)

    assert await answered(clock, reviewer.find_username("new")) == WEBHOOK
    assert authority.asked == ["new", "new"]


async def test_an_impossible_token_is_not_reviewed(clock):
    authority = Authority()
    reviewer = TokenReviewer(authority, clock)

    assert await reviewer.find_username("") is None
    assert await reviewer.find_username("x" * (TOKEN_LENGTH_MAX + 1)) is None
    assert authority.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"status": {}}',
        b'{"status": {"authenticated": true}}',
        b'{"status": {"authenticated": true, "user": {}}}',
        b'{"status": {"authenticated": false, "user": {"username": "me"}}}',
    ],
)
async def test_a_review_without_a_user_name_is_no_user(clock, body):
    authority = Authority()
    authority.opinion = body

    assert await answered(clock, TokenReviewer(authority, clock).find_username("x")) is None


async def test_errors_are_not_cached_and_show_no_token(clock):
    authority = Authority(secret=WEBHOOK)
    reviewer = TokenReviewer(authority, clock)

    authority.opinion = b'{"status": "secret'
    with pytest.raises(UnavailableError) as error:
        await answered(clock, reviewer.find_username("secret"))
    assert "secret" not in str(error.value)

    authority.opinion = ForbiddenError("we may not ask")
    with pytest.raises(ForbiddenError):
        await answered(clock, reviewer.find_username("secret"))

    authority.opinion = None
    assert await answered(clock, reviewer.find_username("secret")) == WEBHOOK
    assert "secret" not in repr(vars(reviewer))


async def test_a_review_without_an_answer_times_out(clock):
    authority = Authority(good=WEBHOOK)
    authority.delay = asyncio.Event()
    asking = asyncio.ensure_future(TokenReviewer(authority, clock).find_username("good"))

    await clock.advance(token_review.REVIEW_SECONDS)

    with pytest.raises(UnavailableError, match="within 3 s"):
        await asking


# ------------------------------------------------------------------ lanes


def a_jwt(user: str, number: int = 0) -> str:
    """What looks like a token of the user. Its signature is made up."""
    claims = json.dumps({"sub": user, "jti": str(number)}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


async def crowd(
    clock: VirtualClock, reviewer: TokenReviewer, tokens: list[str], address: str = ""
) -> list[asyncio.Future]:
    asking = [asyncio.ensure_future(reviewer.find_username(each, address)) for each in tokens]
    await clock.advance(0)
    return asking


async def refused(asking: list[asyncio.Future]) -> int:
    results = await asyncio.gather(*asking, return_exceptions=True)
    return sum(isinstance(each, BusyError) for each in results)


async def test_invalid_tokens_can_neither_flood_the_api_server_nor_evict_valid_ones(clock):
    authority = Authority(good=WEBHOOK)
    reviewer = TokenReviewer(authority, clock)
    await answered(clock, reviewer.find_username("good"))
    authority.delay = asyncio.Event()
    strangers = [f"stranger-{number}" for number in range(3_000)]
    asking = await crowd(clock, reviewer, strangers)
    authority.delay.set()
    await clock.advance(0)

    assert await refused(asking) == 3_000 - token_review.PLACES_MAX
    assert authority.under_way_most == token_review.REVIEWS_MAX
    assert await reviewer.find_username("good") == WEBHOOK
    assert authority.asked.count("good") == 1
    authority.delay = None
    for number in range(token_review.RESULTS_MAX + 10):
        await reviewer.find_username(f"later-{number}")
    assert len(reviewer._refused) == token_review.RESULTS_MAX


@pytest.mark.parametrize("is_jwt", [False, True], ids=["random", "forged claims"])
async def test_a_token_that_was_valid_is_reviewed_again_whatever_strangers_do(clock, is_jwt):
    authority = Authority(good=WEBHOOK)
    reviewer = TokenReviewer(authority, clock, expected=WEBHOOK)
    await answered(clock, reviewer.find_username("good"))
    await clock.advance(61)
    authority.delay = asyncio.Event()
    tokens = [a_jwt(WEBHOOK, each) if is_jwt else f"stranger-{each}" for each in range(3_000)]
    asking = await crowd(clock, reviewer, tokens)
    [renewed] = await crowd(clock, reviewer, ["good"])

    assert authority.asked[-1] == "good"
    authority.delay.set()
    await clock.advance(0)
    assert await renewed == WEBHOOK
    assert await refused(asking) == 3_000 - token_review.PLACES_MAX


async def test_a_new_token_of_the_expected_user_does_not_wait_for_random_tokens(clock):
    """The webhook's token is renewed every hour, while strangers go on."""
    token = a_jwt(WEBHOOK)
    authority = Authority(**{token: WEBHOOK})
    authority.delay = asyncio.Event()
    reviewer = TokenReviewer(authority, clock, expected=WEBHOOK)
    asking = await crowd(clock, reviewer, [f"stranger-{each}" for each in range(3_000)])
    [new] = await crowd(clock, reviewer, [token])

    assert authority.asked[-1] == token
    authority.delay.set()
    await clock.advance(0)
    assert await new == WEBHOOK
    await refused(asking)


async def test_one_address_cannot_fill_a_lane_even_with_forged_claims(clock):
    token = a_jwt(WEBHOOK, 9_999)
    authority = Authority(**{token: WEBHOOK})
    authority.delay = asyncio.Event()
    reviewer = TokenReviewer(authority, clock, expected=WEBHOOK)
    forged = [a_jwt(WEBHOOK, each) for each in range(3_000)]
    asking = await crowd(clock, reviewer, forged, "10.0.0.66")
    [new] = await crowd(clock, reviewer, [token], "10.0.0.7")
    authority.delay.set()
    await clock.advance(0)

    assert await new == WEBHOOK
    assert await refused(asking) == 3_000 - token_review.PLACES_PER_ADDRESS_MAX


async def test_a_tenant_with_thousands_of_valid_tokens_delays_nobody_else(clock):
    """A tenant can make any number of tokens of its own service accounts."""
    tenant = {f"tenant-{number}": "system:serviceaccount:shop:default" for number in range(2_000)}
    authority = Authority(good=WEBHOOK, **tenant)
    reviewer = TokenReviewer(authority, clock, expected=WEBHOOK)
    await answered(clock, reviewer.find_username("good"))
    for token in tenant:
        await answered(clock, reviewer.find_username(token, "10.0.0.66"))
    assert await reviewer.find_username("good") == WEBHOOK
    assert authority.asked.count("good") == 1
    assert len(reviewer._known) == len(reviewer._familiar) == token_review.RESULTS_MAX
    await clock.advance(61)
    authority.delay = asyncio.Event()
    asking = await crowd(clock, reviewer, list(tenant))
    [renewed] = await crowd(clock, reviewer, ["good"])

    assert authority.asked[-1] == "good"
    authority.delay.set()
    await clock.advance(0)
    assert await renewed == WEBHOOK
    await refused(asking)


async def test_callers_with_the_same_token_share_a_review_and_may_leave(clock):
    authority = Authority(good=WEBHOOK)
    authority.delay = asyncio.Event()
    reviewer = TokenReviewer(authority, clock)
    first, second = await crowd(clock, reviewer, ["good"] * 2)
    first.cancel()
    authority.delay.set()
    await clock.advance(0)

    assert await second == WEBHOOK
    assert authority.asked == ["good"]
    assert not reviewer._reviewing
    assert not reviewer._other_lane._by_address


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (a_jwt("me"), "me"),
        ("", ""),
        ("opaque", ""),
        ("a.b", ""),
        ("a.!!!.c", ""),
        ("a.e30.c", ""),
        ("a.W10.c", ""),
        ("a./w.c", ""),
        ("a.\u20ac.c", ""),
        (f"a.{base64.urlsafe_b64encode(DEEP).decode()}.c", ""),
    ],
)
def test_the_user_that_a_token_claims(token, user):
    assert claimed_user(token) == user


async def test_a_real_api_server_reviews_its_tokens(control_plane):
    namespace = f"tokens-{uuid.uuid4().hex[:8]}"
    async with a_client(access_of(control_plane)) as client:
        await client.create(
            NAMESPACES,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )
        await client.create(
            SERVICE_ACCOUNTS,
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "aaq-server"}},
            namespace=namespace,
        )
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/aaq-server/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        _, body = control_plane.request("POST", path, request)
        token = json.loads(body)["status"]["token"]
        reviewer = TokenReviewer(client, VirtualClock())

        assert (
            await reviewer.find_username(token) == f"system:serviceaccount:{namespace}:aaq-server"
        )
        assert await reviewer.find_username(f"{token}x") is None
        assert await reviewer.find_username("nonsense") is None
