"""Who may read /metrics: SubjectAccessReviews, cached for a while and bounded."""

import asyncio
import json
import uuid

import pytest

from bursar.adapters.kube import access_review
from bursar.adapters.kube.access_review import PathAccess
from bursar.adapters.kube.token_review import TokenReviewer, User
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.bearer import bearer_guard
from bursar.adapters.serving.message import Peer, Request
from bursar.app.cluster.kinds import NAMESPACES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import BusyError, ForbiddenError, Json, Resource, UnavailableError
from support.cluster.access import a_client, access_of
from support.until import until

SCRAPER = User(
    username="system:serviceaccount:monitoring:prometheus",
    uid="u-1",
    groups=("system:serviceaccounts", "system:authenticated"),
    extra={"authentication.kubernetes.io/pod-name": ("prometheus-0",)},
)


class Authority:
    """The SubjectAccessReview endpoint of an API server."""

    def __init__(self, *readers: str) -> None:
        self.readers = readers
        self.asked: list[Json] = []
        self.opinion: Exception | bytes | None = None
        self.delay: asyncio.Event | None = None

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        assert (str(resource), namespace, is_dry_run) == (
            "subjectaccessreviews.authorization.k8s.io",
            "",
            False,
        )
        self.asked.append(body["spec"])
        if self.delay is not None:
            await self.delay.wait()
        if isinstance(self.opinion, Exception):
            raise self.opinion
        status = {"allowed": body["spec"]["user"] in self.readers}
        return self.opinion or json.dumps({"status": status}).encode()


@pytest.fixture
def clock():
    return VirtualClock()


async def problem_of(clock: VirtualClock, access: PathAccess, user: User = SCRAPER) -> str:
    task = asyncio.ensure_future(access.problem_of(user))
    await clock.advance(0)
    return await task


async def test_the_api_server_is_told_all_that_it_said_of_the_user(clock):
    authority = Authority(SCRAPER.username)

    assert await problem_of(clock, PathAccess(authority, clock, "/metrics")) == ""
    assert authority.asked == [
        {
            "user": SCRAPER.username,
            "uid": "u-1",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
    ]


async def test_a_permission_is_asked_for_once_a_minute(clock):
    authority = Authority(SCRAPER.username)
    access = PathAccess(authority, clock, "/metrics")
    for _ in range(3):
        assert await problem_of(clock, access) == ""
    assert len(authority.asked) == 1

    authority.readers = ()
    await clock.advance(61)

    assert await problem_of(clock, access) == f"{SCRAPER.username} may not get /metrics"
    assert len(authority.asked) == 2
    authority.readers = (SCRAPER.username,)
    await clock.advance(11)
    assert await problem_of(clock, access) == ""


async def test_users_are_told_apart_by_everything_that_is_known_of_them(clock):
    authority = Authority(SCRAPER.username)
    access = PathAccess(authority, clock, "/metrics")
    await problem_of(clock, access)
    await problem_of(clock, access, User(username=SCRAPER.username))

    assert len(authority.asked) == 2


@pytest.mark.parametrize(
    "body", [b"{}", b'{"status": {}}', b'{"status": {"allowed": true, "denied": true}}']
)
async def test_only_a_clear_permission_counts(clock, body):
    authority = Authority()
    authority.opinion = body

    assert await problem_of(clock, PathAccess(authority, clock, "/metrics"))


async def test_errors_are_not_cached(clock):
    authority = Authority(SCRAPER.username)
    access = PathAccess(authority, clock, "/metrics")
    authority.opinion = ForbiddenError("we may not ask")
    with pytest.raises(ForbiddenError):
        await problem_of(clock, access)
    authority.opinion = b"rubbish"
    with pytest.raises(UnavailableError, match="cannot be read"):
        await problem_of(clock, access)

    authority.opinion = None
    assert await problem_of(clock, access) == ""


async def test_reviews_and_their_results_are_bounded(clock):
    authority = Authority()
    authority.delay = asyncio.Event()
    access = PathAccess(authority, clock, "/metrics")
    asking = [
        asyncio.ensure_future(access.problem_of(User(username=f"user-{number}")))
        for number in range(access_review.PLACES_MAX)
    ]
    await clock.advance(0)
    assert len(authority.asked) == access_review.REVIEWS_MAX
    with pytest.raises(BusyError):
        await access.problem_of(SCRAPER)
    await clock.advance(access_review.REVIEW_SECONDS)
    late = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(each, UnavailableError) for each in late)

    authority.delay = None
    for number in range(access_review.RESULTS_MAX + 10):
        await problem_of(clock, access, User(username=f"user-{number}"))
    assert len(access._results) == access_review.RESULTS_MAX


