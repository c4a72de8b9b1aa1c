"""Reading pods from the kubelet: responses, errors, endpoints and authentication."""

import asyncio
import contextlib
import gzip
import json
import os

import pytest

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.credentials import FixedCredentials, TokenFile, bearer
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kubelet.access import (
    READ_ONLY,
    KubeletAccess,
    KubeletTrust,
    kubelet_access,
)
from bursar.adapters.kubelet.endpoint import (
    READ_ONLY_PORT,
    REREAD_SECONDS,
    SECURE_PORT,
    Endpoint,
    FixedEndpoint,
    NodeEndpoint,
)
from bursar.adapters.kubelet.http import KubeletLimits
from bursar.adapters.kubelet.pods import KubeletPods
from bursar.app.cluster.ports import Key, NotFoundError, UnauthorizedError, UnavailableError
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod
from certificates import Authority
from program import free_port
from support.builders.kubeconfigs import HandClock
from support.cluster.access import CountedTokens
from support.faults.scripted_server import (
    STREAM_HEAD,
    answer,
    chatter,
    hang_up,
    http_chunk,
    scripted,
    silence,
    stream,
    verbatim,
)

BRIEF = KubeletLimits(seconds=0.3)
PATIENT = KubeletLimits(seconds=60)
JSON_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PODS = {"kind": "PodList", "items": [{"metadata": {"namespace": "web", "name": "a"}}]}


def names(body):
    try:
        items = json.loads(body)["items"] or ()
        return [DevicePod(**each["metadata"]) for each in items]
    except (KeyError, TypeError) as error:
        raise ValueError from error


def a_source(endpoint, access=READ_ONLY, limits=PATIENT):
    return KubeletPods(endpoint, access, decode=names, limits=limits)


@contextlib.asynccontextmanager
async def asking(*script, credentials=None, limits=PATIENT):
    """A kubelet with scripted responses, and a source that reads it."""
    access = READ_ONLY
    if credentials is not None:
        access = KubeletAccess(tls=None, credentials=credentials)
    async with scripted(*script) as server:
        endpoint = FixedEndpoint(Endpoint("127.0.0.1", server.port))
        async with a_source(endpoint, access, limits) as source:
            yield server, source


def dribble(piece):
    """A response that never ends."""
    return stream(then=chatter(piece))


async def complaint(source):
    with pytest.raises(SourceError) as caught:
        await source.read()
    text = str(caught.value)

    assert text.isprintable()
    return text.partition(": ")[2]


# ------------------------------------------------------------------ responses


async def test_the_pods_are_those_of_the_kubelets_response():
    async with asking(answer(200, PODS)) as (server, source):
        assert await source.read() == [DevicePod(namespace="web", name="a")]

    assert [(each.method, each.target) for each in server.received] == [("GET", "/pods")]


async def test_an_empty_node_has_no_pods():
    async with asking(answer(200, {"kind": "PodList", "items": None})) as (_, source):
        assert await source.read() == []


async def test_one_connection_serves_all_reads():
    async with asking(answer(200, PODS)) as (server, source):
        await asyncio.gather(*(source.read() for _ in range(5)))
        await source.read()

    assert server.connections_total == 1
    assert len(server.received) == 6


async def test_the_read_only_port_receives_no_credentials():
    async with asking(answer(200, PODS)) as (server, source):
        await source.read()

    assert "authorization" not in server.received[0].headers


async def test_compression_is_neither_requested_nor_decoded():
    packed = gzip.compress(json.dumps(PODS).encode())
    head = f"{JSON_HEAD}Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    async with asking(verbatim(head.encode() + packed)) as (server, source):
        assert await complaint(source) == "the answer is not a list of pods"

    assert server.received[0].headers["accept-encoding"] == "identity"


async def test_a_proxy_of_the_environment_is_not_used():
    before = os.environ.get("http_proxy")
    os.environ["http_proxy"] = "http://127.0.0.1:9"
    try:
        async with asking(answer(200, PODS)) as (_, source):
            assert len(await source.read()) == 1
    finally:
        del os.environ["http_proxy"]
        if before is not None:
            os.environ["http_proxy"] = before


