"""An AAQ installation on a real control plane, and the programs of the pods that its nodes run.

The nodes are simulated, so nothing runs in a pod. `Programs` runs what a pod stands for: AAQ's
operator and controller in a few lines, AAQ's server, and `bursar controller` as a process. As with
a kubelet, a pod is gone only when its program has ended: a finalizer keeps it until then.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import CRDS, NAMESPACES, PODS, resource_of
from bursar.app.cluster.ports import (
    ClusterError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
)
from bursar.app.migration.installation import installation_of
from bursar.app.quota.kinds import AAQS
from bursar.core.quota.quota import GATE
from controlplane import ControlPlane
from support.builders.manifests import DEFINITIONS
from support.cluster.access import a_client, access_of
from support.migration import aaq_objects as aaq
from support.migration.aaq_world import PROGRAMS, gates_of, is_pod_of, was_locked
from support.migration.gating_server import GatingServer
from support.quota.controller_processes import ACCOUNT, HOME, SHORT_TERMS, Controllers
from support.until import POLL_SECONDS

Raw = dict[str, Any]
FINALIZER = "bursar.test/process"
LOOK_SECONDS = 0.5
"""Programs look at the cluster this often. More would keep the API server busy."""
RBAC = "rbac.authorization.k8s.io/v1"


def controllers_role(owner: Raw) -> list[Raw]:
    """What AAQ's controller may do, under the names that Bursar's has as well."""
    meta = {"name": "aaq-controller", "labels": dict(aaq.MARKS), "ownerReferences": [owner]}
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    subject = {"kind": "ServiceAccount", "name": "aaq-controller", "namespace": HOME}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": meta["name"]}
    return [
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": meta, "rules": [rule]},
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": role,
            "subjects": [subject],
        },
    ]


@dataclass
class Programs:
    """The programs of all pods in AAQ's namespace."""

    plane: ControlPlane
    admin: KubeClient
    """Of AAQ's operator, and of the kubelet."""
    account: KubeClient
    """Of AAQ's controller."""
    server: GatingServer
    bursar: Controllers
    owner: Raw = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    """By namespace: how many pods AAQ's controller lets run."""
    wrongs: list[str] = field(default_factory=list)
    running: set[str] = field(default_factory=set)

    async def run(self) -> None:
        while True:
            with contextlib.suppress(ClusterError):
                await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        page = await self.admin.list(PODS, Query(namespace=HOME))
        pods = [json.loads(body) for body in page.items]
        for program in PROGRAMS:
            own = [each for each in pods if is_pod_of(program, each)]
            living = [each for each in own if "deletionTimestamp" not in each["metadata"]]
            for each in living:
                if FINALIZER not in each["metadata"].get("finalizers", ()):
                    await self._finalize(each, [FINALIZER])
            if living:
                self._start(program)
            elif program in self.running:
                await self._stop(program)
            for each in own:
                if each not in living:
                    await self._finalize(each, [])
        if {"aaq-controller", "bursar"} <= self.running:
            self.wrongs.append("two controllers run")
        if "aaq-operator" in self.running:
            await self._operate()
        if "aaq-controller" in self.running:
            for namespace, limit in self.limits.items():
                await self._release(namespace, limit)

    async def _finalize(self, pod: Raw, finalizers: list[str]) -> None:
        body: Json = {"metadata": {"finalizers": finalizers}}
        key = Key(HOME, pod["metadata"]["name"])
        with contextlib.suppress(NotFoundError):
            await self.admin.patch(PODS, key, Patch(kind=PatchKind.MERGE, body=body))

    def _start(self, program: str) -> None:
        if program in self.running:
            return
        self.running.add(program)
        if program == "aaq-server":
            self.server.start()
        elif program == "bursar":
            self.bursar.replicas[0].start()

    async def _stop(self, program: str) -> None:
        if program == "aaq-server":
            await asyncio.to_thread(self.server.stop)
        elif program == "bursar":
            await asyncio.to_thread(self.bursar.replicas[0].stop)
        self.running.discard(program)

    # -------------------------------------------------------------- AAQ

    async def _operate(self) -> None:
        """AAQ's operator creates what is missing, and empties the webhooks if a program is."""
        owner = self.owner
        for body in (
            *controllers_role(owner),
            aaq.the_controller(owner),
            aaq.the_server(owner),
            aaq.the_service(owner),
        ):
            await put(self.admin, body)
        is_ready = {"aaq-controller", "aaq-server"} <= self.running
        client = self.server.client_config
        for body in aaq.the_webhooks(owner, client, is_empty=not is_ready):
            if not await put(self.admin, body):
                resource = resource_of(body["apiVersion"], body["kind"])
                key = Key("", body["metadata"]["name"])
                patch = Patch(kind=PatchKind.MERGE, body={"webhooks": body["webhooks"]})
                await self.admin.patch(resource, key, patch)

    async def _release(self, namespace: str, limit: int) -> None:
        """AAQ's controller, with its barrier: it releases nothing in a locked namespace."""
        if await was_locked(self.admin, namespace):
            return
        page = await self.account.list(PODS, Query(namespace=namespace))
        pods = [json.loads(body) for body in page.items]
        room = limit - sum(not gates_of(pod) for pod in pods)
        for pod in [pod for pod in pods if gates_of(pod) == [GATE]][: max(room, 0)]:
            key = Key(namespace, pod["metadata"]["name"])
            body: Json = {"spec": {"schedulingGates": None}}
            with contextlib.suppress(NotFoundError):
                await self.account.patch(PODS, key, Patch(kind=PatchKind.MERGE, body=body))


