"""Health of the agent: each part for itself, and over HTTP."""

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.telemetry.agent.health import (
    Health,
    Part,
    inventory_part,
    pods_part,
    socket_part,
)
from bursar.adapters.telemetry.agent.http import AGENT_LIMITS, agent_routes
from support.http_peer import connected


@asynccontextmanager
async def listening(path):
    async def drop(_reader, writer):
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(drop, str(path))
    try:
        yield server
    finally:
        server.close()
        await server.wait_closed()


async def test_a_socket_is_healthy_while_a_server_listens_on_it():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kubelet.sock")
        missing = await socket_part("kubelet", str(path))
        async with listening(path):
            there = await socket_part("kubelet", str(path))
        path.touch()  # noqa: ASYNC240 - nobody else waits
        refused = await socket_part("kubelet", str(path))

    assert str(missing) == f"kubelet: {path}: no such file or directory"
    assert there == Part("kubelet")
    assert refused.problem == f"{path}: connection refused"


def test_stale_pods_are_healthy_and_their_age_is_shown():
    fresh = pods_part(is_usable=True, age_s=0.42, last_error="")
    old = pods_part(is_usable=True, age_s=42, last_error="kubelet: refused")
    never = pods_part(is_usable=False, age_s=None, last_error="")
    gone = pods_part(is_usable=False, age_s=400, last_error="kubelet: refused")

    assert str(fresh) == "pods: OK, 0.4 s old"
    assert str(old) == "pods: OK, 42.0 s old; kubelet: refused"
    assert str(never) == "pods: not read yet"
    assert str(gone) == "pods: kubelet: refused"
    assert [Health([each]).is_good for each in (fresh, old, never, gone)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_node_without_an_inventory_is_healthy():
    parts = [
        inventory_part(8, is_followed=True),
        inventory_part(None, is_followed=True),
        inventory_part(None, is_followed=False),
    ]

    assert [str(each) for each in parts] == [
        "inventory: OK, 8 devices",
        "inventory: OK, none known",
        "inventory: OK, not followed",
    ]


# ------------------------------------------------------------------ over HTTP


@asynccontextmanager
async def pages(*parts):
    """The port of a server with the agent's routes."""

    async def health():
        return Health(parts)

    routes = agent_routes(metrics=lambda: b"bursar_up 1\n", health=health, metrics_guard=None)
    server = HttpServer(routes, clock=SYSTEM_CLOCK, limits=AGENT_LIMITS)
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.stop()


async def test_weakness_26_readiness_lists_each_part():
    async with pages(Part("serving"), Part("kubelet", "refused")) as port, connected(port) as peer:
        ready = await peer.ask("GET", "/readyz")
        alive = await peer.ask("GET", "/healthz")

        assert (ready.code, ready.text) == (503, "serving: OK\nkubelet: refused\n")
        assert (alive.code, alive.text) == (200, "OK")
    async with pages(Part("serving"), Part("kubelet")) as port, connected(port) as peer:
        ready = await peer.ask("GET", "/readyz")

        assert (ready.code, ready.text) == (200, "serving: OK\nkubelet: OK\n")


async def test_metrics_have_prometheus_content_type():
    async with pages() as port, connected(port) as peer:
        answer = await peer.ask("GET", "/metrics")

        assert answer.text == "bursar_up 1\n"
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.headers["server"] == "bursar"


async def test_other_paths_and_methods_are_refused():
    async with pages() as port, connected(port) as peer:
        elsewhere = await peer.ask("GET", "/debug")
        head = await peer.ask("HEAD", "/healthz")
        writing = await peer.ask("POST", "/metrics", b"x")

        assert (elsewhere.code, writing.code, head.code) == (404, 405, 200)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /metrics", b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2**17, b"\0" * 99],
    ids=["nothing", "half", "too much", "noise"],
)
async def test_a_client_that_does_not_speak_http_is_disconnected(sent):
    async with pages(Part("serving")) as port, connected(port) as peer, connected(port) as other:
        await peer.send(sent)
        peer.writer.write_eof()

        assert b"bursar_up" not in await peer.reader.read()
        assert (await other.ask("GET", "/healthz")).code == 200


async def test_the_server_stops_while_clients_are_connected():
    async with pages(Part("serving")) as port, connected(port) as silent, connected(port) as peer:
        await silent.send(b"GET /hea")
        assert (await peer.ask("GET", "/healthz")).code == 200