# ------------------------------------------------------------------ invalid or missing responses


async def test_a_missing_response_times_out():
    async with asking(silence, limits=BRIEF) as (_, source):
        assert await complaint(source) == "no answer within 0.3 s"


async def test_a_response_that_never_ends_times_out():
    async with asking(dribble(b" "), limits=BRIEF) as (_, source):
        assert await complaint(source) == "no answer within 0.3 s"


@pytest.mark.slow
async def test_a_read_after_a_timeout_gets_its_own_response():
    limits = KubeletLimits(seconds=2)
    async with asking(silence, answer(200, PODS), limits=limits) as (_, source):
        await complaint(source)

        assert len(await source.read()) == 1


async def test_a_kubelet_that_is_down_is_an_error():
    endpoint = FixedEndpoint(Endpoint("127.0.0.1", free_port()))
    async with a_source(endpoint) as source:
        assert await complaint(source) == "no connection: connection refused"


async def test_a_response_that_is_cut_short_is_a_source_error():
    half = STREAM_HEAD + http_chunk(b'{"items"')
    async with asking(hang_up(half)) as (_, source):
        assert await complaint(source) == "the connection was closed inside the answer"


@pytest.mark.parametrize("garbage", [b"\xff\xfe", b" ", b"[]", b'{"items": [{}]}', b"<html>"])
async def test_a_body_that_is_not_a_list_of_pods_is_an_error(garbage):
    async with asking(stream(garbage)) as (_, source):
        assert await complaint(source) == "the answer is not a list of pods"


async def test_a_response_that_is_not_json_is_an_error():
    async with asking(answer(200, "<html>")) as (_, source):
        assert await complaint(source) == "not JSON: the answer is not a kubelet's"


async def test_a_body_that_is_too_large_is_not_read_to_its_end():
    limits = KubeletLimits(seconds=60, answer_bytes_max=1000)
    async with asking(dribble(b"x" * 600), limits=limits) as (server, source):
        assert await complaint(source) == "the answer is larger than 1000 bytes"
        await server.is_left.wait()


async def test_a_body_that_is_announced_as_too_large_is_not_read_at_all():
    limits = KubeletLimits(seconds=60, answer_bytes_max=1000)
    head = f"{JSON_HEAD}Content-Length: 1001\r\n\r\n"
    async with asking(verbatim(head.encode()), limits=limits) as (_, source):
        assert await complaint(source) == "the answer is larger than 1000 bytes"


async def test_a_body_of_just_the_size_is_taken():
    limits = KubeletLimits(seconds=60, answer_bytes_max=len(json.dumps(PODS)))
    async with asking(answer(200, PODS), limits=limits) as (_, source):
        assert len(await source.read()) == 1


async def test_a_cancelled_read_closes_its_connection():
    async with asking(dribble(b" ")) as (server, source):
        read = asyncio.ensure_future(source.read())
        await server.is_asked.wait()
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        await server.is_left.wait()


# ------------------------------------------------------------------ error responses


async def test_an_error_of_the_kubelet_shows_its_status_code():
    async with asking(answer(500, "secret\x1b[2J")) as (_, source):
        assert await complaint(source) == "the answer was 500"


async def test_a_redirect_is_not_followed():
    there = answer(307, "", Location="http://127.0.0.1:9/pods")
    async with asking(there, credentials=FixedCredentials(bearer("abc"))) as (server, source):
        text = await complaint(source)

    assert text == "307: redirects are not followed"
    assert len(server.received) == 1


async def test_a_refused_token_is_replaced_once():
    script = answer(401, "Unauthorized"), answer(200, PODS)
    async with asking(*script, credentials=CountedTokens()) as (server, source):
        assert len(await source.read()) == 1

    sent = [each.headers["authorization"] for each in server.received]
    assert sent == ["Bearer token-0", "Bearer token-1"]