async def put(client: KubeClient, body: Raw) -> bytes | None:
    """Create an object; None if it exists."""
    (manifest,) = installation_of([body]).manifests
    resource = AAQS if body["kind"] == "AAQ" else manifest.resource
    namespace = manifest.key.namespace if resource.is_namespaced else ""
    try:
        return await client.create(resource, body, namespace=namespace)
    except ClusterError as error:
        if error.reason != "AlreadyExists":
            raise
        return None


async def install_aaq(client: KubeClient) -> Raw:
    """The definitions, the AAQ object that owns them, and AAQ's operator; returns the owner."""
    for definition in DEFINITIONS:
        if not definition["metadata"]["name"].endswith(".bursar.io"):
            await put(client, definition)
    await client.create(NAMESPACES, {"metadata": {"name": HOME}})
    while True:
        try:
            made = await put(client, aaq.an_aaq())
            break
        except NotFoundError:  # The definition is not served yet.
            await asyncio.sleep(POLL_SECONDS)
    assert made is not None
    owner = aaq.owner_of(json.loads(made))
    for definition in DEFINITIONS:
        name = definition["metadata"]["name"]
        if name.endswith(".aaq.kubevirt.io") and not name.startswith("aaqs."):
            body: Json = {"metadata": {"ownerReferences": [owner]}}
            await client.patch(CRDS, Key("", name), Patch(kind=PatchKind.MERGE, body=body))
    for name in ("aaq-controller", "aaq-server"):
        await put(client, aaq.the_account(owner, name))
    config = {"metadata": {"name": "aaq-config", "namespace": HOME}}
    await put(client, {"apiVersion": "v1", "kind": "ConfigMap", **config})
    await put(client, aaq.the_operator())
    return owner


@contextlib.asynccontextmanager
async def running_aaq(plane: ControlPlane, folder: Path) -> AsyncIterator[Programs]:
    """AAQ at work. What runs in its pods ends with the context."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
    account = access_of(plane, plane.client(ACCOUNT, *groups))
    async with a_client(access_of(plane)) as admin, a_client(account) as controller:
        programs = Programs(
            plane=plane,
            admin=admin,
            account=controller,
            server=GatingServer(folder),
            bursar=Controllers(plane, folder, *SHORT_TERMS),
        )
        programs.owner = await install_aaq(admin)
        task = asyncio.create_task(programs.run())
        try:
            yield programs
        finally:
            task.cancel()
            await asyncio.wait((task,))
            for program in sorted(programs.running):
                await programs._stop(program)
