"""Our HTTP client beside aiohttp, httpcore (on h11) and httpx, over TLS on loopback.

The other clients are no dependencies of Bursar. They are installed from `requirements/bench.txt`
into the cache folder, and only the processes of this benchmark see them. The server is a process
of its own. Each measurement is a process of its own that runs `http_client_worker.py`.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from assets import cache_folder
from certificates import Authority
from ratio import Ratio

REQUIREMENTS = Path(__file__).parents[1] / "requirements" / "bench.txt"
WORKER = Path(__file__).with_name("http_client_worker.py")
RIVALS = ("aiohttp", "httpcore", "httpx")
ROUNDS = 3

SERVER = """
import asyncio, ssl, sys
certificate, key = sys.argv[1:3]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(certificate, key)
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
SMALL = HEAD + b"Content-Length: 2048\\r\\n\\r\\n" + b"x" * 2048
def chunk(data):
    return b"%x\\r\\n" % len(data) + data + b"\\r\\n"
EVENT = b"x" * 9000 + b"\\n"
STREAMS = {b"/list": (chunk(b"x" * 2**16), 1024), b"/watch": (chunk(EVENT * 4), 5000)}
class Peer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data, self.flows = transport, b"", asyncio.Event()
        self.flows.set()
    def pause_writing(self):
        self.flows.clear()
    def resume_writing(self):
        self.flows.set()
    def data_received(self, data):
        self.data += data
        head, end, rest = self.data.partition(b"\\r\\n\\r\\n")
        if not end:
            return
        _, found, length = head.lower().partition(b"content-length:")
        size = int(length.split(b"\\r\\n")[0]) if found else 0
        if len(rest) < size:
            return
        self.data = b""
        stream = STREAMS.get(head.split(b" ", 2)[1])
        if stream is None:
            self.transport.write(SMALL)
        else:
            self.task = asyncio.ensure_future(self.send(*stream))
    async def send(self, piece, count):
        self.transport.write(HEAD + b"Transfer-Encoding: chunked\\r\\n\\r\\n")
        for _ in range(count):
            await self.flows.wait()
            self.transport.write(piece)
        self.transport.write(b"0\\r\\n\\r\\n")
async def main():
    server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def rivals_folder() -> Path:
    """The folder with the other clients, installed on first use."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_folder() / f"bench-{version}-{digest}"
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "--no-deps"]
        subprocess.run([*pip, "--target", draft, "-r", REQUIREMENTS], check=True)
        draft.replace(folder)
    return folder


@contextmanager
def serving() -> Iterator[tuple[int, str]]:
    """A server in another process: its port, and the file of its authority."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        pair = authority.server("server")
        command = [sys.executable, "-c", SERVER, str(pair.certificate), str(pair.key)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            try:
                yield int(server.stdout.readline()), str(authority.certificate)
            finally:
                server.kill()


def run_worker(client: str, case: str, port: int, authority: str) -> dict[str, float]:
    """The figures of one client in one case, by name."""
    done = subprocess.run(
        [sys.executable, WORKER, client, case, str(port), authority],
        env={**os.environ, "PYTHONPATH": str(rivals_folder())},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


CASES = {
    "memory": ("process with 4 TLS connections", {"mb": "MB"}),
    "get_one": ("GET of 2 KB, one at a time", {"per_s": "requests/s", "cpu_us": "us CPU"}),
    "get": ("GET of 2 KB, 16 in flight", {"per_s": "requests/s", "cpu_us": "us CPU"}),
    "patch": ("PATCH, 16 in flight", {"per_s": "requests/s", "cpu_us": "us CPU"}),
    "list": ("read a body of 64 MiB", {"ms": "ms", "cpu_ms": "ms CPU", "mb": "MB peak"}),
    "watch": ("stream of 20,000 events", {"ms": "ms", "cpu_ms": "ms CPU"}),
}


def measure() -> Iterator[Ratio]:
    clients = ("ours", *RIVALS)
    with serving() as (port, authority):
        for case, (what, units) in CASES.items():
            # All clients take turns, so that other load on the machine hits all of them.
            rounds = [
                {client: run_worker(client, case, port, authority) for client in clients}
                for _ in range(ROUNDS)
            ]
            for figure, unit in units.items():
                median = {
                    client: statistics.median(each[client][figure] for each in rounds)
                    for client in clients
                }
                for rival in RIVALS:
                    yield Ratio(what, median["ours"], rival, median[rival], unit)
