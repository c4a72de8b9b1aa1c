"""The operator on an embedded cluster in virtual time, with Deployments that a test makes ready."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import (
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import (
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Resource,
)
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.app.operator.applied import SELECTOR
from bursar.app.operator.kinds import OWNED
from bursar.app.operator.manifests import split_definitions
from bursar.app.operator.operator import Operator
from bursar.app.operator.rendering import Surroundings
from bursar.app.operator.term import OperatorSettings
from bursar.app.quota.kinds import AAQS
from bursar.cli.install.packaged_definitions import packaged_definitions
from bursar.core.quota.quota import GATE
from support.builders.manifests import pod_manifest
from support.virtual_time import MachineClock, in_virtual_time

HOME = "aaq"
IMAGE = "registry.example/bursar:1"
AAQ = Key("", "aaq")
HOOKS = ((MUTATING_WEBHOOKS, "gating-mutator"), (VALIDATING_WEBHOOKS, "aaq-validator"))

Raw = dict[str, Any]


class OperatorScene:
    """A cluster, an operator, and what administrators and controllers do to its objects."""

    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        known = {each.resource for each in self.cluster.objects.kinds}
        for resource in OWNED:
            if resource not in known:
                self.cluster.objects.kinds.add(Kind(resource=resource))
        self._tasks: list[asyncio.Task[None]] = []

    async def furnish(self) -> None:
        own, _ = split_definitions(packaged_definitions())
        await self.cluster.create(NAMESPACES, {"metadata": {"name": HOME}})
        for definition in own:
            await self.cluster.create(CRDS, definition)

    def start(self, version: str = "1.0.0", *, identity: str = "one") -> Operator:
        _, definitions = split_definitions(packaged_definitions())
        around = Surroundings(namespace=HOME, image=IMAGE, definitions=definitions)
        operator = Operator(
            self.cluster,
            self.clock,
            Random(7),  # noqa: S311 - a seed
            settings=OperatorSettings(surroundings=around, version=version),
            identity=identity,
        )
        self._tasks.append(asyncio.create_task(operator.run()))
        return operator

    async def stop(self) -> None:
        """Stop all operators at once, as a crash would."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def pass_time(self, seconds: float = 5) -> None:
        await asyncio.sleep(seconds)

    # ------------------------------------------------------------------ what people do

    async def deployed(self, **spec: Any) -> Operator:
        """An operator that has made an installation, whose Deployments are ready."""
        await self.create_aaq(**spec)
        operator = self.start()
        await self.deploy()
        return operator

    async def create_aaq(
        self, name: str = "aaq", annotations: Raw | None = None, **spec: Any
    ) -> None:
        metadata = {"name": name, "annotations": annotations or {}}
        head = {"apiVersion": AAQS.api_version, "kind": AAQS.kind}
        await self.cluster.create(AAQS, {**head, "metadata": metadata, "spec": spec})
        # Objects that are made in the same second have no order by time.
        await self.pass_time(2)

    async def change_aaq(self, **spec: Any) -> None:
        await self.merge(AAQS, AAQ, {"spec": spec})

    async def merge(self, resource: Resource, key: Key, body: Raw, subresource: str = "") -> None:
        patch = Patch(kind=PatchKind.MERGE, body=body)
        await self.cluster.patch(resource, key, patch, subresource=subresource)

    async def gate_pod(self, name: str, *gates: str) -> None:
        body = pod_manifest(name, GATE, *gates)
        await self.cluster.create(PODS, body, namespace="default")

    # ------------------------------------------------------------------ what controllers do

    async def make_ready(self, *names: str, replicas: int | None = None) -> None:
        """What the controllers of Deployments report; a ready controller writes its CA."""
        for name in names or (CONTROLLER, WEBHOOK):
            stored = await self.find(DEPLOYMENTS, Key(HOME, name))
            assert stored is not None
            wanted = stored["spec"]["replicas"]
            status = {
                "observedGeneration": stored["metadata"]["generation"],
                "updatedReplicas": wanted,
                "readyReplicas": wanted if replicas is None else replicas,
            }
            await self.merge(DEPLOYMENTS, Key(HOME, name), {"status": status}, "status")

    async def write_bundles(self) -> None:
        for resource, name in HOOKS:
            stored = await self.find(resource, Key("", name))
            if stored is not None:
                for hook in stored["webhooks"]:
                    hook["clientConfig"]["caBundle"] = "QQ=="
                await self.merge(resource, Key("", name), {"webhooks": stored["webhooks"]})

    async def deploy(self) -> None:
        """Until everything is ready."""
        await self.pass_time()
        await self.make_ready()
        await self.pass_time()
        await self.write_bundles()
        await self.pass_time()

    # ------------------------------------------------------------------ what is stored

    async def find(self, resource: Resource, key: Key) -> Raw | None:
        try:
            found: Raw = json.loads(await self.cluster.get(resource, key))
        except NotFoundError:
            return None
        return found

    async def status(self, name: str = "aaq") -> Raw:
        found = await self.find(AAQS, Key("", name))
        assert found is not None
        status: Raw = found.get("status", {})
        return status

    async def conditions(self, name: str = "aaq") -> dict[str, tuple[str, str]]:
        """By type: status and reason."""
        listed = (await self.status(name)).get("conditions", [])
        return {each["type"]: (each["status"], each["reason"]) for each in listed}

    async def message(self, type: str, name: str = "aaq") -> str:
        listed = (await self.status(name))["conditions"]
        (found,) = [each["message"] for each in listed if each["type"] == type]
        return str(found)

    async def owned(self) -> set[tuple[str, str]]:
        """Kind and name of all objects with the operator's label."""
        key, value = SELECTOR.split("=")
        found = set()
        for resource in OWNED:
            for body in (await self.cluster.list(resource)).items:
                stored = json.loads(body)
                if stored["metadata"].get("labels", {}).get(key) == value:
                    found.add((resource.kind, stored["metadata"]["name"]))
        return found

    async def gated(self) -> list[str]:
        pods = [json.loads(body) for body in (await self.cluster.list(PODS)).items]
        return sorted(
            each["metadata"]["name"]
            for each in pods
            if {"name": GATE} in each["spec"].get("schedulingGates", [])
        )

    async def events(self) -> set[str]:
        found = (await self.cluster.list(EVENTS)).items
        return {json.loads(body)["reason"] for body in found}

    async def create_class(self, name: str) -> None:
        await self.cluster.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1})


@asynccontextmanager
async def _a_scene() -> AsyncIterator[OperatorScene]:
    scene = OperatorScene()
    await scene.furnish()
    try:
        yield scene
    finally:
        await scene.stop()


on_scene = partial(in_virtual_time, on=_a_scene)()
