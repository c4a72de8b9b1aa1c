"""Sidecars of the feed's port whose answers a test writes."""

import asyncio  # noqa: TC003 - read by people
import json

from bursar.app.counting.sidecars.ports import SidecarError, SidecarFailure
from bursar.wire.counting.protocol import evaluate_pb2 as pb

SLOW = SidecarError(SidecarFailure.TIMEOUT, "no answer within 10 s")
GONE = SidecarError(SidecarFailure.UNREACHABLE, "it cannot be reached")


def an_answer(amounts: dict[str, str] | None) -> bytes:
    return pb.PodUsageResponse(
        resourceList=pb.ResourceList(resourceListJson=json.dumps(amounts or {}).encode()),
        match=amounts is not None,
        error=pb.Error(),
    ).SerializeToString()


class ScriptedSidecar:
    """Counts pods by `rule(name, names of the namespace)`: amounts, None, bytes or an error."""

    def __init__(self, rule) -> None:
        self.rule = rule
        self.ailment: SidecarError | None = None
        self.checks = 0
        self.asked: list[str] = []
        self.sizes: list[int] = []
        self.running = self.most_running = 0
        self.hold: asyncio.Event | None = None

    async def evaluate(self, request: bytes) -> bytes:
        message = pb.PodUsageRequest.FromString(request)
        name = json.loads(message.pod.podJson)["metadata"]["name"]
        names = [json.loads(each.podJson)["metadata"]["name"] for each in message.podsState]
        self.asked.append(name)
        self.sizes.append(len(request))
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            if self.hold is not None:
                await self.hold.wait()
            answer = self.rule(name, names)
        finally:
            self.running -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else an_answer(answer)

    async def is_healthy(self) -> bool:
        self.checks += 1
        if self.ailment is not None:
            raise self.ailment
        return True

    async def close(self) -> None:
        pass


class ScriptedSockets:
    """A folder of sockets by name."""

    def __init__(self, **sidecars: ScriptedSidecar) -> None:
        self.sidecars = dict(sidecars)

    def find(self) -> dict[str, int]:
        return {name: id(sidecar) for name, sidecar in self.sidecars.items()}

    def connect(self, name: str) -> ScriptedSidecar:
        return self.sidecars[name]
