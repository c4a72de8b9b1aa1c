"""Controllers and webhooks that serve the certificate of a Secret, and clients that check it."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.adapters.x509.certificates import Certificates
from bursar.app.certificates.ports import KeyPair
from bursar.app.cluster.kinds import MUTATING_WEBHOOKS, PODS, SECRETS
from bursar.app.cluster.ports import ClusterError, Key, NotFoundError, Patch, PatchKind
from bursar.app.install.certificates import bundle_rules, keeping_rules, serving_rules
from bursar.app.install.documents import granted
from controlplane import LOOPBACK, ControlPlane
from program import Program, free_port
from support.builders.manifests import pod_manifest
from support.builders.reviews import a_review, raw_pod
from support.cluster.access import a_client, access_of
from support.http_peer import HttpPeer
from support.install.printed import printed
from support.processes.command_line import COMMAND
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import HOME, SHORT_TERMS, Administrator, Controllers
from support.until import POLL_SECONDS, until

TLS, CA = Key(HOME, "bursar-tls"), Key(HOME, "bursar-ca")
GATER = Key("", "gating-mutator")
LIFETIMES = ("--certificate-lifetime=20s", "--ca-lifetime=60s")
"""A pair every 13 s, a CA every 40 s; clients have 2 s to learn of a new CA."""
UNREACHABLE = 503
ONCE = Limits(attempts_max=1)


@dataclass
class Server:
    """One process that serves the Secret's certificate."""

    program: Program
    port: int
    name: str
    """The name that clients expect in its certificate."""

    @contextlib.asynccontextmanager
    async def connected(self, bundle: bytes) -> AsyncIterator[HttpPeer]:
        """A new connection of a client that trusts the bundle."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=bundle.decode())
        reader, writer = await asyncio.open_connection(
            LOOPBACK, self.port, ssl=context, server_hostname=self.name
        )
        try:
            yield HttpPeer(reader, writer)
        finally:
            writer.transport.abort()


@dataclass
class Installation:
    plane: ControlPlane
    controllers: list[Controllers]
    leaders: list[Server]
    webhooks: list[Server]

    def logs(self) -> str:
        return "\n".join(each.program.log_end(60) for each in (*self.leaders, *self.webhooks))


@contextlib.contextmanager
def installed(
    plane: ControlPlane, folder: Path, lifetimes: tuple[str, str] = LIFETIMES
) -> Iterator[Installation]:
    """Two controllers and two webhooks, with the permissions of the manifests and no more."""
    webhooks = [_a_webhook(plane, folder, number) for number in range(2)]
    controllers, leaders = [], []
    for number in range(2):
        place = folder / f"controller-{number}"
        place.mkdir()
        port = free_port()
        made = Controllers(
            plane,
            place,
            *("--tls-secret=bursar-tls", "--keep-certificates", *lifetimes),
            *(f"--certificate-name={LOOPBACK}", f"--bind={LOOPBACK}:{port}"),
            *(f"--advertise=https://{LOOPBACK}:{port}", "--metrics-auth=none", *SHORT_TERMS),
        )
        controllers.append(made)
        leaders.append(Server(made.replicas[0], port, f"aaq-controller.{HOME}.svc"))
    manifests = [*_roles(), printed("webhooks", f"--url=https://{LOOPBACK}:{webhooks[0].port}")]
    found = "\n---\n".join(manifests)
    assert try_kubectl(plane, "apply", "-f", "-", stdin=found).code == 0
    try:
        with contextlib.ExitStack() as running:
            for each in webhooks:
                each.program.start()
                running.callback(each.program.stop)
            for each in controllers:
                running.enter_context(each)
            yield Installation(plane, controllers, leaders, webhooks)
    finally:
        assert try_kubectl(plane, "delete", "-f", "-", stdin=found).code == 0
        secrets = ("secret", "-n", HOME, TLS.name, CA.name, "--ignore-not-found")
        assert try_kubectl(plane, "delete", *secrets).code == 0


def _a_webhook(plane: ControlPlane, folder: Path, number: int) -> Server:
    account = f"system:serviceaccount:{HOME}:aaq-server"
    pair = plane.client(account, "system:serviceaccounts", "system:authenticated")
    (folder / "token").write_text(_token(plane))
    port = free_port()
    arguments = [
        *("webhook", f"--bind={LOOPBACK}:{port}", "--tls-secret=bursar-tls"),
        "--metrics-auth=none",
        *(f"--namespace={HOME}", f"--token-file={folder}/token"),
        f"--kubeconfig={plane.write_kubeconfig('aaq-server', pair)}",
    ]
    program = Program(
        f"webhook-{number}",
        [str(COMMAND), *arguments],
        log=folder / f"webhook-{number}.log",
        is_ready=lambda: True,
    )
    return Server(program, port, LOOPBACK)


def _token(plane: ControlPlane) -> str:
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/aaq-server/token"
    code, body = plane.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert code == 201, body
    token: str = json.loads(body)["status"]["token"]
    return token


def _roles() -> list[str]:
    labels = {"bursar-test": "certificates"}

    def grant(name: str, rules: list[Any], account: str, namespace: str) -> list[str]:
        documents = granted(
            name, rules, account=account, home=HOME, namespace=namespace, labels=labels
        )
        return [json.dumps(each) for each in documents]

    return [
        *grant("test-keeper", keeping_rules(), "aaq-controller", HOME),
        *grant("test-server", serving_rules(), "aaq-server", HOME),
        *grant("test-bundles", bundle_rules(), "aaq-controller", ""),
    ]


# ------------------------------------------------------------------ what the cluster holds


def _a_resize(namespace: str) -> bytes:
    """A review of a pod that grows, in a dry run."""
    metadata = {
        "name": "web",
        "namespace": namespace,
        "uid": "pod-uid",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": "1",
    }
    new, old = (raw_pod(cpu=cpu, metadata=metadata) for cpu in ("2", "1"))
    about = {"subResource": "resize", "namespace": namespace, "dryRun": True}
    return json.dumps(a_review("Pod", "UPDATE", new, old, **about)).encode()


class Observer:
    """Reads certificates as any client of the API does."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def secret(self, key: Key) -> dict[str, bytes]:
        try:
            data = json.loads(await self.client.get(SECRETS, key)).get("data", {})
        except NotFoundError:
            return {}
        return {name: base64.b64decode(text) for name, text in data.items()}

    async def is_whole(self) -> bool:
        """Whether the CA of the one Secret signed the pair of the other."""
        ca, tls = await self.secret(CA), await self.secret(TLS)
        pair = KeyPair(certificate=tls.get("tls.crt", b""), key=tls.get("tls.key", b""))
        x509 = Certificates()
        found = x509.serving_pair(pair, x509.authorities(ca.get("ca.crt", b"")))
        return found is not None and bool(found.issuer)

    async def bundle(self) -> bytes:
        """What the API server trusts."""
        stored = json.loads(await self.client.get(MUTATING_WEBHOOKS, GATER))
        return base64.b64decode(stored["webhooks"][0]["clientConfig"].get("caBundle", ""))

    async def write(self, key: Key, **data: bytes) -> None:
        """Underscores in names of keys become dots."""
        encoded = {
            name.replace("_", "."): base64.b64encode(value).decode() for name, value in data.items()
        }
        await self.client.patch(SECRETS, key, Patch(kind=PatchKind.MERGE, body={"data": encoded}))


