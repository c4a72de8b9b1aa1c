"""Certificates kept on an embedded cluster in virtual time, with real X.509."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.x509.certificates import Certificates
from bursar.app.certificates.keeper import CertificateKeeper, KeeperSettings, serving_names
from bursar.app.certificates.ports import KeyPair
from bursar.app.cluster.kinds import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from bursar.app.cluster.ports import ForbiddenError, Key, NotFoundError, Patch, PatchKind, Resource
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.core.certificates.facts import CaCertificate, CertificateSettings, ServingPair
from support.faults.line import Request
from support.quota.books_of_a_cluster import Line
from support.virtual_time import MachineClock, in_virtual_time

HOME = "aaq"
TLS = Key(HOME, "bursar-tls")
CA = Key(HOME, "bursar-ca")
GATER = Key("", "gating-mutator")
VALIDATOR = Key("", "aaq-validator")
SERVICE = {"namespace": HOME, "name": "aaq-server", "path": "/serve-path", "port": 443}
SHORT = CertificateSettings(
    names=serving_names(HOME), lifetime=timedelta(hours=2), ca_lifetime=timedelta(hours=12)
)

Raw = dict[str, Any]


class RefusingLine(Line):
    """Refuses writes of some resources, as an API server without our Role would."""

    def __init__(self, cluster: MemoryCluster, clock: MachineClock) -> None:
        super().__init__(cluster, clock)
        self.refused: set[Resource] = set()

    async def pass_on(self, request: Request) -> Any:
        if request.resource in self.refused:
            raise ForbiddenError("no")
        return await super().pass_on(request)


class Scene:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            self.cluster.objects.kinds.add(Kind(resource=resource))
        self.line = RefusingLine(self.cluster, self.clock)
        self.x509 = Certificates()
        self.is_leader = True
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, settings: CertificateSettings = SHORT, **more: Any) -> CertificateKeeper:
        """Start a keeper. A second one is another leader."""
        keeper = CertificateKeeper(
            cluster=self.cluster,
            context=ReconcileContext(
                writer=self.line,
                clock=self.clock,
                random=Random(7),  # noqa: S311 - a seed
                may_write=lambda: self.is_leader,
            ),
            settings=KeeperSettings(namespace=HOME, certificates=settings, **more),
            x509=self.x509,
        )
        self._tasks.append(asyncio.create_task(keeper.run()))
        return keeper

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def pass_time(self, **duration: float) -> None:
        await asyncio.sleep(timedelta(**duration).total_seconds())

    # ------------------------------------------------------------------ what is stored

    async def secret(self, key: Key) -> dict[str, bytes]:
        try:
            stored = json.loads(await self.cluster.get(SECRETS, key))
        except NotFoundError:
            return {}
        return {name: base64.b64decode(text) for name, text in stored["data"].items()}

    async def trusted(self) -> tuple[CaCertificate, ...]:
        """The CAs of the serving Secret."""
        return self.x509.authorities((await self.secret(TLS)).get("ca.crt", b""))

    async def signer(self) -> CaCertificate | None:
        data = await self.secret(CA)
        return self.x509.signer(
            KeyPair(certificate=data.get("ca.crt", b""), key=data.get("ca.key", b""))
        )

    async def pair(self) -> ServingPair | None:
        data = await self.secret(TLS)
        pair = KeyPair(certificate=data.get("tls.crt", b""), key=data.get("tls.key", b""))
        return self.x509.serving_pair(pair, await self.trusted())

    async def bundles(self, resource: Resource, key: Key) -> list[bytes | None]:
        configuration = json.loads(await self.cluster.get(resource, key))
        found = [hook["clientConfig"].get("caBundle") for hook in configuration["webhooks"]]
        return [None if each is None else base64.b64decode(each) for each in found]

    # ------------------------------------------------------------------ what people do

    async def configure(self, resource: Resource, key: Key, *clients: Raw) -> None:
        hooks = [
            {"name": f"hook-{number}.x", "clientConfig": client}
            for number, client in enumerate(clients)
        ]
        await self.cluster.create(
            resource, {"metadata": {"name": key.name}, "webhooks": hooks}, namespace=""
        )

    async def write(self, resource: Resource, key: Key, body: Raw) -> None:
        await self.cluster.patch(resource, key, Patch(kind=PatchKind.MERGE, body=body))

    async def write_secret(self, key: Key, **data: bytes) -> None:
        """Underscores in names of keys become dots."""
        encoded = {
            name.replace("_", "."): base64.b64encode(value).decode() for name, value in data.items()
        }
        await self.write(SECRETS, key, {"data": encoded})


@asynccontextmanager
async def _a_scene() -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.cluster.create(NAMESPACES, {"metadata": {"name": HOME}})
    try:
        yield scene
    finally:
        await scene.stop()


on_scene = in_virtual_time(on=_a_scene)
"""Play a test on a scene, in virtual time. The test starts the keeper."""
