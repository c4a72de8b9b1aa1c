"""`bursar agent` as a process, and a made-up read-only port of kubelet that it reads.

    with pods_port(gpu_pod("a", "GPU-1")) as port, AgentProcess(folder, *port.options) as agent:
        ...

It needs nothing else: kubelet's socket may be missing, and there is no API server.
"""

import http.client
import http.server
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from program import Program, free_port
from support.metrics.printed_metrics import samples
from support.processes.command_line import COMMAND

LOOPBACK = "127.0.0.1"
ANNOTATION = "scheduling.koordinator.sh/device-allocated"
Raw = dict[str, Any]


class AgentProcess:
    """Its socket is `socket`; what it writes to standard error is `log`."""

    def __init__(self, folder: Path, *options: str, kubelet_socket: Path | None = None) -> None:
        self.socket = folder / "agent" / "kubelet.sock"
        self.port = free_port()
        self.program = Program(
            "agent",
            [
                *(str(COMMAND), "agent"),
                f"--socket={self.socket}",
                f"--kubelet-socket={kubelet_socket or folder / 'nobody.sock'}",
                f"--bind={LOOPBACK}:{self.port}",
                # Most tests have no inventory. With --mode=compat the option has no effect.
                *(() if "--mode=compat" in options else ("--inventory=optional",)),
                "--metrics-auth=none",
                *options,
            ],
            log=folder / "agent.log",
            is_ready=lambda: self.socket.is_socket() and self.page("/healthz")[0] == 200,
        )

    def __enter__(self) -> Self:
        self.program.start()
        try:
            self.program.wait_ready()
        except BaseException:
            self.program.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.program.kill()

    def page(self, path: str) -> tuple[int, str]:
        """Code and text; (0, "") while nobody listens."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metrics(self) -> Mapping[str, float]:
        """By name with labels, as they are written."""
        return {name: float(value) for name, value in samples(self.page("/metrics")[1]).items()}

    def health(self) -> Mapping[str, str]:
        """What is said of each part."""
        return dict(line.split(": ", 1) for line in self.page("/readyz")[1].splitlines())

    def log(self) -> str:
        return self.program.log.read_text()

    def memory(self) -> Mapping[str, int]:
        """Bytes by the kernel's names: `VmRSS` is all, `RssAnon` what kubelet calls rssBytes."""
        status = Path(f"/proc/{self.program.pid}/status").read_text()
        lines = (line.split() for line in status.splitlines() if line.endswith(" kB"))
        return {name.rstrip(":"): int(amount) * 1024 for name, amount, _ in lines}


# ------------------------------------------------------------------ kubelet's read-only port


class PodsPort:
    """Serves `/pods` over plain HTTP. `tell` changes the pods, `fail` makes it refuse."""

    def __init__(self) -> None:
        self.reads = 0
        self._code, self._body = 200, b""
        port = self

        class Pages(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                port.reads += 1
                code, body = port._code, port._body
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Port(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """An agent that is killed hangs up in the middle of things."""

        self.server = Port((LOOPBACK, 0), Pages)
        self.server.daemon_threads = True

    @property
    def options(self) -> Sequence[str]:
        """With which an agent asks here."""
        number = self.server.server_address[1]
        return (
            "--pods-from=kubelet-read-only",
            f"--kubelet-address={LOOPBACK}",
            f"--kubelet-read-only-port={number}",
        )

    def tell(self, pods: Sequence[Raw]) -> None:
        listed = {"apiVersion": "v1", "kind": "PodList", "items": list(pods)}
        self._code, self._body = 200, json.dumps(listed).encode()

    def fail(self, code: int = 500) -> None:
        self._code = code


@contextmanager
def pods_port(*pods: Raw) -> Iterator[PodsPort]:
    port = PodsPort()
    port.tell(pods)
    thread = threading.Thread(target=port.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield port
    finally:
        port.server.shutdown()
        port.server.server_close()
        thread.join()


def annotated_pod(
    name: str, annotation: str, *, asks: Mapping[str, str] | None = None, **metadata: str
) -> Raw:
    """A pod with one container `main` that asks for these, whatever its annotation says."""
    wanted = dict(asks or {})
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {ANNOTATION: annotation},
            **metadata,
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": wanted, "requests": wanted}}]
        },
        "status": {"phase": "Running"},
    }


def gpu_pod(name: str, *devices: str, **metadata: str) -> Raw:
    """A pod to which Koordinator gave whole GPUs."""
    given = [{"minor": minor, "id": device} for minor, device in enumerate(devices)]
    asks = {"nvidia.com/gpu": str(len(devices))}
    return annotated_pod(name, json.dumps({"gpu": given}), asks=asks, **metadata)