# ------------------------------------------------------------------ load


@dataclass
class Load:
    """Requests that run all the time. None of them is repeated."""

    namespace: str
    observer: Observer
    servers: list[Server]
    asks_leader: bool = True
    failures: list[str] = field(default_factory=list)
    admitted: int = 0
    handshakes: int = 0
    resizes: int = 0
    signers: set[bytes] = field(default_factory=set)
    pairs: set[bytes] = field(default_factory=set)

    async def admit(self, client: KubeClient) -> None:
        """Create pods in a dry run: the API server calls the webhook."""
        while True:
            try:
                body = pod_manifest("load")
                stored = await client.create(PODS, body, namespace=self.namespace, is_dry_run=True)
                assert b"ApplicationAwareQuotaGate" in stored
                self.admitted += 1
            except (ClusterError, AssertionError) as error:
                self.failures.append(f"admission: {error}")
            await asyncio.sleep(POLL_SECONDS)

    async def shake_hands(self) -> None:
        """Open new connections to every server, with what the API server trusts just now."""
        while True:
            bundle = await self.observer.bundle()
            for server in self.servers:
                try:
                    async with server.connected(bundle) as peer:
                        answer = await peer.ask("GET", "/healthz")
                        assert answer.code == 200
                        self.handshakes += 1
                except (OSError, AssertionError, asyncio.IncompleteReadError) as error:
                    self.failures.append(f"{server.program.name}: {error!r}")
            self.signers.add((await self.observer.secret(CA)).get("ca.crt", b""))
            self.pairs.add((await self.observer.secret(TLS)).get("tls.crt", b""))
            await asyncio.sleep(POLL_SECONDS)

    async def grow(self) -> None:
        """Resizes: the webhook asks the leader, whose certificate it must trust."""
        while self.asks_leader:
            if problem := await self.leader_problem():
                self.failures.append(f"resize: {problem}")
            self.resizes += 1
            await asyncio.sleep(POLL_SECONDS)

    async def leader_problem(self) -> str:
        """Why the webhook cannot ask the leader about a resize; empty if it can."""
        async with self.servers[0].connected(await self.observer.bundle()) as peer:
            body = _a_resize(self.namespace)
            answered = await peer.ask("POST", "/validate", body, Content_Type="application/json")
        status = json.loads(answered.body)["response"].get("status", {})
        return str(status) if status.get("code") == UNREACHABLE else ""


async def a_load(installation: Installation, people: Administrator, **more: bool) -> Load:
    """A load on an installation that has begun to work."""
    observer = Observer(people.client)
    servers = [*installation.webhooks, *installation.leaders]
    load = Load(await people.namespace("load"), observer, servers, **more)

    problem = ""

    async def works() -> bool:
        nonlocal problem
        try:
            for server in servers:
                async with server.connected(await observer.bundle()) as peer:
                    await peer.ask("GET", "/healthz")
            problem = await load.leader_problem()
        except (OSError, ValueError) as error:
            problem = repr(error)
        return not problem

    await until(works, lambda: f"{problem}\n{installation.logs()}")
    return load


@contextlib.asynccontextmanager
async def loaded(load: Load, plane: ControlPlane) -> AsyncIterator[Load]:
    async with a_client(access_of(plane), limits=ONCE) as client:
        jobs = (load.admit(client), load.shake_hands(), load.grow())
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            yield load
            for task in tasks:
                if task.done():
                    # A part of the load that ended by an error has seen no failures since.
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
