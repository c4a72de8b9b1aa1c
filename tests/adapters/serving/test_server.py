"""The routes of the webhook over HTTPS: probes, refusals before a review is judged, and metrics."""

import asyncio
import json
import ssl

import pytest

from bursar.adapters.serving.limits import ServerLimits
from support.builders.reviews import a_review, a_reviewer, an_arq, raw_pod, routes_of, running
from support.http_peer import request_bytes

LIMITS = ServerLimits(linger_seconds=0.05, finish_seconds=5)


@pytest.fixture
async def webhook(tmp_path):
    async with running(tmp_path, routes_of(a_reviewer()), LIMITS) as server:
        yield server


async def test_u_srv_01_health_is_ok(webhook):
    assert await webhook.get("/healthz") == (200, "OK")


async def test_the_webhook_is_ready(webhook):
    assert await webhook.get("/readyz") == (200, "OK")


async def test_u_srv_02_a_review_of_a_quota_is_answered(webhook):
    review = json.dumps(a_review("ApplicationAwareResourceQuota", "CREATE", an_arq())).encode()

    code, answer = await webhook.ask("/serve-path", review)

    assert code == 200
    assert json.loads(answer)["response"]["allowed"]


@pytest.mark.parametrize("path", ["/serve-path", "/gate", "/validate"])
async def test_every_path_answers_every_review(webhook, path):
    code, answer = await webhook.ask(
        path, json.dumps(a_review("Pod", "CREATE", raw_pod())).encode()
    )

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
async def test_requests_that_are_no_reviews_get_aaqs_answers(
    webhook, body, content_type, code, text
):
    assert await webhook.ask("/serve-path", body, content_type) == (code, text)


async def test_broken_json_is_a_bad_request(webhook):
    code, text = await webhook.ask("/serve-path", b"{")

    assert code == 400
    assert text.startswith("could not parse admission review request: ")


async def test_a_review_of_an_unknown_kind_is_a_server_error(webhook):
    code, text = await webhook.ask(
        "/serve-path", json.dumps(a_review("Secret", "CREATE", {"data": "hidden"})).encode()
    )

    assert code == 500
    assert text.startswith(
        "could not generate admission response: AAQ webhook doesn't recongnize request: "
    )
    assert "hidden" not in text


async def test_unknown_paths_are_not_found_and_cross_origin_requests_are_not_allowed(webhook):
    assert await webhook.ask("/else") == (404, "404 page not found")
    answer = await webhook.answer("OPTIONS", "/serve-path", Origin="https://example.com")

    assert (answer.code, answer.headers["allow"]) == (405, "POST")
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["server"] == "bursar"


async def test_reviews_are_counted_by_result(webhook):
    gating = json.dumps(a_review("Pod", "CREATE", raw_pod())).encode()
    denied = json.dumps(a_review("AAQ", "CREATE", {})).encode()
    for body in (gating, gating, denied, b"{"):
        await webhook.ask("/serve-path", body)

    code, text = await webhook.get("/metrics")

    assert code == 200
    assert 'bursar_admission_reviews_total{end="allowed"} 2\n' in text
    assert 'bursar_admission_reviews_total{end="denied"} 1\n' in text
    assert 'bursar_admission_reviews_total{end="error"} 1\n' in text


async def test_one_connection_serves_many_requests(webhook):
    peer = await webhook.connect()

    codes = [(await peer.ask("GET", "/healthz")).code for _ in range(5)]

    assert codes == [200] * 5


# ------------------------------------------------------------------ TLS


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


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["h2", "http/1.1"], "http/1.1"), (["h2"], None), ([], None)],
    ids=["both", "only h2", "none"],
)
async def test_a_client_that_offers_http_2_is_answered_in_http_1(webhook, offered, chosen):
    if offered:
        webhook.trust.set_alpn_protocols(offered)
    peer = await webhook.connect()

    assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
    assert (await peer.ask("GET", "/healthz")).code == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_request_of_many_tls_records_arrives_completely(webhook, version):
    webhook.trust.minimum_version = webhook.trust.maximum_version = version
    padded = json.dumps(a_review("Pod", "CREATE", raw_pod())).encode().ljust(2_000_000)

    code, answer = await webhook.ask("/gate", padded)

    assert (code, json.loads(answer)["response"]["allowed"]) == (200, True)


async def test_a_request_may_come_byte_by_byte(webhook):
    peer = await webhook.connect()
    for byte in request_bytes("GET", "/healthz"):
        await peer.send(bytes([byte]))

    assert (await peer.answer()).code == 200
