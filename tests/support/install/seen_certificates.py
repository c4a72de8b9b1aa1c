"""The certificates of an installation as its clients see them, while they are renewed."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Query
from bursar.app.install.workloads import PORT
from bursar.app.names import WEBHOOK
from support.cluster.access import a_client, access_of
from support.http_peer import HttpPeer
from support.install.installed_bursar import HOME, InstalledBursar, Raw, is_ending, is_ready
from support.processes.certified import Observer

HANDSHAKE_SECONDS = 0.5
"""Between two rounds of handshakes with all replicas."""
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass
class SeenCertificates:
    """What a TLS client of the webhook's replicas has seen. It trusts the present `caBundle`."""

    serving: set[bytes] = field(default_factory=set)
    """Serving certificates that replicas presented (DER)."""
    authorities: set[bytes] = field(default_factory=set)
    """CA certificates that the `caBundle` has held (PEM)."""
    handshakes: int = 0
    failures: list[str] = field(default_factory=list)
    """Handshakes and requests that failed. None is repeated."""

    def summary(self) -> str:
        return (
            f"{len(self.serving)} serving certificates, {len(self.authorities)} CAs, "
            f"{self.handshakes} handshakes, {len(self.failures)} failed"
        )

    async def look(self, client: KubeClient) -> None:
        """Connect to every replica that is ready, until cancelled."""
        observer = Observer(client)
        while True:
            for address in await _replicas(client):
                bundle = await observer.bundle()
                self.authorities.update(_PEM.findall(bundle))
                try:
                    await self._connect(address, bundle)
                except (OSError, AssertionError, asyncio.IncompleteReadError) as error:
                    self.failures.append(f"{address}: {error!r}")
            await asyncio.sleep(HANDSHAKE_SECONDS)

    async def _connect(self, address: str, bundle: bytes) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=bundle.decode())
        name = f"{WEBHOOK}.{HOME}.svc"
        opening = asyncio.open_connection(address, PORT, ssl=context, server_hostname=name)
        reader, writer = await opening
        try:
            answer = await HttpPeer(reader, writer).ask("GET", "/healthz")
            assert answer.code == 200, answer
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self.serving.add(shown)
            self.handshakes += 1
        finally:
            writer.transport.abort()


async def _replicas(client: KubeClient) -> list[str]:
    """Addresses of the replicas of the webhook that take requests."""
    labels = "app.kubernetes.io/component=webhook"
    page = await client.list(PODS, Query(namespace=HOME, label_selector=labels))
    pods: list[Raw] = [json.loads(each) for each in page.items]
    return [each["status"]["podIP"] for each in pods if is_ready(each) and not is_ending(each)]


@asynccontextmanager
async def seeing_certificates(installed: InstalledBursar) -> AsyncIterator[SeenCertificates]:
    """Look at the certificates of an installation until the block ends."""
    seen = SeenCertificates()
    async with a_client(access_of(installed.node.plane)) as client:
        looking = asyncio.create_task(seen.look(client))
        try:
            yield seen
            if looking.done():
                # Whatever ended it, it has seen no failure since.
                looking.result()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