async def test_a_second_refused_token_is_an_error():
    async with asking(answer(401, "Unauthorized"), credentials=CountedTokens()) as (server, source):
        text = await complaint(source)

    assert text.startswith("401: the kubelet does not accept our credentials; ")
    assert len(server.received) == 2


async def test_a_token_file_that_was_renewed_is_read_after_a_refusal(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    script = answer(200, PODS), answer(401, "Unauthorized"), answer(200, PODS)
    async with asking(*script, credentials=TokenFile(str(path), clock=HandClock())) as running:
        server, source = running
        await source.read()
        path.write_text("new")
        await source.read()

    sent = [each.headers["authorization"] for each in server.received]
    assert sent == ["Bearer old", "Bearer old", "Bearer new"]


async def test_missing_credentials_are_an_error_with_the_reason():
    class NoToken:
        async def headers(self):
            raise UnauthorizedError("the plugin\nfailed")

        def reject(self):
            pass

    async with asking(answer(200, PODS), credentials=NoToken()) as (server, source):
        assert await complaint(source) == "the plugin\\nfailed"

    assert server.received == []


@pytest.mark.parametrize(
    ("body", "who"),
    [
        (
            "Forbidden (user=system:serviceaccount:kube-system:agent, verb=get, resource=nodes)",
            "system:serviceaccount:kube-system:agent",
        ),
        ("Forbidden (user=\x1b[2J, verb=get)", "this account"),
        ("", "this account"),
    ],
)
async def test_a_403_names_the_missing_permission(body, who):
    async with asking(answer(403, body)) as (_, source):
        assert await complaint(source) == (
            f"403: {who} may not read the kubelet's pods; it needs `get` on `nodes/pods`, "
            "or on `nodes/proxy` for a kubelet before 1.33"
        )


# ------------------------------------------------------------------ endpoints


class Nodes:
    """A Reader of one Node, which a test can change or make fail."""

    def __init__(self, status):
        self.status = status
        self.error = None
        self.reads = 0

    async def get(self, _, key):
        assert key == Key("", "n1")
        self.reads += 1
        if self.error is not None:
            raise self.error
        return json.dumps({"metadata": {"name": "n1"}, "status": self.status}).encode()


def a_status(port=10250, **addresses):
    listed = [{"type": kind, "address": text} for kind, text in addresses.items()]
    return {"addresses": listed, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (a_status(InternalIP="10.0.0.1"), ("10.0.0.1", 10250)),
        (a_status(4250, Hostname="n1", InternalIP="10.0.0.1"), ("10.0.0.1", 4250)),
        (a_status(Hostname="n1"), ("n1", 10250)),
        (a_status(InternalIP="fd00::1"), ("fd00::1", 10250)),
        ({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}, ("10.0.0.1", SECURE_PORT)),
        (a_status(0, InternalIP="10.0.0.1"), ("10.0.0.1", SECURE_PORT)),
    ],
)
async def test_the_node_object_says_where_its_kubelet_listens(status, found):
    assert await NodeEndpoint(Nodes(status), "n1", clock=HandClock()).find() == found


async def test_the_first_address_of_a_type_is_used():
    status = a_status()
    status["addresses"] = [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "fd00::1"},
    ]

    assert (await NodeEndpoint(Nodes(status), "n1", clock=HandClock()).find()).host == "10.0.0.1"


async def test_a_configured_port_and_address_type_win():
    nodes = Nodes(a_status(Hostname="n1", InternalIP="10.0.0.1"))
    endpoint = NodeEndpoint(
        nodes, "n1", clock=HandClock(), address_types=["Hostname"], port=READ_ONLY_PORT
    )

    assert await endpoint.find() == ("n1", READ_ONLY_PORT)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (None, "has no address of these types: InternalIP, Hostname, "),
        (a_status(), "has no address of these types: InternalIP, Hostname, "),
        ({"addresses": 7}, "cannot be read"),
    ],
)
async def test_a_node_object_without_an_address_is_an_error(status, problem):
    with pytest.raises(SourceError, match=problem):
        await NodeEndpoint(Nodes(status), "n1", clock=HandClock()).find()


