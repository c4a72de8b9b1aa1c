"""Bursar's processes on a real cluster: installed as a person would, run, killed, and watched.

A controller is concerned with every namespace of its cluster, and releases pods in those
that are not gated. So these tests have a cluster of their own: `own_cluster`.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import LEASES, NAMESPACES, PODS, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ClusterError,
    EventKind,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    Resource,
)
from bursar.app.names import CONTROLLER, GATING_ACTIVE, GATING_ANNOTATION
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from certificates import Authority, _draft, _write_key
from controlplane import ControlPlane
from program import Program
from support.builders.manifests import pod_manifest
from support.cluster.access import a_client, access_of
from support.cluster.control_plane import started_control_plane
from support.install.printed import printed
from support.processes.command_line import COMMAND
from support.processes.kubectl import try_kubectl
from support.until import POLL_SECONDS, until

Raw = dict[str, Any]
HOME = "aaq"
ACCOUNT = f"system:serviceaccount:{HOME}:aaq-controller"
LEASE = Key(HOME, "aaq-controller")
CLOSING_S = 0.5
TEAM = "bursar-test/team"
"""Label of the namespaces that cluster-wide quotas of these tests select."""
SHORT_TERMS = ("--lease-duration=5s", "--renew-deadline=2500ms", "--retry-period=300ms")
"""For tests that wait for the Lease of a dead leader to expire.

On a busy machine a living leader may miss the deadline; it is elected again, or its rival is.
Much shorter terms would end before the writes of a leader whose time is up have reached etcd.
"""
LONG_TERMS = ("--lease-duration=60s", "--renew-deadline=52s", "--retry-period=300ms")
"""For tests in which leaders release the Lease: none loses it because the machine is busy."""


def own_cluster(*, nodes: int = 0, features: Sequence[str] = ()) -> Iterator[ControlPlane]:
    """For a fixture: a control plane with Bursar's kinds and roles."""
    with started_control_plane(nodes=nodes, features=features) as plane:
        install(plane)
        yield plane


def switch_gate_on(plane: ControlPlane, home: str = HOME) -> None:
    """What a controller does when it is able to release pods."""
    active = f"{GATING_ANNOTATION}={GATING_ACTIVE}"
    ran = try_kubectl(plane, "annotate", "--overwrite", "sa", "-n", home, CONTROLLER, active)
    assert ran.code == 0, ran.err


def install(plane: ControlPlane) -> None:
    """The kinds, and what the accounts may do. How pods are gated is left to the tests."""
    ran = try_kubectl(plane, "apply", "--server-side", "-f", "-", stdin=printed("crds", "rbac"))
    assert ran.code == 0, ran.err
    kinds = [f"crd/{each}" for each in (APPLICATION_QUOTAS, CLUSTER_QUOTAS)]
    ran = try_kubectl(plane, "wait", "--for=condition=Established", "--timeout=120s", *kinds)
    assert ran.code == 0, ran.err


# ------------------------------------------------------------------ processes


class Controllers:
    """Several `bursar controller` processes, as the replicas of a Deployment would be."""

    def __init__(self, plane: ControlPlane, folder: Path, *options: str, replicas: int = 1) -> None:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}")
        pair = plane.client(ACCOUNT, *groups, "system:authenticated")
        self._command = [
            *(str(COMMAND), "controller"),
            f"--kubeconfig={plane.write_kubeconfig('controller', pair)}",
            f"--namespace={HOME}",
            "--tls-dir=",  # It answers nobody, unless a later option says otherwise.
            *options,
        ]
        self.replicas = [
            Program(
                f"controller-{number}",
                self._command,
                log=folder / f"controller-{number}.log",
                is_ready=lambda: True,
            )
            for number in range(replicas)
        ]

    def __enter__(self) -> Self:
        for each in self.replicas:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop them in order, so that the leader releases the Lease for the next test's."""
        for each in self.replicas:
            each.stop()

    def leader(self, holder: str) -> Program | None:
        """Which of them the holder of a Lease is; its identity ends with the process's number."""
        for each in self.replicas:
            if each.is_running and f"_{each.pid}_" in holder:
                return each
        return None

    async def living_leader(self, people: "Administrator") -> Program:
        """Whoever of them leads by now.

        That a gate was lifted says only that somebody led: a write of one who was killed
        meanwhile may be carried out after it, while the Lease is still in its name.
        """
        holder = ""

        async def living() -> Program | None:
            nonlocal holder
            holder = await people.holder()
            return self.leader(holder)

        return await until(living, lambda: f"one of them leads, and not {holder!r}")

    def logs(self) -> str:
        return "\n".join(each.log_end(200) for each in self.replicas)


