"""A whole kubelet without containers: kubemark's, with its socket, its `/pods` and static pods.

It opens its ports to everyone and keeps its files below `/tmp`, neither of which can be changed.
So it runs in a network and a mount of its own, for which it takes root. Its socket is a file and
can be reached from anywhere; its read-only port by `forwarded`.
"""

import asyncio
import ctypes
import http.client
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from assets import ensure
from program import Program
from support.faults.relay import Relay, Streams

NODE = "hollow-0"
PORT = 10250
"""Kubelet's usual port, but plain HTTP here and nobody is asked who they are."""
READ_ONLY_PORT = 10255
LOOPBACK = "127.0.0.1"
CLONE_NEWNET = 0x40000000

# The program is opened before `/tmp` is covered: it may live there.
LAUNCH = """
exec 9<"$1" && "$2" -c "$3" && mount --bind "$4" /tmp && shift 4 && exec /proc/self/fd/9 "$@"
"""
# A new network's loopback is down, and `ip` is not on every machine.
LOOPBACK_UP = """
import fcntl, socket, struct
SIOCGIFFLAGS, SIOCSIFFLAGS, UP = 0x8913, 0x8914, 1
with socket.socket() as line:
    asked = struct.pack("16sH", b"lo", 0)
    name, flags = struct.unpack("16sH", fcntl.ioctl(line, SIOCGIFFLAGS, asked))
    fcntl.ioctl(line, SIOCSIFFLAGS, struct.pack("16sH", name, flags | UP))
"""
NO_API_SERVER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "nowhere",
    "clusters": [{"name": "nowhere", "cluster": {"server": f"http://{LOOPBACK}:1"}}],
    "users": [{"name": "nobody", "user": {}}],
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
}


class HollowKubelet:
    """Starts, restarts and ends. `socket` is the same path while kubelet's own folder changes."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "pod-resources" / "kubelet.sock"
        self._folder = folder
        self._tmp = folder / "tmp"
        self._tmp.mkdir()
        (self._tmp / "kubeconfig").write_text(json.dumps(NO_API_SERVER))
        self._manifests: dict[str, dict[str, Any]] = {}
        self._roots: list[Path] = []
        self._program = self._kubemark()

    def start(self) -> None:
        self._program.start()
        self._program.wait_ready()

    def restart(self) -> None:
        """As kubelet restarts: at once, and until it is back its old socket refuses connections.

        A static pod gets a new UID by that, unless its manifest names one.
        """
        self.kill()
        self.start()
        for old in self._roots[:-1]:
            shutil.rmtree(old, ignore_errors=True)

    def kill(self) -> None:
        self._program.kill()

    def place(self, name: str, pod: dict[str, Any]) -> None:
        """Put a static pod's manifest there, or another in its place. Kubelet notices soon."""
        self._manifests[name] = pod
        self._write(name)

    @asynccontextmanager
    async def forwarded(self) -> AsyncIterator[int]:
        """A port on our loopback that leads to kubelet's read-only one, across its restarts too."""

        async def dial(*_: object) -> Streams:
            return await self._connect_inside(READ_ONLY_PORT)

        async with Relay(dial).running() as relay:
            yield relay.port

    # -------------------------------------------------------------- inside

    def _kubemark(self) -> Program:
        command = ["unshare", "--net", "--mount", "sh", "-c", LAUNCH, "sh"]
        command += [str(ensure("kubemark")), sys.executable, LOOPBACK_UP, str(self._tmp)]
        command += [
            "--morph=kubelet",
            f"--name={NODE}",
            "--kubeconfig=/tmp/kubeconfig",
            f"--kubelet-port={PORT}",
            f"--kubelet-read-only-port={READ_ONLY_PORT}",
            "--use-host-image-service=false",  # the other one wants containerd
            "--v=2",
        ]
        log = self._folder / "kubelet.log"
        return Program("hollow kubelet", command, log=log, is_ready=self._is_ready)

    def _is_ready(self) -> bool:
        if not self._program.is_running:
            return False
        new = [path for path in self._tmp.glob("hollow-kubelet.*") if path not in self._roots]
        if new:
            self._adopt(new[0])
        return self._answers()

    def _answers(self) -> bool:
        with suppress(OSError), closing(socket.socket(socket.AF_UNIX)) as line:
            line.connect(str(self.socket))
            return all("items" in self._pods(port) for port in (PORT, READ_ONLY_PORT))
        return False

    def _pods(self, port: int) -> dict[str, Any]:
        """What kubelet tells about its pods, as any program on the node would be told."""
        with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=5)) as connection:
            connection.sock = self._socket_inside()
            connection.sock.settimeout(5)
            connection.sock.connect((LOOPBACK, port))
            connection.request("GET", "/pods")
            response = connection.getresponse()
            assert response.status == http.client.OK, response.read()
            told: dict[str, Any] = json.loads(response.read())
            return told

    def _adopt(self, root: Path) -> None:
        """Let the path that others know lead to a root folder that has just been made."""
        if (
            not list(root.glob("static-pods*"))
            or not (root / "pod-resources/kubelet.sock").exists()
        ):
            return
        self._roots.append(root)
        fresh = self._folder / "next"
        fresh.symlink_to(root / "pod-resources")
        fresh.replace(self.socket.parent)
        for name in self._manifests:
            self._write(name)

    def _write(self, name: str) -> None:
        # Kubelet looks at whole files only, and not at those that begin with a dot.
        final = self._static_pods() / f"{name}.json"
        draft = final.with_name(f".{final.name}")
        draft.write_text(json.dumps(self._manifests[name]))
        draft.replace(final)

    def _static_pods(self) -> Path:
        [folder] = self._roots[-1].glob("static-pods*")
        return folder

    async def _connect_inside(self, port: int) -> Streams:
        line = self._socket_inside()
        line.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(line, (LOOPBACK, port))
        except OSError:
            line.close()
            raise
        return await asyncio.open_connection(sock=line)

    def _socket_inside(self) -> socket.socket:
        """A socket stays in the network where it was made; a thread may go there to make one."""
        if not self._program.is_running:
            raise ConnectionRefusedError("the hollow kubelet does not run")
        network = Path(f"/proc/{self._program.pid}/ns/net")
        with ThreadPoolExecutor(max_workers=1) as traveller:
            return traveller.submit(_socket_in, network).result()


@contextmanager
def hollow_kubelet() -> Iterator[HollowKubelet]:
    with tempfile.TemporaryDirectory(prefix="bursar-hollow-") as folder:
        kubelet = HollowKubelet(Path(folder))
        try:
            kubelet.start()
            yield kubelet
        finally:
            kubelet.kill()


def _socket_in(network: Path) -> socket.socket:
    """Moves the calling thread for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    with network.open("rb") as place:
        if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    return socket.socket()