# ------------------------------------------------------------------ together with tokens


class Unreachable:
    async def create(self, *_: object, **__: object) -> bytes:
        raise UnavailableError("no API server")


class Crowded:
    async def find_user(self, token: str, address: str) -> User | None:  # noqa: ARG002 - the port's
        raise BusyError("too many")


async def find_anyone(token: str, address: str) -> User | None:  # noqa: ARG001 - the port's
    """Every token is valid, and names its user."""
    return User(username=token)


def a_scrape(token: str = "", address: str = "10.0.0.1") -> Request:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return Request(method="GET", path="/metrics", headers=headers, peer=Peer(address))


async def test_one_address_with_any_number_of_valid_tokens_does_not_shut_out_a_scraper(clock):
    authority = Authority(SCRAPER.username)
    authority.delay = asyncio.Event()
    guard = bearer_guard(find_anyone, PathAccess(authority, clock, "/metrics").problem_of)
    tenants = [
        asyncio.ensure_future(guard(a_scrape(f"tenant-{number}", "10.0.0.66")))
        for number in range(2 * access_review.PLACES_MAX)
    ]
    await clock.advance(0)
    scraper = asyncio.ensure_future(guard(a_scrape(SCRAPER.username)))
    await clock.advance(0)
    authority.delay.set()

    assert await scraper is None
    codes = {response.code for response in await asyncio.gather(*tenants)}
    assert codes == {403, 429}


async def test_without_an_api_server_nobody_reads_and_with_too_many_callers_later(clock):
    reviewer = TokenReviewer(Unreachable(), clock)
    guard = bearer_guard(reviewer.find_user, PathAccess(Unreachable(), clock, "/").problem_of)
    nobody = await guard(a_scrape())
    assert (nobody.code, nobody.headers) == (401, (("WWW-Authenticate", "Bearer"),))
    asking = asyncio.ensure_future(guard(a_scrape("x")))
    await clock.advance(0)
    assert (await asking).code == 503

    guard = bearer_guard(Crowded().find_user, PathAccess(Unreachable(), clock, "/").problem_of)
    busy = await guard(a_scrape("x"))
    assert (busy.code, busy.headers) == (429, (("Retry-After", "1"),))


async def test_a_real_api_server_decides_who_reads_metrics(control_plane):
    name = f"metrics-{uuid.uuid4().hex[:8]}"
    version = "rbac.authorization.k8s.io/v1"
    rbac = f"/apis/{version}"
    role = {
        "apiVersion": version,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    subject = {"kind": "ServiceAccount", "namespace": name, "name": "scraper"}
    binding = {
        "apiVersion": version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    tokens = {}
    async with a_client(access_of(control_plane)) as client:
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        for account in ("scraper", "stranger"):
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
            await client.create(SERVICE_ACCOUNTS, body, namespace=name)
            path = f"/api/v1/namespaces/{name}/serviceaccounts/{account}/token"
            _, text = control_plane.request(
                "POST",
                path,
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
            )
            tokens[account] = json.loads(text)["status"]["token"]
        control_plane.request("POST", f"{rbac}/clusterroles", role)
        control_plane.request("POST", f"{rbac}/clusterrolebindings", binding)
        clock = VirtualClock()
        guard = bearer_guard(
            TokenReviewer(client, clock).find_user, PathAccess(client, clock, "/metrics").problem_of
        )

        async def may_read() -> bool:
            await clock.advance(access_review.ALLOWED_SECONDS)
            return await guard(a_scrape(tokens["scraper"])) is None

        # The authorizer learns of the binding by a watch of its own.
        await until(may_read)
        assert (await guard(a_scrape(tokens["stranger"]))).code == 403
        assert (await guard(a_scrape("made-up"))).code == 401