def put_leader_pair(folder: Path, authority: Authority, home: str = HOME) -> None:
    """The certificate under which the webhook knows the controller."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "leader")])
    name = x509.DNSName(f"aaq-controller.{home}.svc")
    signed = (
        _draft(subject, authority._name, key.public_key())
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .sign(authority._key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    _write_key(folder / "tls.key", key)


# ------------------------------------------------------------------ the cluster


class Administrator:
    """What people do in the cluster, in few words."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def namespace(self, name: str, **labels: str) -> str:
        """A namespace whose pods are held back, under a name of its own."""
        unique = f"{name}-{uuid.uuid4().hex[:6]}"
        labelled = {GATING_LABEL: ""} | {
            key.replace("team", TEAM): value for key, value in labels.items()
        }
        await self.create_namespace(unique, labelled)
        return unique

    async def create_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        # Pods are refused without it. The controller that makes it need not be waited for.
        with contextlib.suppress(AlreadyExistsError):
            account = {"metadata": {"name": "default"}}
            await self.client.create(SERVICE_ACCOUNTS, account, namespace=name)

    async def quota(self, key: Key, hard: Mapping[str, str], **spec: object) -> None:
        await self._create(APPLICATION_QUOTAS, key, {"hard": hard, **spec})

    async def cluster_quota(self, name: str, hard: Mapping[str, str], *, team: str) -> None:
        selector = {"labels": {"matchLabels": {TEAM: team}}}
        await self._create(
            CLUSTER_QUOTAS, Key("", name), {"quota": {"hard": hard}, "selector": selector}
        )

    async def _create(self, resource: Resource, key: Key, spec: Raw) -> None:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": key.name},
            "spec": spec,
        }
        await self.client.create(resource, body, namespace=key.namespace)

    async def limit(self, key: Key, **hard: str) -> None:
        """Change the limits of a quota; one without a namespace is cluster-wide."""
        resource = APPLICATION_QUOTAS if key.namespace else CLUSTER_QUOTAS
        spec = {"hard": hard} if key.namespace else {"quota": {"hard": hard}}
        await self.change(resource, key, {"spec": spec})

    async def change(
        self, resource: Resource, key: Key, body: Raw, *, subresource: str = ""
    ) -> Raw:
        patch = Patch(kind=PatchKind.MERGE, body=body)
        changed = await self.client.patch(resource, key, patch, subresource=subresource)
        return json.loads(changed)

    async def pods(self, namespace: str, count: int, *, cpu: str = "", **spec: object) -> None:
        """Pods at the gate that no scheduler is concerned with."""
        names = [f"p-{uuid.uuid4().hex[:10]}" for _ in range(count)]
        await asyncio.gather(*(self.pod(Key(namespace, name), cpu=cpu, **spec) for name in names))

    async def pod(self, key: Key, *gates: str, cpu: str = "", **spec: object) -> Raw:
        body = gated_pod(key.name, *gates, cpu=cpu, **spec)
        return json.loads(await self.client.create(PODS, body, namespace=key.namespace))

    async def read(self, resource: Resource, key: Key) -> Raw:
        return json.loads(await self.client.get(resource, key))

    async def used(self, key: Key) -> Mapping[str, str]:
        """What the status of a quota says is in use."""
        resource = APPLICATION_QUOTAS if key.namespace else CLUSTER_QUOTAS
        status = (await self.read(resource, key)).get("status", {})
        return status.get("total", status).get("used", {})

    async def uses(self, key: Key, **used: str) -> None:
        """Wait until the status says so."""
        wanted = {name.replace("_", "."): amount for name, amount in used.items()}
        shown: Mapping[str, str] = {}

        async def is_shown() -> bool:
            nonlocal shown
            shown = await self.used(key)
            return shown == wanted

        await until(is_shown, lambda: f"{key} shows {wanted}, not {shown}")

    async def settle(self) -> None:
        """Wait until the leader has released a pod that no quota limits.

        The pod is the newest, so by then the leader has decided about all others.
        """
        key = Key(await self.namespace("canary"), "canary")
        await self.pod(key)

        async def is_released() -> bool:
            return not await self.gates(key)

        await until(is_released, "the leader releases a pod that no quota limits")

    async def gates(self, key: Key) -> list[str]:
        pod = await self.read(PODS, key)
        return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]

    async def holder(self) -> str:
        """Who leads, as the Lease says."""
        try:
            return (await self.read(LEASES, LEASE))["spec"].get("holderIdentity") or ""
        except NotFoundError:
            return ""


