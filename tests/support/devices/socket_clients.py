"""Clients of a PodResources socket: upstream's generated client, Multus' and DCGM's rules.

    async with podresources_client() as client:
        answer = await client.list(socket)
        assert answer.devices["default/trainer"]["main"] == {"nvidia.com/gpu": ["GPU-1"]}

A call that fails is an answer too: its code and its error tell. The client sends what grpc-go
sends for a plain path, the percent-encoded path as `:authority`; `dial="unix"` sends `localhost`.
"""

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bursar.adapters.node.server import CODE_NAMES
from support.devices.upstream_programs import Dialogue

LIST = "/v1.PodResourcesLister/List"
GET = "/v1.PodResourcesLister/Get"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
ALPHA_LIST = "/v1alpha1.PodResourcesLister/List"


@dataclass(frozen=True)
class Answer:
    """What came of one call. `message` has protobuf's field names, and lacks what is empty."""

    code: str
    error: str
    micros: int
    size: int
    message: dict[str, Any]
    raw: bytes

    @property
    def pods(self) -> list[dict[str, Any]]:
        """Of a List as they came, of a Get the one."""
        listed: Any = self.message.get("pod_resources", [])
        return listed if isinstance(listed, list) else [listed]

    @property
    def containers(self) -> dict[str, list[str]]:
        """Pod ("namespace/name") to the names of its containers, in order."""
        return {_key(pod): [one["name"] for one in pod.get("containers", [])] for pod in self.pods}

    @property
    def devices(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Pod, container, resource name, and the IDs in the order they came."""
        return {
            _key(pod): {
                one["name"]: _by_resource(one.get("devices", []))
                for one in pod.get("containers", [])
            }
            for pod in self.pods
        }

    @property
    def allocatable(self) -> dict[str, list[str]]:
        return _by_resource(self.message.get("devices", []))


@dataclass(frozen=True)
class MultusAnswer:
    """`source` is "checkpoint" where the socket was missing; any `error` fails the pod's start."""

    source: str
    code: str
    error: str
    resources: dict[str, list[str]]
    networks: list[str]


@dataclass(frozen=True)
class DcgmAnswer:
    """Device to its users, and the series of the GPUs asked about. Errors only cost the labels."""

    socket: bool
    code: str
    error: str
    mapping: dict[str, list[dict[str, str]]]
    claimed: dict[str, list[dict[str, Any]]]
    """The same, of devices that came by claims."""
    series: list[dict[str, Any]]

    @property
    def labels(self) -> list[tuple[str, str]]:
        """GPU and "namespace/pod/container[#vgpu]" of each series, "" where it has no labels."""
        return [(one["uuid"], _label(one.get("user"))) for one in self.series]


class PodResourcesClient:
    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue

    async def calls(self, socket: Path, method: str = "List", **options: Any) -> list[Answer]:
        """Many calls in one go; of `parallel` callers one after the other.

        Options: version, name, namespace, times, parallel, pace_ms, reconnect, quiet, max (bytes),
        timeout_ms, cancel_ms, dial.
        """
        told = await self._dialogue.ask("call", socket=str(socket), method=method, **options)
        return [_answer(one) for one in told]

    async def list(self, socket: Path, **options: Any) -> Answer:
        [answer] = await self.calls(socket, **options)
        return answer

    async def get(self, socket: Path, namespace: str, name: str, **options: Any) -> Answer:
        [answer] = await self.calls(socket, "Get", namespace=namespace, name=name, **options)
        return answer

    async def allocatable(self, socket: Path, **options: Any) -> Answer:
        [answer] = await self.calls(socket, "GetAllocatableResources", **options)
        return answer

    async def raw(self, socket: Path, path: str, request: bytes = b"", **options: Any) -> Answer:
        """Bytes to any method, and the bytes of the reply."""
        text = base64.b64encode(request).decode()
        [answer] = await self.calls(socket, path=path, request=text, **options)
        return answer

    async def multus(
        self,
        socket: Path,
        namespace: str,
        name: str,
        *,
        networks: Sequence[str] = (),
        **options: Any,
    ) -> MultusAnswer:
        """As Multus asks when a pod gets its networks. Options: checkpoint (path), dial."""
        told = await self._dialogue.ask(
            "multus",
            socket=str(socket),
            namespace=namespace,
            name=name,
            networks=list(networks),
            **options,
        )
        return MultusAnswer(
            source=told["source"],
            code=CODE_NAMES[told["code"]],
            error=told.get("error", ""),
            resources=told["resources"] or {},
            networks=told["networks"] or [],
        )

    async def dcgm(
        self, socket: Path, gpus: Sequence[str | dict[str, Any]] = (), **options: Any
    ) -> DcgmAnswer:
        """As dcgm-exporter asks at a scrape, with the UUIDs of GPUs 0, 1, … of the node.

        A part of a GPU is given as {"index", "uuid", "instance"}; "device" is a name of its own.

        Options: virtual_gpus, per_process, id_type ("uid" or "device-name"), resource_names, dra,
        claimable ("pool/device" to {"uuid", "mig": {"uuid", "profile"}}), instances (MIG device to
        "gpu-instance"), max, dial.
        """
        found = [
            {"index": index, "uuid": gpu} if isinstance(gpu, str) else gpu
            for index, gpu in enumerate(gpus)
        ]
        told = await self._dialogue.ask("dcgm", socket=str(socket), gpus=found, **options)
        return DcgmAnswer(
            socket=told["socket"],
            code=CODE_NAMES[told["code"]],
            error=told.get("error", ""),
            mapping=told["mapping"],
            claimed=told["claimed"],
            series=told["series"] or [],
        )


@asynccontextmanager
async def podresources_client() -> AsyncIterator[PodResourcesClient]:
    dialogue = await Dialogue.start("ask")
    try:
        yield PodResourcesClient(dialogue)
    finally:
        await dialogue.kill()


def _answer(told: dict[str, Any]) -> Answer:
    return Answer(
        code=CODE_NAMES[told["code"]],
        error=told.get("error", ""),
        micros=told["micros"],
        size=told["size"],
        message=told.get("message", {}),
        raw=base64.b64decode(told.get("raw", "")),
    )


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['namespace']}/{pod['name']}"


def _by_resource(entries: list[dict[str, Any]]) -> dict[str, list[str]]:
    joined: dict[str, list[str]] = {}
    for entry in entries:
        joined.setdefault(entry.get("resource_name", ""), []).extend(entry.get("device_ids", []))
    return joined


def _label(user: dict[str, str] | None) -> str:
    if user is None:
        return ""
    share = f"#{user['vgpu']}" if "vgpu" in user else ""
    return f"{user['namespace']}/{user['pod']}/{user['container']}{share}"