async def test_a_missing_node_is_an_error_of_one_line():
    nodes = Nodes(None)
    nodes.error = NotFoundError("no\nnode", code=404)
    with pytest.raises(SourceError) as caught:
        await NodeEndpoint(nodes, "n1", clock=HandClock()).find()

    assert str(caught.value) == "the address of the kubelet of node n1 is not known: no\\nnode"


async def test_the_node_is_read_again_after_a_failed_request():
    clock = HandClock()
    nodes = Nodes(a_status(InternalIP="10.0.0.1"))
    endpoint = NodeEndpoint(nodes, "n1", clock=clock)
    await endpoint.find()
    nodes.status = a_status(InternalIP="10.0.0.2")
    clock.seconds += REREAD_SECONDS

    assert (await endpoint.find()).host == "10.0.0.1"
    endpoint.invalidate()
    assert (await endpoint.find()).host == "10.0.0.2"
    assert nodes.reads == 2


async def test_the_node_is_not_read_more_often_than_the_limit():
    clock = HandClock()
    nodes = Nodes(a_status(InternalIP="10.0.0.1"))
    endpoint = NodeEndpoint(nodes, "n1", clock=clock)
    for _ in range(int(REREAD_SECONDS) + 1):
        await endpoint.find()
        endpoint.invalidate()
        clock.seconds += 1

    assert nodes.reads == 2


async def test_the_last_endpoint_stays_in_use_while_the_api_server_is_down():
    clock = HandClock()
    nodes = Nodes(a_status(InternalIP="10.0.0.1"))
    endpoint = NodeEndpoint(nodes, "n1", clock=clock)
    await endpoint.find()
    nodes.error = UnavailableError("down")
    endpoint.invalidate()
    clock.seconds += REREAD_SECONDS

    assert (await endpoint.find()).host == "10.0.0.1"


async def test_a_node_that_moved_is_found_after_one_failure():
    clock = HandClock()
    nodes = Nodes(a_status(free_port(), InternalIP="127.0.0.1"))
    async with (
        scripted(answer(200, PODS)) as server,
        a_source(NodeEndpoint(nodes, "n1", clock=clock)) as source,
    ):
        await complaint(source)
        nodes.status = a_status(server.port, InternalIP="127.0.0.1")
        clock.seconds += REREAD_SECONDS

        assert len(await source.read()) == 1


@pytest.mark.parametrize("endpoint", [Endpoint("no/host", 1), Endpoint("127.0.0.1", 70_000)])
async def test_an_invalid_endpoint_is_an_error(endpoint):
    async with a_source(FixedEndpoint(endpoint)) as source:
        assert await complaint(source) == "not an address"


# ------------------------------------------------------------------ authentication


def test_contradicting_settings_are_refused(tmp_path):
    cases = [
        KubeletTrust(is_insecure=True, authority_file="/ca"),
        KubeletTrust(certificate_file="/crt"),
        KubeletTrust(authority_file=str(tmp_path / "none")),
        KubeletTrust(token_file=str(tmp_path / "none")),
    ]
    for trust in cases:
        with pytest.raises(ConfigError):
            kubelet_access(trust, cluster=None, clock=SYSTEM_CLOCK)


def test_certificates_are_verified_unless_that_is_switched_off(tmp_path):
    authority = str(Authority(tmp_path).certificate)
    checked = kubelet_access(
        KubeletTrust(authority_file=authority), cluster=None, clock=SYSTEM_CLOCK
    )
    unchecked = kubelet_access(KubeletTrust(is_insecure=True), cluster=None, clock=SYSTEM_CLOCK)

    assert checked.ssl_context.check_hostname
    assert not unchecked.ssl_context.check_hostname
    assert (checked.scheme, READ_ONLY.scheme) == ("https", "http")