def gated_pod(name: str, *gates: str, cpu: str = "", **spec: object) -> Raw:
    spec = {"schedulerName": "nobody", **spec}
    return pod_manifest(name, *(gates or (GATE,)), requests=f"cpu={cpu}" if cpu else "", **spec)


@contextlib.asynccontextmanager
async def administering(plane: ControlPlane) -> AsyncIterator[Administrator]:
    async with a_client(access_of(plane)) as client:
        yield Administrator(client)
    # A connection that is cut in the middle of a watch ends only when the server has said so.
    await asyncio.sleep(CLOSING_S)


# ------------------------------------------------------------------ who is past the gate


@dataclass
class Lane:
    """Namespaces that share a limit."""

    limit: int
    released: dict[str, int] = field(default_factory=dict)
    """What each pod past the gate weighs."""
    waiting: set[str] = field(default_factory=set)
    used: int = 0
    most: int = 0


def _one(_: Raw) -> int:
    return 1


def millicores(pod: Raw) -> int:
    """What a pod of these tests requests."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


class Turnstile:
    """Weighs who is past the gate at every change the API server tells of, and never samples.

    Pods are told of in the order in which they were written, so a limit that was exceeded
    for a moment is seen. A limit is raised here before it is raised in the cluster.
    """

    def __init__(self, client: KubeClient, weigh: Callable[[Raw], int], lanes: Raw) -> None:
        self._client, self._weigh = client, weigh
        self.lanes: Mapping[str, Lane] = lanes
        self._lane_of: dict[str, Lane] = {}
        self.excesses: list[str] = []

    def assign(self, lane: str, *namespaces: str) -> None:
        for namespace in namespaces:
            self._lane_of[namespace] = self.lanes[lane]

    @property
    def released(self) -> int:
        return sum(len(lane.released) for lane in self.lanes.values())

    @property
    def waiting(self) -> int:
        return sum(len(lane.waiting) for lane in self.lanes.values())

    async def run(self) -> None:
        version = ""
        while True:
            with contextlib.suppress(ClusterError):
                async for event in self._client.watch(
                    PODS, Query(), resource_version=version, send_initial=not version
                ):
                    version = event.resource_version or version
                    if event.kind is not EventKind.BOOKMARK:
                        self._see(event.kind, json.loads(event.body))
            await asyncio.sleep(POLL_SECONDS)

    def _see(self, kind: EventKind, pod: Raw) -> None:
        metadata = pod["metadata"]
        lane = self._lane_of.get(metadata["namespace"])
        if lane is None:
            return
        uid = metadata["uid"]
        lane.used -= lane.released.pop(uid, 0)
        lane.waiting.discard(uid)
        if kind is EventKind.DELETED:
            return
        if pod["spec"].get("schedulingGates"):
            lane.waiting.add(uid)
            return
        lane.released[uid] = weight = self._weigh(pod)
        lane.used += weight
        lane.most = max(lane.most, lane.used)
        if lane.used > lane.limit:
            self.excesses.append(f"{metadata['name']}: {lane.used} > {lane.limit}")


@contextlib.asynccontextmanager
async def watched(
    client: KubeClient, weigh: Callable[[Raw], int] = _one, **lanes: Lane
) -> AsyncIterator[Turnstile]:
    turnstile = Turnstile(client, weigh, lanes)
    task = asyncio.create_task(turnstile.run())
    try:
        yield turnstile
    finally:
        task.cancel()
        await asyncio.wait((task,))
