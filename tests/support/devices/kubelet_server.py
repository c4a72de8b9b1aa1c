"""Kubelet's own PodResources server on a socket of ours, with pods and devices made up by tests.

    trainer = Pod("trainer", [Container("main", [Device("nvidia.com/gpu", "GPU-1")])])
    async with kubelet_server(trainer) as kubelet:

The server is upstream's, rate limit and metrics included. `adjustable` puts the same parts of
kubelet together with another rate limit, or lets calls fail, or sends fields of a newer kubelet.
"""

import base64
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from support.devices.upstream_programs import Dialogue


@dataclass(frozen=True)
class Device:
    """A device that a device plugin gave out, and the NUMA nodes it is near, where it told them."""

    resource: str
    id: str
    numa: Sequence[int] = ()


@dataclass(frozen=True)
class Memory:
    type: str
    size: int
    numa: Sequence[int] = (0,)


@dataclass(frozen=True)
class ClaimDevice:
    driver: str
    pool: str
    device: str
    cdi: Sequence[str] = ()
    share: str | None = None


@dataclass(frozen=True)
class Claim:
    """A claim of dynamic resource allocation, prepared for a container."""

    name: str
    devices: Sequence[ClaimDevice]
    namespace: str = "default"


@dataclass(frozen=True)
class Container:
    name: str
    devices: Sequence[Device] = ()
    cpus: Sequence[int] = ()
    memory: Sequence[Memory] = ()
    claims: Sequence[Claim] = ()
    restartable: bool = False
    """Among init containers: a sidecar."""


@dataclass(frozen=True)
class Pod:
    name: str
    containers: Sequence[Container] = (Container("main"),)
    namespace: str = "default"
    init: Sequence[Container] = ()
    uid: str = ""
    terminal: bool = False
    """Kubelet still knows it, but it has ended."""


@dataclass(frozen=True)
class Allocatable:
    """What the node has to give."""

    devices: Sequence[Device] = ()
    cpus: Sequence[int] = ()
    memory: Sequence[Memory] = ()


@dataclass(frozen=True)
class Contents:
    """Everything this kubelet knows."""

    pods: Sequence[Pod] = ()
    allocatable: Allocatable = Allocatable()
    unordered: bool = False
    """Pods come in another order each time, as they do from a kubelet."""
    delay_ms: int = 0
    failures: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Method (`List`) to the code and message it fails with; needs `adjustable`."""
    newer_fields: bytes = b""
    """Protobuf fields put into every message of every answer; needs `adjustable`."""

    def document(self) -> dict[str, Any]:
        written = asdict(self)
        for pod in written["pods"]:
            pod["uid"] = pod["uid"] or f"uid-{pod['namespace']}-{pod['name']}"
        written["failures"] = {
            method: {"code": code, "message": message}
            for method, (code, message) in self.failures.items()
        }
        written["newer_fields"] = base64.b64encode(self.newer_fields).decode()
        return written


class KubeletServer:
    """One server on one path. It can be restarted there, as kubelet is, and keeps its contents."""

    def __init__(self, socket: Path, arguments: Sequence[str]) -> None:
        self.socket = socket
        self._arguments = arguments
        self._contents = Contents()
        self._dialogue: Dialogue | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    async def start(self) -> None:
        """Takes the path, whatever an earlier server left there."""
        self._dialogue = await Dialogue.start(
            "serve", "-socket", str(self.socket), *self._arguments
        )
        await self.replace(self._contents)

    async def stop(self) -> None:
        """Ends it. As with kubelet, the socket stays behind and refuses connections."""
        if self._dialogue is not None:
            await self._dialogue.close()
            self._dialogue = None

    async def kill(self) -> None:
        if self._dialogue is not None:
            await self._dialogue.kill()
            self._dialogue = None

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    def pause(self) -> None:
        """It still listens, and nobody answers."""
        self._running.pause()

    def resume(self) -> None:
        self._running.resume()

    async def replace(self, contents: Contents) -> None:
        await self._running.ask("replace", **contents.document())
        self._contents = contents

    async def show(self, *pods: Pod) -> None:
        """The same as `replace`, for the many who only care about pods."""
        await self.replace(Contents(pods=pods))

    async def requests(self) -> dict[str, dict[str, int]]:
        """Kubelet's counters since its start: `requests_list` and so on, then the API version.

        A counter that was never raised is absent, and calls rejected by the rate limit are in none.
        """
        counted: dict[str, dict[str, int]] = await self._running.ask("requests")
        return counted

    async def authority(self) -> str:
        """What the last client sent as `:authority`; needs `adjustable`."""
        told: str = await self._running.ask("authority")
        return told

    async def lists_served(self) -> int:
        return (await self.requests()).get("requests_list", {}).get("v1", 0)

    @property
    def _running(self) -> Dialogue:
        assert self._dialogue is not None, "the kubelet server does not run"
        return self._dialogue


@asynccontextmanager
async def kubelet_server(
    *pods: Pod,
    socket: Path | None = None,
    adjustable: bool = False,
    qps: int | None = None,
    burst: int | None = None,
) -> AsyncIterator[KubeletServer]:
    arguments = ["-adjustable"] if adjustable or qps or burst else []
    arguments += ["-qps", str(qps)] if qps else []
    arguments += ["-burst", str(burst)] if burst else []
    with tempfile.TemporaryDirectory(prefix="bursar-kubelet-") as folder:
        path = socket or Path(folder) / "pod-resources" / "kubelet.sock"
        server = KubeletServer(path, arguments)
        try:
            await server.start()
            await server.show(*pods)
            yield server
        finally:
            await server.kill()
