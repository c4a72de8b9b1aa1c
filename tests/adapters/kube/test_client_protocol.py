"""The client against invalid responses, failing and throttling servers."""

import asyncio
import json
import traceback

import pytest

from bursar.adapters.client_auth.credentials import FixedCredentials
from bursar.adapters.kube.errors import UNKNOWN_RESOURCE
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import CONFIG_MAPS, DEPLOYMENTS, NODES
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    BusyError,
    ClusterError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
)
from program import free_port
from support.cluster.access import CountedTokens, HastyClock, PlainAccess, a_client, talk
from support.faults.scripted_server import (
    answer,
    failure,
    hang_up,
    scripted,
    silence,
    stream,
    verbatim,
)

KEY = Key("default", "web")
OBJECT = {"kind": "ConfigMap", "metadata": {"name": "web", "resourceVersion": "7"}}
EMPTY_LIST = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": None}
JSON_PATCH = Patch(kind=PatchKind.JSON, body=[])
MERGE_PATCH = Patch(kind=PatchKind.MERGE, body={})


def printed(error: Exception) -> str:
    """An error as a log would show it, without the source lines of this test."""
    return "".join(traceback.TracebackException.from_exception(error, limit=0).format())


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", ClusterError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (410, "Expired", ExpiredError),
        (410, "Gone", ExpiredError),
        (413, "RequestEntityTooLarge", InvalidError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", BusyError),
        (500, "InternalError", UnavailableError),
        (503, "ServiceUnavailable", UnavailableError),
        (504, "Timeout", UnavailableError),
    ],
)
async def test_each_status_becomes_its_error(code, reason, kind):
    told = failure(code, reason, "because", about=("configmaps", "web"))
    async with talk(told, clock=HastyClock()) as (_, client):
        with pytest.raises(ClusterError) as caught:
            await client.get(CONFIG_MAPS, KEY)

    error = caught.value
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "because")
    assert (error.resource, error.key) == ("configmaps", KEY)


@pytest.mark.parametrize("code", [302, 403, 404, 502, 599])
async def test_a_body_that_is_not_a_status_is_not_repeated(code):
    async with talk(answer(code, "<html>password=hunter2</html>")) as (_, client):
        with pytest.raises(ClusterError) as caught:
            await client.get(CONFIG_MAPS, KEY)

    assert str(code) in caught.value.message
    assert "hunter2" not in printed(caught.value)


# ------------------------------------------------------------------ who answers


async def error_of(script, *, method="get"):
    async with talk(script, clock=HastyClock()) as (_, client):
        ways = {
            "get": lambda: client.get(CONFIG_MAPS, KEY),
            "patch": lambda: client.patch(CONFIG_MAPS, KEY, JSON_PATCH),
            "list": lambda: client.list(CONFIG_MAPS),
        }
        with pytest.raises(ClusterError) as caught:
            await ways[method]()
    return caught.value


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 413, 422])
@pytest.mark.parametrize("method", ["get", "patch", "list"])
async def test_a_page_of_something_in_between_says_nothing_about_an_object(code, method):
    """A lost object, a conflict or a refusal would free what a pod may already use."""
    error = await error_of(answer(code, "<html>404 Not Found (nginx)</html>"), method=method)

    assert (type(error), error.code) == (UnavailableError, code)


async def test_a_status_with_another_code_than_the_response_is_not_believed():
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403}
    error = await error_of(answer(404, status | {"reason": "NotFound"}))

    assert type(error) is UnavailableError


@pytest.mark.parametrize(
    ("reason", "about", "kind"),
    [
        ("NotFound", ("configmaps", "web"), NotFoundError),
        ("NotFound", ("namespaces", "default"), NotFoundError),
        ("NotFound", ("configmaps", "another"), UnavailableError),
        ("NotFound", ("licences", "web"), UnavailableError),
        ("NotFound", ("", ""), UnavailableError),
        ("SomethingElse", ("configmaps", "web"), UnavailableError),
    ],
)
async def test_an_object_is_missing_only_if_the_server_names_it(reason, about, kind):
    """A webhook that denies a request decides about the code and the reason."""
    error = await error_of(failure(404, reason, about=about), method="patch")

    assert type(error) is kind


async def test_a_subresource_that_the_server_does_not_have_is_not_found():
    error = await error_of(failure(404, "NotFound", UNKNOWN_RESOURCE), method="patch")

    assert type(error) is NotFoundError


