"""A minimal API server in memory: resourceVersions, uids and conflicts, reached over slow lines.

It keeps JSON documents of every kind and knows nothing of their meaning. Each machine reaches
it over a `Line` of its own. A request takes effect when it arrives; before and after that it
travels. Cancelling a request does not stop it from taking effect, as with a real server.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Resource,
    UnavailableError,
)
from support.faults import line
from support.virtual_time import MachineClock

Document = dict[str, object]


@dataclass(frozen=True)
class Travel:
    """What happens to one request: how long each way, and whether either way fails."""

    there: float = 0.01
    back: float = 0.01
    refusal: ClusterError | None = None
    """Instead of taking effect."""
    is_answer_lost: bool = False
    """It took effect, and the caller hears that the connection broke."""


class SmallCluster:
    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, Key], Document] = {}
        self.history: list[tuple[str, Resource, Key, Document]] = []
        self._version = 0

    def get(self, resource: Resource, key: Key) -> bytes:
        return json.dumps(self._require(resource, key)).encode()

    def create(self, resource: Resource, body: object, *, namespace: str) -> bytes:
        document = json.loads(json.dumps(body))
        key = Key(namespace, document["metadata"]["name"])
        if (resource, key) in self.objects:
            raise AlreadyExistsError("already exists", 409, "AlreadyExists", str(resource), key)
        document["metadata"] |= {"namespace": namespace, "uid": f"uid-{self._version}"}
        return self._store("create", resource, key, document)

    def patch(self, resource: Resource, key: Key, patch: Patch) -> bytes:
        assert patch.kind is PatchKind.MERGE
        current = self._require(resource, key)
        change = json.loads(json.dumps(patch.body))
        for name in ("uid", "resourceVersion"):
            wanted = change.get("metadata", {}).get(name)
            if wanted is not None and wanted != current["metadata"][name]:
                raise ConflictError("it was modified", 409, "Conflict", str(resource), key)
        return self._store("patch", resource, key, merge(current, change))

    def delete(self, resource: Resource, key: Key) -> None:
        self._require(resource, key)
        del self.objects[resource, key]

    def _require(self, resource: Resource, key: Key) -> Document:
        if (resource, key) not in self.objects:
            raise NotFoundError("not found", 404, "NotFound", str(resource), key)
        return self.objects[resource, key]

    def _store(self, verb: str, resource: Resource, key: Key, document: Document) -> bytes:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self.objects[resource, key] = document
        self.history.append((verb, resource, key, document))
        return json.dumps(document).encode()


class Line(line.Line):
    """One machine's way to the cluster."""

    def __init__(
        self, cluster: SmallCluster, clock: MachineClock, travel: Callable[[], Travel] = Travel
    ) -> None:
        super().__init__(cluster)
        self.clock, self.travel = clock, travel

    async def pass_on(self, request: line.Request) -> bytes:
        travel = self.travel()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()

        def arrive() -> None:
            try:
                if travel.refusal is not None:
                    raise travel.refusal
                body = request.send()
                if travel.is_answer_lost:
                    raise UnavailableError("the connection broke")
                loop.call_later(travel.back, lambda: answer.done() or answer.set_result(body))
            except ClusterError as raised:
                error = raised
                loop.call_later(travel.back, lambda: answer.done() or answer.set_exception(error))

        loop.call_later(travel.there, arrive)
        try:
            return await answer
        finally:
            await self.clock.wake()


def merge(current: object, change: object) -> object:
    """A JSON merge patch, RFC 7386."""
    if not isinstance(change, dict):
        return change
    merged = dict(current) if isinstance(current, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
