"""The HTTPS server: paths, errors before a review is judged, bounds, and an orderly end."""

import asyncio
import json
import ssl

import aiohttp
import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.server import Incoming, Outgoing, ServerLimits
from support.admission_notation import a_pod, a_review, a_reviewer, an_arq, routes_of, running

HASTY = ServerLimits(
    body_bytes_max=100_000, body_seconds=0.2, linger_seconds=0.05, finish_seconds=5
)


@pytest.fixture
async def webhook(tmp_path):
    async with running(tmp_path, routes_of(a_reviewer()), HASTY) as server:
        yield server


async def test_u_srv_01_health_is_ok(webhook):
    async with webhook.session.get(webhook.url("/healthz")) as response:
        assert (response.status, await response.text()) == (200, "OK")


async def test_it_is_ready_until_it_ends(webhook):
    assert await webhook.ask("/readyz") == (200, "OK")


async def test_u_srv_02_a_review_of_a_quota_is_answered(webhook):
    review = json.dumps(a_review("ApplicationAwareResourceQuota", "CREATE", an_arq())).encode()

    code, answer = await webhook.ask("/serve-path", review)

    assert code == 200
    assert json.loads(answer)["response"]["allowed"]


@pytest.mark.parametrize("path", ["/serve-path", "/gate", "/validate"])
async def test_every_path_answers_every_review(webhook, path):
    code, answer = await webhook.ask(path, json.dumps(a_review("Pod", "CREATE", a_pod())).encode())

    assert code == 200
    assert json.loads(answer)["response"]["patchType"] == "JSONPatch"


@pytest.mark.parametrize(
    ("body", "content_type", "code", "text"),
    [
        (b"{}", "text/plain", 400, 'Content-Type: "text/plain" should be "application/json"'),
        (b"", "text/plain", 400, 'Content-Type: "text/plain" should be "application/json"'),
        (b"", "application/json", 400, "admission request body is empty"),
        (b"", "application/json; charset=utf-8", 400, "admission request body is empty"),
        (b"{}", "application/json", 400, "admission review can't be used: request field is nil"),
    ],
)
async def test_what_is_no_review_gets_aaqs_answer(webhook, body, content_type, code, text):
    assert await webhook.ask("/serve-path", body, content_type) == (code, text)


async def test_broken_json_is_a_bad_request(webhook):
    code, text = await webhook.ask("/serve-path", b"{")

    assert code == 400
    assert text.startswith("could not parse admission review request: ")


async def test_a_review_nobody_can_judge_is_an_error_of_the_server(webhook):
    code, text = await webhook.ask(
        "/serve-path", json.dumps(a_review("Secret", "CREATE", {"data": "hidden"})).encode()
    )

    assert code == 500
    assert text.startswith(
        "could not generate admission response: AAQ webhook doesn't recongnize request: "
    )
    assert "hidden" not in text


async def test_other_paths_are_not_found_and_nobody_else_is_invited(webhook):
    assert (await webhook.ask("/else"))[0] == 404
    async with webhook.session.options(
        webhook.url("/serve-path"), headers={"Origin": "https://example.com"}
    ) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
        assert response.headers["Server"] == "bursar"


async def test_a_body_that_says_it_is_too_large_is_not_read(webhook):
    code, text = await webhook.ask("/healthz", b"x" * 100_001)

    assert (code, text) == (413, "the body is larger than 100000 bytes")


async def test_a_body_that_does_not_say_how_large_it_is_is_bounded_too(webhook):
    async def pieces():
        for _ in range(20):
            yield b"x" * 10_000

    headers = {"Content-Type": "application/json"}
    async with webhook.session.post(
        webhook.url("/healthz"), data=pieces(), headers=headers
    ) as response:
        assert response.status == 413


async def test_a_body_that_does_not_arrive_is_given_up(webhook):
    async def pieces():
        yield b"{"
        await asyncio.Event().wait()

    headers = {"Content-Type": "application/json"}
    async with webhook.session.post(
        webhook.url("/serve-path"), data=pieces(), headers=headers
    ) as response:
        assert response.status == 408


async def test_reviews_are_counted_by_how_they_ended(webhook):
    gating = json.dumps(a_review("Pod", "CREATE", a_pod())).encode()
    denied = json.dumps(a_review("AAQ", "CREATE", {})).encode()
    for body in (gating, gating, denied, b"{"):
        await webhook.ask("/serve-path", body)

    code, text = await webhook.ask("/metrics")

    assert code == 200
    assert 'bursar_admission_reviews_total{end="allowed"} 2\n' in text
    assert 'bursar_admission_reviews_total{end="denied"} 1\n' in text
    assert 'bursar_admission_reviews_total{end="error"} 1\n' in text


async def test_one_connection_serves_many_requests(webhook):
    connector = webhook.session.connector
    for _ in range(5):
        await webhook.ask("/healthz")

    assert len(connector._conns) == 1
    assert sum(map(len, connector._conns.values())) == 1


async def test_old_tls_is_refused(webhook):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", webhook.port, ssl=context)


# ------------------------------------------------------------------ the end


class Held:
    """A route that answers when it is told to."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, _: Incoming) -> Outgoing:
        self.is_asked.set()
        await self.may_answer.wait()
        return Outgoing(b"after all")


async def test_what_is_under_way_at_the_end_is_answered(tmp_path):
    held = Held()
    async with running(tmp_path, {"/held": held}, HASTY) as server:
        asking = asyncio.create_task(server.ask("/held"))
        await held.is_asked.wait()
        stopping = asyncio.create_task(server.server.stop())
        await asyncio.sleep(0)  # the first step of it closes the door
        with pytest.raises(aiohttp.ClientConnectorError):
            async with aiohttp.ClientSession() as other:
                await other.get(server.url("/held"))
        held.may_answer.set()

        assert await asking == (200, "after all")
        await stopping


async def test_what_never_ends_does_not_hold_up_the_end(tmp_path):
    held = Held()
    limits = ServerLimits(linger_seconds=0.01, finish_seconds=0.05)
    async with running(tmp_path, {"/held": held}, limits) as server:
        asking = asyncio.create_task(server.ask("/held"))
        await held.is_asked.wait()

        await server.server.stop()

        with pytest.raises(aiohttp.ClientError):
            await asking


async def test_a_server_that_is_ending_says_so_and_takes_no_more_on_a_connection(tmp_path):
    clock = VirtualClock()

    async def health(_: Incoming) -> Outgoing:
        return Outgoing(b"OK")

    async with running(tmp_path, {"/readyz": health}, clock=clock) as server:
        await server.ask("/readyz")
        stopping = asyncio.create_task(server.server.stop())
        await asyncio.sleep(0)

        async with server.session.get(server.url("/readyz")) as response:
            assert (response.status, await response.text()) == (503, "shutting down")
            assert response.headers["Connection"] == "close"
        await clock.advance(1)
        await stopping