@pytest.mark.parametrize(
    ("headers", "kind"), [({"audit_id": "a-1"}, NotFoundError), ({}, UnavailableError)]
)
async def test_a_resource_is_unknown_only_if_an_api_server_says_so(headers, kind):
    """It does so without a `Status`, as many other programs do."""
    error = await error_of(answer(404, "404 page not found", **headers), method="list")

    assert type(error) is kind


@pytest.mark.parametrize(
    "script",
    [
        answer(200, "<html>Please log in, hunter2</html>"),
        verbatim(b"hunter2 is not HTTP\r\n\r\n"),
        hang_up(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"),
        hang_up(),
        answer(200, {"kind": "List", "hunter2": "a list without a moment"}),
        answer(200, ["hunter2"]),
        verbatim(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: 7\r\n\r\nhunter2"
        ),
    ],
)
async def test_an_invalid_response_means_unavailable(script):
    async with talk(script) as (_, client):
        with pytest.raises(UnavailableError) as caught:
            await client.list(CONFIG_MAPS)

    assert caught.value.resource == "configmaps"
    assert "hunter2" not in printed(caught.value)


async def test_a_refused_connection_means_unavailable_with_the_reason():
    async with a_client(PlainAccess(f"http://127.0.0.1:{free_port()}")) as client:
        with pytest.raises(UnavailableError, match="no connection: connection refused"):
            await client.get(CONFIG_MAPS, KEY)


async def test_an_unknown_host_means_unavailable_with_the_reason():
    async with a_client(PlainAccess("http://no-such-host.invalid")) as client:
        with pytest.raises(UnavailableError, match="cannot be resolved"):
            await client.get(CONFIG_MAPS, KEY)


async def test_a_silent_server_means_unavailable_within_the_deadline():
    limits = Limits(request_seconds=0.1, in_flight_max=8)
    async with talk(silence, limits=limits) as (_, client):
        with pytest.raises(UnavailableError, match=r"no answer within 0.1 s"):
            await client.get(CONFIG_MAPS, KEY)

        assert (client.limiter.limit, client.limiter.throttled_total) == (4, 1)


async def test_a_tls_handshake_that_never_ends_means_unavailable_within_the_deadline():
    async with scripted(silence) as server:
        access = PlainAccess(server.url.replace("http:", "https:"))
        async with a_client(access, limits=Limits(connect_seconds=0.1)) as client:
            with pytest.raises(UnavailableError, match=r"no connection within 0.1 s"):
                await client.get(CONFIG_MAPS, KEY)


async def test_the_wait_for_a_slot_is_bounded():
    limits = Limits(in_flight_min=1, in_flight_max=1, slot_seconds=0.05)
    async with talk(silence, limits=limits) as (server, client):
        first = asyncio.ensure_future(client.get(CONFIG_MAPS, KEY))
        await server.is_asked.wait()
        with pytest.raises(UnavailableError, match=r"not sent within 0.05 s, 1 requests in flight"):
            await client.get(CONFIG_MAPS, KEY)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_a_response_over_the_bound_is_not_read_to_its_end():
    huge = stream(b'{"items":[', *[b" " * 1000] * 100, b"]}")
    async with talk(huge, limits=Limits(answer_bytes_max=5000)) as (_, client):
        with pytest.raises(UnavailableError, match="larger than 5000 bytes"):
            await client.list(CONFIG_MAPS)


async def test_a_page_has_a_bound_of_its_own():
    huge = stream(b'{"items":[', *[b" " * 1000] * 100, b'],"metadata":{"resourceVersion":"1"}}')
    async with talk(huge, huge, limits=Limits(page_bytes_max=5000)) as (_, client):
        with pytest.raises(TooLargeError, match="larger than 5000 bytes"):
            await client.list(CONFIG_MAPS, limit=10)
        assert (await client.list(CONFIG_MAPS)).items == []


async def test_a_huge_error_page_still_shows_its_status_code():
    async with talk(answer(502, "x" * 3_000_000)) as (_, client):
        with pytest.raises(UnavailableError, match="502 Bad Gateway"):
            await client.get(CONFIG_MAPS, KEY)


# ------------------------------------------------------------------ retries


async def test_a_429_is_retried_after_its_retry_after():
    clock = HastyClock()
    busy = failure(429, "TooManyRequests", Retry_After="3")
    async with talk(busy, busy, answer(201, OBJECT), clock=clock) as (server, client):
        stored = await client.create(CONFIG_MAPS, OBJECT, namespace="default")

        assert client.limiter.throttled_total == 2

    assert json.loads(stored) == OBJECT
    assert [json.loads(received.body) for received in server.received] == [OBJECT] * 3
    assert 3 <= clock.sleeps[0] <= 3.25
    assert 3 <= clock.sleeps[1] <= 3.5


async def test_retries_end_and_the_error_has_the_retry_after():
    clock = HastyClock()
    async with talk(failure(429, "TooManyRequests", Retry_After="1"), clock=clock) as (
        server,
        client,
    ):
        with pytest.raises(BusyError) as caught:
            await client.get(CONFIG_MAPS, KEY)

    assert caught.value.retry_after == 1
    assert len(server.received) == Limits().attempts_max


async def test_a_retry_after_beyond_the_limit_is_not_waited_for():
    clock = HastyClock()
    async with talk(failure(429, "TooManyRequests", Retry_After="3600"), clock=clock) as (
        _,
        client,
    ):
        with pytest.raises(BusyError) as caught:
            await client.get(CONFIG_MAPS, KEY)

    assert caught.value.retry_after == 3600
    assert clock.sleeps == []


async def test_a_retry_after_can_be_a_date():
    clock = HastyClock()
    busy = failure(429, "TooManyRequests", Retry_After="Thu, 01 Jan 2026 00:00:07 GMT")
    async with talk(busy, answer(200, OBJECT), clock=clock) as (_, client):
        await client.get(CONFIG_MAPS, KEY)

    assert 7 <= clock.sleeps[0] <= 7.25


async def test_an_invalid_retry_after_is_ignored():
    clock = HastyClock()
    busy = failure(429, "TooManyRequests", Retry_After="soon")
    async with talk(busy, answer(200, OBJECT), clock=clock) as (_, client):
        await client.get(CONFIG_MAPS, KEY)

    assert 0 <= clock.sleeps[0] <= 0.25


@pytest.mark.parametrize(
    ("call", "requests"),
    [
        (lambda client: client.get(CONFIG_MAPS, KEY), 2),
        (lambda client: client.list(CONFIG_MAPS), 2),
        (lambda client: client.delete(CONFIG_MAPS, KEY), 2),
        (lambda client: client.patch(CONFIG_MAPS, KEY, MERGE_PATCH), 2),
        (lambda client: client.patch(CONFIG_MAPS, KEY, JSON_PATCH), 1),
        (lambda client: client.create(CONFIG_MAPS, OBJECT, namespace="default"), 1),
    ],
    ids=["get", "list", "delete", "merge", "json", "create"],
)
async def test_only_idempotent_requests_are_retried_on_503(call, requests):
    away = failure(503, "ServiceUnavailable", Retry_After="1")
    async with talk(away, answer(200, {**OBJECT, **EMPTY_LIST}), clock=HastyClock()) as (
        server,
        client,
    ):
        try:
            await call(client)
            is_done = True
        except UnavailableError:
            is_done = False

    assert len(server.received) == requests
    assert is_done == (requests == 2)


async def test_a_503_without_retry_after_is_not_retried():
    async with talk(failure(503, "ServiceUnavailable"), clock=HastyClock()) as (server, client):
        with pytest.raises(UnavailableError):
            await client.get(CONFIG_MAPS, KEY)

    assert len(server.received) == 1


async def test_rejected_credentials_are_renewed_once():
    tokens = CountedTokens()
    async with talk(failure(401, "Unauthorized"), answer(200, OBJECT), credentials=tokens) as (
        server,
        client,
    ):
        await client.get(CONFIG_MAPS, KEY)

    sent = [received.headers["authorization"] for received in server.received]
    assert sent == ["Bearer token-0", "Bearer token-1"]


async def test_credentials_rejected_twice_are_an_error():
    tokens = CountedTokens()
    async with talk(failure(401, "Unauthorized"), credentials=tokens) as (server, client):
        with pytest.raises(UnauthorizedError):
            await client.get(CONFIG_MAPS, KEY)

    assert len(server.received) == 2
    assert tokens.rejections == 2


async def test_a_repeated_header_is_sent_repeatedly():
    groups = [("Impersonate-Group", "one"), ("Impersonate-Group", "two")]
    credentials = FixedCredentials([("Impersonate-User", "me"), *groups])
    async with talk(answer(200, OBJECT), credentials=credentials) as (server, client):
        await client.get(CONFIG_MAPS, KEY)

    [received] = server.received
    assert received.headers["impersonate-user"] == "me"
    assert received.headers["impersonate-group"] == "one, two"


# ------------------------------------------------------------------ requests


async def test_concurrent_429s_halve_the_limit_once():
    busy = failure(429, "TooManyRequests", Retry_After="0")
    limits = Limits(in_flight_max=16)
    async with talk(*[busy] * 16, answer(200, OBJECT), limits=limits) as (server, client):
        await asyncio.gather(*(client.get(CONFIG_MAPS, KEY) for _ in range(40)))

        assert client.limiter.throttled_total == 16
        assert 8 <= client.limiter.limit <= 11
        assert client.limiter.in_flight == 0

    assert len(server.received) == 56
    assert server.connections_total <= 16


async def test_connections_are_reused():
    async with talk(answer(200, OBJECT)) as (server, client):
        for _ in range(5):
            await client.get(CONFIG_MAPS, KEY)
        with pytest.raises(InvalidError):
            await client.get(CONFIG_MAPS, Key("", "web"))

    assert server.connections_total == 1
    assert {received.headers["user-agent"][:7] for received in server.received} == {"bursar/"}


async def test_a_cancelled_request_closes_its_connection():
    async with talk(silence) as (server, client):
        task = asyncio.ensure_future(client.get(CONFIG_MAPS, KEY))
        await server.is_asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert client.limiter.in_flight == 0


@pytest.mark.parametrize(
    ("resource", "query", "target"),
    [
        (CONFIG_MAPS, Query(), "/api/v1/configmaps"),
        (CONFIG_MAPS, Query(namespace="a"), "/api/v1/namespaces/a/configmaps"),
        (NODES, Query(), "/api/v1/nodes"),
        (
            DEPLOYMENTS,
            Query(label_selector="a=b,c in (d)", field_selector="b=x"),
            "/apis/apps/v1/deployments?labelSelector=a%3Db%2Cc+in+%28d%29&fieldSelector=b%3Dx",
        ),
    ],
)
async def test_lists_use_the_path_and_selectors_of_the_query(resource, query, target):
    async with talk(answer(200, EMPTY_LIST)) as (server, client):
        page = await client.list(resource, query)

    assert (page.items, page.resource_version, page.next_page) == ([], "7", "")
    assert [received.target for received in server.received] == [target]


async def test_names_are_escaped_in_paths():
    crazy = Key("default", "system:a b?c#d")
    async with talk(answer(200, OBJECT)) as (server, client):
        await client.get(CONFIG_MAPS, crazy)

    [received] = server.received
    assert received.target == "/api/v1/namespaces/default/configmaps/system%3Aa%20b%3Fc%23d"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets", "%2e%2e"])
async def test_a_name_that_would_change_the_path_is_refused(name):
    async with talk(answer(200, OBJECT)) as (server, client):
        with pytest.raises(InvalidError, match="not a name"):
            await client.delete(CONFIG_MAPS, Key("default", name))

    assert server.received == []


async def test_requests_go_through_the_proxy():
    async with scripted(answer(200, OBJECT)) as proxy:
        access = PlainAccess("http://cluster.invalid/prefix", proxy_url=proxy.url)
        async with a_client(access) as client:
            await client.get(NODES, Key("", "a"))

    [received] = proxy.received
    assert received.target == "http://cluster.invalid/prefix/api/v1/nodes/a"


async def test_a_proxy_that_refuses_or_is_down_is_named_as_the_cause():
    async with scripted(answer(407, "hunter2")) as proxy:
        access = PlainAccess("https://cluster.invalid", proxy_url=proxy.url)
        async with a_client(access) as client:
            with pytest.raises(UnavailableError, match="the proxy answered 407"):
                await client.get(NODES, Key("", "a"))
    async with a_client(access) as client:
        with pytest.raises(UnavailableError, match="the proxy cannot be reached"):
            await client.get(NODES, Key("", "a"))
