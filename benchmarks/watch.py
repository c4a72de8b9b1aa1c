"""Events taken in from a watch, against a program that only reads the socket and throws away.

The server is another process of ours on loopback that sends the same stream to both:
pods of about nine kilobytes, as JSON lines in chunks, over TLS.
"""

import asyncio
import json
import random
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from bursar.adapters.client_auth.credentials import Credentials, FixedCredentials
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import PODS
from certificates import Authority
from ratio import Ratio

EVENTS = 20_000

SERVER = """
import socket, ssl, sys
certificate, key, count = sys.argv[1:4]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(certificate, key)
line = sys.stdin.buffer.read()
block = line * 16
chunk = b"%x\\r\\n" % len(block) + block + b"\\r\\n"
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    for _ in range(2):
        plain, _ = server.accept()
        with context.wrap_socket(plain, server_side=True) as peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
                         b"Transfer-Encoding: chunked\\r\\n\\r\\n")
            for _ in range(int(count) // 16):
                peer.sendall(chunk)
            peer.sendall(b"0\\r\\n\\r\\n")
"""


def an_event() -> bytes:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-6d4b75cb6d-hxk2p",
            "namespace": "retail",
            "uid": "0b1c9f3e-7d1a-4a55-9a43-3f0a53a8f8a1",
            "resourceVersion": "123456",
            "annotations": {"padding": "x" * 8000},
        },
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    }
    return json.dumps({"type": "MODIFIED", "object": pod}).encode() + b"\n"


@dataclass
class Access:
    server: str
    ssl_context: ssl.SSLContext
    credentials: Credentials = field(default_factory=FixedCredentials)
    tls_server_name: str = ""
    proxy_url: str = ""


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read_bare(port: int, context: ssl.SSLContext) -> None:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as peer,
    ):
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        tail = b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            tail = (tail + peer.recv(262_144))[-16:]


async def read_watch(port: int, context: ssl.SSLContext) -> int:
    access = Access(f"https://localhost:{port}", context)
    seen = 0
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=random.SystemRandom()) as client:
        async for _ in client.watch(PODS, resource_version="1"):
            seen += 1
    return seen


@contextmanager
def streaming(script: str, count: int, stdin: bytes = b"") -> Iterator[tuple[int, ssl.SSLContext]]:
    """A server of ours in another process: its port, and whom to trust."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        pair = authority.server("server")
        context = ssl.create_default_context(cafile=str(authority.certificate))
        arguments = [str(pair.certificate), str(pair.key), str(count)]
        with subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(stdin)
            server.stdin.close()
            yield int(server.stdout.readline()), context


def measure() -> Iterator[Ratio]:
    with streaming(SERVER, EVENTS, an_event()) as (port, context):
        started = cpu_seconds()
        read_bare(port, context)
        bare = cpu_seconds() - started
        started = cpu_seconds()
        seen = asyncio.run(read_watch(port, context))
        ours = cpu_seconds() - started
    assert seen == EVENTS, f"{seen} of {EVENTS} events arrived"
    yield Ratio(
        "watch over TLS, CPU per event", ours / seen * 1e6, "bare socket", bare / seen * 1e6, "us"
    )
    yield Ratio("watch over TLS, per core", seen / ours, "bare socket", seen / bare, "events/s")
