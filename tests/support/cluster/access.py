"""Clients for tests: of a control plane as any user, and of a scripted server."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from bursar.adapters.client_auth.credentials import Credentials, FixedCredentials, bearer
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.http1.request import Headers
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.ports import Clock
from certificates import Pair
from controlplane import ControlPlane
from support.faults.scripted_server import ScriptedServer, Step, scripted


class CountedTokens:
    """Credentials that give a new token after each rejection."""

    def __init__(self) -> None:
        self.rejections = 0

    async def headers(self) -> Headers:
        return bearer(f"token-{self.rejections}")

    def reject(self) -> None:
        self.rejections += 1


@dataclass
class PlainAccess:
    server: str
    ssl_context: ssl.SSLContext | None = None
    tls_server_name: str = ""
    proxy_url: str = ""
    namespace: str = "default"
    context: str = ""
    credentials: Credentials = field(default_factory=FixedCredentials)


class HastyClock:
    """Records sleeps and advances by them without waiting."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.sleeps)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)


def access_of(plane: ControlPlane, pair: Pair | None = None) -> PlainAccess:
    """The access to a control plane, as administrator unless a client certificate is given."""
    context = ssl.create_default_context(cafile=str(plane._authority.certificate))
    pair = pair or plane._admin
    context.load_cert_chain(pair.certificate, pair.key)
    return PlainAccess(server=plane.url, ssl_context=context)


def a_client(
    access: PlainAccess, *, limits: Limits | None = None, clock: Clock = SYSTEM_CLOCK
) -> KubeClient:
    return KubeClient(
        access,
        clock=clock,
        rng=Random(1),  # noqa: S311 - the same pauses in every run
        limits=limits or Limits(),
    )


@contextlib.asynccontextmanager
async def talk(
    *script: Step,
    limits: Limits | None = None,
    clock: Clock = SYSTEM_CLOCK,
    credentials: Credentials | None = None,
) -> AsyncIterator[tuple[ScriptedServer, KubeClient]]:
    """A client and a server that answers it by a script."""
    async with scripted(*script) as server:
        access = PlainAccess(server.url, credentials=credentials or FixedCredentials())
        async with a_client(access, limits=limits, clock=clock) as client:
            yield server, client
