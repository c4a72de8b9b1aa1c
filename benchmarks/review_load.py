"""Sends admission reviews to an HTTPS server in another process, each kind in its turn."""

import itertools
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from certificates import Authority, Pair

K = TypeVar("K", bound=Hashable)

ROUNDS = 12
AT_ONCE = 8

Rounds = list[tuple[float, float]]
"""Requests per second and the 99th percentile of their latency in seconds, for each round."""


def a_request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, */*\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def measured(
    server: str, requests: Mapping[K, list[bytes]], count_of: Callable[[K], int]
) -> dict[K, Rounds]:
    """Run a server program that prints its port, and send each kind of request in turn."""
    found: dict[K, Rounds] = {kind: [] for kind in requests}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        _put(authority.server("server"), folder)
        with subprocess.Popen(
            [sys.executable, "-c", server, folder], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            peers = [_connect(port, authority) for _ in range(AT_ONCE)]
            for kind, each in requests.items():
                _latencies(peers, each, count_of(kind))  # to warm up
            for _ in range(ROUNDS):
                for kind, each in requests.items():
                    started = time.perf_counter()
                    taken = sorted(_latencies(peers, each, count_of(kind)))
                    elapsed = time.perf_counter() - started
                    found[kind].append((count_of(kind) / elapsed, taken[len(taken) * 99 // 100]))
            for peer in peers:
                peer.close()
            process.terminate()
    return found


def _put(pair: Pair, folder: str) -> None:
    for source, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
        Path(folder, name).write_bytes(source.read_bytes())


def _latencies(peers: list[ssl.SSLSocket], requests: list[bytes], count: int) -> list[float]:
    """Seconds until each response, with one request in progress on each connection."""
    taken = []
    wanted = itertools.cycle(requests)
    for _ in range(count // AT_ONCE):
        started = time.perf_counter()
        for peer in peers:
            peer.sendall(next(wanted))
        for peer in peers:
            _read_answer(peer)
            taken.append(time.perf_counter() - started)
    return taken


def _read_answer(peer: ssl.SSLSocket) -> None:
    got = b""
    while b"\r\n\r\n" not in got:
        got += peer.recv(65_536)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += peer.recv(65_536)


def _connect(port: int, authority: Authority) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost")
