"""The life of a VM under a quota of one VM, on any cluster. The test does the work of KubeVirt.

A watch records every use that the status of the quota shows, so that a use that doubled for
a moment is seen.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bursar.app.cluster.kinds import BINDINGS, PODS
from bursar.app.cluster.ports import (
    EventKind,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    Resource,
)
from bursar.app.cluster.time_limit import end
from bursar.app.counting.kinds import MIGRATIONS, VMIS
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.kubevirt.names import MIGRATION_UID_LABEL
from bursar.core.quota.quota import GATE
from support.builders.vms import a_launcher, a_migration, a_vmi
from support.until import until

Raw = dict[str, Any]
Settle = Callable[[], Awaitable[None]]


class MigrationStory:
    """One namespace with the quota `q`, which limits one resource."""

    def __init__(self, cluster: Any, namespace: str, resource: str, settle: Settle) -> None:
        """`settle` waits until the controller has noticed everything and written it down."""
        self.cluster, self.namespace, self.resource = cluster, namespace, resource
        self.settle = settle
        self.shown: list[str] = []
        """Each use of the resource that the status of the quota has shown."""
        self._uids: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def watched(self, hard: str) -> AsyncIterator["MigrationStory"]:
        quota = {
            "apiVersion": APPLICATION_QUOTAS.api_version,
            "kind": APPLICATION_QUOTAS.kind,
            "metadata": {"name": "q"},
            "spec": {"hard": {self.resource: hard}},
        }
        await self.cluster.create(APPLICATION_QUOTAS, quota, namespace=self.namespace)
        task = asyncio.create_task(self._watch())
        try:
            await until(lambda: "0" in self.shown, "the quota is counted")
            yield self
        finally:
            await end(task)

    async def _watch(self) -> None:
        query = Query(namespace=self.namespace)
        async for event in self.cluster.watch(
            APPLICATION_QUOTAS, query, resource_version="", send_initial=True
        ):
            if event.kind is not EventKind.BOOKMARK:
                used = json.loads(event.body).get("status", {}).get("used", {})
                self.shown += [used[self.resource]] if self.resource in used else []

    async def wait_used(self, amount: str) -> None:
        await until(lambda: self.shown[-1] == amount, lambda: f"{amount} is used: {self.shown}")

    # ------------------------------------------------------------------ KubeVirt's work

    async def create_vm(self, name: str, **guest: Any) -> None:
        created = await self._create(VMIS, a_vmi(name, **guest))
        self._uids[name] = created["metadata"]["uid"]

    async def create_launcher(
        self, name: str, vm: str, requests: str = "cpu=400m memory=9Gi", *, move: str = ""
    ) -> None:
        pod = a_launcher(name, requests, vmi=vm, uid=self._uids[vm], migration=move)
        if move:
            pod["metadata"]["labels"][MIGRATION_UID_LABEL] = self._uids[move]
        pod["spec"] |= {"schedulerName": "nobody", "schedulingGates": [{"name": GATE}]}
        await self._create(PODS, pod)

    async def create_migration(self, name: str, vm: str) -> None:
        created = await self._create(MIGRATIONS, a_migration(name, vm))
        self._uids[name] = created["metadata"]["uid"]

    async def bind(self, pod: str, node: str) -> None:
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        binding = {"apiVersion": "v1", "kind": "Binding", **body}
        await self.cluster.create(BINDINGS, binding, namespace=self.namespace)

    async def set_status(self, resource: Resource, name: str, **status: Any) -> None:
        """KubeVirt's CRD of VMs has no status subresource; the one of pods has."""
        patch = Patch(kind=PatchKind.MERGE, body={"status": status})
        part = "status" if resource == PODS else ""
        await self.cluster.patch(resource, Key(self.namespace, name), patch, subresource=part)

    async def change_guest(self, name: str, **domain: Any) -> None:
        patch = Patch(kind=PatchKind.MERGE, body={"spec": {"domain": domain}})
        await self.cluster.patch(VMIS, Key(self.namespace, name), patch)

    async def delete(self, resource: Resource, name: str) -> None:
        """It may be gone: the cluster deletes pods of a deleted VM."""
        with contextlib.suppress(NotFoundError):
            await self.cluster.delete(resource, Key(self.namespace, name), grace_seconds=0)

    async def _create(self, resource: Resource, body: Raw) -> Raw:
        metadata = {
            key: value
            for key, value in body["metadata"].items()
            if key in ("name", "labels", "annotations", "ownerReferences")
        }
        body = {**body, "metadata": metadata}
        created: Raw = json.loads(
            await self.cluster.create(resource, body, namespace=self.namespace)
        )
        return created

    # ------------------------------------------------------------------ what becomes of pods

    async def is_gated(self, pod: str) -> bool:
        found = json.loads(await self.cluster.get(PODS, Key(self.namespace, pod)))
        return bool(found["spec"].get("schedulingGates"))

    async def wait_released(self, pod: str) -> None:
        async def is_released() -> bool:
            return not await self.is_gated(pod)

        await until(is_released, lambda: f"{pod} is released; used: {self.shown}")

    # ------------------------------------------------------------------ stories

    async def start_vm(self) -> None:
        """A VM starts in the pod `old` on node n1."""
        await self.create_vm("db")
        await self.create_launcher("old", "db")
        await self.wait_released("old")
        await self.bind("old", "n1")
        await self.set_status(VMIS, "db", nodeName="n1")

    async def migrate(self) -> None:
        """The VM moves from the pod `old` to `new` on node n2, and `old` ends."""
        await self.begin_migration()
        await self.wait_released("new")
        await self.settle()
        await self.finish_migration()

    async def begin_migration(self, requests: str = "cpu=400m memory=9Gi") -> None:
        """KubeVirt creates the pod `new`, the target of a migration."""
        await self.create_migration("move", "db")
        await self.create_launcher("new", "db", requests, move="move")

    async def finish_migration(self) -> None:
        """The VM moves to the pod `new`, which is released, and `old` ends."""
        await self.bind("new", "n2")
        pods = {"sourcePod": "old", "targetPod": "new"}
        await self.set_status(VMIS, "db", migrationState=pods)
        await self.set_status(VMIS, "db", nodeName="n2")
        await self.settle()
        await self.set_status(MIGRATIONS, "move", phase="Succeeded")
        await self.set_status(PODS, "old", phase="Succeeded")
        await self.settle()
        await self.delete(PODS, "old")

    async def live(self, one: str) -> None:
        """From start to end: `one` is what the quota counts for the VM."""
        await self.start_vm()
        await self.wait_used(one)
        await self.create_vm("web")
        await self.create_launcher("web-1", "web")
        await self.migrate()
        assert await self.is_gated("web-1")
        await self.wait_used(one)
        await self.delete(VMIS, "db")
        await self.delete(PODS, "new")
        await self.wait_released("web-1")
        await self.wait_used(one)
        assert set(self.shown) <= {"0", one}
