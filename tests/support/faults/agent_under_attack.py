"""Attack a real `bursar agent`, and check that its answers about other pods stay right.

Hostile pods come and go, hostile clients send what they like to the socket, and all the while
the answers about well-behaved pods must be exactly right.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from support.devices.kubelet_server import Device
from support.devices.node_with_agent import (
    GPU,
    RDMA,
    Node,
    Tenant,
    functions,
    gpus,
    node_with_agent,
)
from support.devices.socket_clients import (
    ALLOCATABLE,
    ALPHA_LIST,
    GET,
    LIST,
    Answer,
    podresources_client,
)
from support.faults.hostile_annotations import HostileAnnotations
from support.faults.hostile_frames import HostileFrames
from support.until import PATIENCE_SECONDS

HOSTILE_PODS = 30
ATTACKERS = 4
ATTACK_SECONDS = 5
BREATH_S = 0.02
"""Between two attacks of one attacker; what a server does under any load is another question."""
KIND_PATIENCE_SECONDS = 0.2
"""How long an attacker waits for what the server makes of it."""
EACH_MIN = 10
"""How often everything is done at least, however long that takes on a busy machine."""
TOO_BUSY = {"CANCELLED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"}
"""As gRPC's server answers when more calls wait than it wants to keep. No answer is not a wrong
one: clients ask again, and so does the witness."""
PATHS = [LIST, GET, ALLOCATABLE, ALPHA_LIST, "/v1.PodResourcesLister/Nothing"]

Held = Mapping[str, Mapping[str, list[str]]]


@dataclass
class Tally:
    """What was done in a run."""

    seed: int
    generations: int = 0
    annotations: int = 0
    conversations: int = 0
    frames: int = 0
    bad_calls: int = 0
    checks: int = 0
    memory_bytes_first: int = 0
    memory_bytes_max: int = 0
    log_lines: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = vars(self) | {"wrong": len(self.wrong)}
        return ", ".join(f"{name} {value}" for name, value in told.items())


GOOD = [
    Tenant("good-gpus", gpus("GPU-0", "GPU-1")),
    Tenant("good-vf", functions("0000:01:00.2", "0000:01:00.3")),
    Tenant("good-mixed", gpus("GPU-2"), given={"main": [Device("example.com/nic", "nic-0")]}),
    Tenant("good-plain"),
]
RIGHT: Mapping[str, Held] = {
    "default/good-gpus": {"main": {GPU: ["GPU-0", "GPU-1"]}},
    "default/good-vf": {"main": {RDMA: ["0000:01:00.2", "0000:01:00.3"]}},
    "default/good-mixed": {"main": {"example.com/nic": ["nic-0"], GPU: ["GPU-2"]}},
    "default/good-plain": {"main": {}},
}
COVETED = ["GPU-0", "GPU-1", "GPU-2", "0000:01:00.2", "nic-0"]


class Fuzz:
    def __init__(self, node: Node, seed: int) -> None:
        self.tally = Tally(seed)
        self._node = node
        self._random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._annotations = HostileAnnotations(self._random, COVETED)
        self._frames = HostileFrames(Random(seed + 1))  # noqa: S311 - to be repeated, not to be secret
        self._deadline = 0.0

    async def run(self, seconds: float) -> Tally:
        pid = self._node.agent.program.pid
        self._deadline = time.monotonic() + seconds
        await self._check()
        self.tally.memory_bytes_first = self.tally.memory_bytes_max
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods())
            tasks.create_task(self._control())
            tasks.create_task(self._bad_calls())
            for _ in range(ATTACKERS):
                tasks.create_task(self._attack())
        await self._check()
        self.tally.frames = self._frames.frames
        self.tally.log_lines = self._node.agent.log().count("\n")
        if self._node.agent.program.pid != pid:
            self.tally.wrong.append("the agent ended")
        return self.tally

    def _goes_on(self) -> bool:
        done, late = self.tally, time.monotonic() - self._deadline
        least = min(done.generations, done.conversations, done.bad_calls, done.checks)
        return len(done.wrong) < 10 and (
            late < 0 or (least <= EACH_MIN and late < PATIENCE_SECONDS)
        )

    # -------------------------------------------------------------- the attackers

    async def _pods(self) -> None:
        while self._goes_on():
            number = self.tally.generations
            hostile = [self._tenant(f"bad-{number}-{each}") for each in range(HOSTILE_PODS)]
            await self._node.has(*self._random.sample([*GOOD, *hostile], len(GOOD) + len(hostile)))
            self.tally.generations += 1
            self.tally.annotations += len(hostile)
            await asyncio.sleep(0.1)

    def _tenant(self, name: str) -> Tenant:
        asks = self._random.choice([{}, {GPU: "2"}, {RDMA: "100", GPU: "1"}])
        given = {"main": [Device("example.com/own", name)]} if self._random.random() < 0.5 else {}
        return Tenant(name, self._annotations.text(), asks={"main": asks}, given=given)

    async def _attack(self) -> None:
        while self._goes_on():
            pieces = self._frames.conversation()
            self.tally.conversations += 1
            with suppress(OSError, TimeoutError):
                await self._send(pieces)
            await asyncio.sleep(BREATH_S)

    async def _send(self, pieces: list[bytes]) -> None:
        async with asyncio.timeout(ATTACK_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(self._node.socket))
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(65536), KIND_PATIENCE_SECONDS)
            finally:
                writer.transport.abort()

    async def _bad_calls(self) -> None:
        """By upstream's client, with any bytes as the message."""
        random = Random(self.tally.seed + 2)  # noqa: S311 - to be repeated, not to be secret
        async with podresources_client() as client:
            while self._goes_on():
                body = random.randbytes(random.choice([1, 5, 100, 5000]))
                await client.raw(self._node.socket, random.choice(PATHS), body, quiet=True)
                self.tally.bad_calls += 1

    # -------------------------------------------------------------- the witness

    async def _control(self) -> None:
        while self._goes_on():
            await self._check()
            await asyncio.sleep(0.02)

    async def _check(self) -> None:
        client, socket = self._node.client, self._node.socket
        self._judge("List", await self._asked(lambda: client.list(socket)), RIGHT)
        old = await self._asked(lambda: client.list(socket, version="v1alpha1"))
        self._judge("v1alpha1", old, RIGHT)
        pod = self._random.choice([*RIGHT])
        one = await self._asked(lambda: client.get(socket, *pod.split("/")))
        self._judge("Get", one, {pod: RIGHT[pod]})
        self.tally.checks += 1
        memory = self._node.agent.memory()["RssAnon"] if self._node.agent.program.pid else 0
        self.tally.memory_bytes_max = max(self.tally.memory_bytes_max, memory)

    async def _asked(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        answer, began = await ask(), time.monotonic()
        while answer.code in TOO_BUSY and time.monotonic() - began < PATIENCE_SECONDS:
            await asyncio.sleep(BREATH_S)
            answer = await ask()
        return answer

    def _judge(self, what: str, answer: Answer, right: Mapping[str, Held]) -> None:
        if answer.code != "OK":
            self.tally.wrong.append(f"{what}: {answer.code} {answer.error}")
            return
        for pod, held in right.items():
            if answer.devices.get(pod) != held:
                self.tally.wrong.append(f"{what}: {pod} has {answer.devices.get(pod)}")
        for pod in answer.pods:
            if (text := _suspect(pod)) is not None:
                self.tally.wrong.append(f"{what}: {text}")


def _suspect(pod: Mapping[str, Any]) -> str | None:
    """What no client should ever be told, of whichever pod."""
    lines = [line for one in pod["containers"] for line in one.get("devices", [])]
    for line in lines:
        name, ids = line.get("resource_name", ""), line.get("device_ids", [])
        if not name or not all(each and each.isprintable() for each in ids):
            return f"{pod['name']}: {line}"
        if name == "example.com/own" and ids != [pod["name"]]:
            return f"{pod['name']}: what kubelet gave was changed: {line}"
    return None


async def fuzz_agent(folder: Path, *, seconds: float, seed: int) -> Tally:
    async with node_with_agent(folder) as node:
        await node.has(*GOOD)
        return await Fuzz(node, seed).run(seconds)
