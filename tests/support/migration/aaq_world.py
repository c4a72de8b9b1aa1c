"""The embedded cluster with an AAQ installation, and what acts in it while a move goes on.

Programs act when time passes: when a move sleeps, and before each of its writes. They are the
controller of Deployments, AAQ's operator, AAQ's controller and Bursar's. All are simpler than the
real ones; which pods run, and what the API server does with webhooks and policies, is as there.
"""

import contextlib
import json
from random import Random
from typing import Any

from bursar.adapters.memory.admission import Admitted, Operation, Refused, Request
from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import (
    BUDGETS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
    resource_of,
)
from bursar.app.cluster.ports import (
    ClusterError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    Resource,
)
from bursar.app.migration.guard import GUARD, REFUSED
from bursar.app.migration.installation import installation_of
from bursar.app.migration.state import NAME, SHARED_GATE
from bursar.app.names import GATING_ACTIVE, GATING_ANNOTATION, GATING_POLICY
from bursar.app.quota.kinds import APPLICATION_QUOTAS, JOB_QUEUE_CONFIGS
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from support.builders.manifests import DEFINITIONS, pod_manifest
from support.migration import aaq_objects as aaq

Raw = dict[str, Any]
TEAM = "team"
LIMIT = 6
ENDING_TICKS = 2
"""How long a pod takes to end."""
SERVICE = {"service": {"namespace": aaq.HOME, "name": "aaq-server", "path": "/serve-path"}}
OTHER_KINDS = [
    *(MUTATING_POLICIES, MUTATING_BINDINGS, MUTATING_WEBHOOKS),
    *(VALIDATING_POLICIES, VALIDATING_BINDINGS, VALIDATING_WEBHOOKS),
    *(ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS),
    *(SERVICES, BUDGETS, NETWORK_POLICIES),
]


class CrashError(Exception):
    """The move is killed."""


class AaqWorld:
    """A cluster, its programs, and what went wrong in it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = MemoryCluster(
            self.clock,
            source=Random(3),  # noqa: S311 - a seed
            mutating=[self._mutate],
            validating=[self._validate],
        )
        for resource in OTHER_KINDS:
            self.cluster.objects.kinds.add(Kind(resource=resource))
        self.wrongs: list[str] = []
        self.refused = 0
        self.lasting: set[str] = set()
        """Pods that the tenant does not delete."""
        self._owner: Raw = {}
        self._ending: dict[Key, int] = {}
        self._number = 0
        self._is_busy = False
        self._newest: Key | None = None

    async def furnish(self, **spec: Any) -> None:
        put = self._put
        await load_manifests(self.cluster, DEFINITIONS)
        await self.cluster.create(NAMESPACES, {"metadata": {"name": aaq.HOME}})
        labels = {GATING_LABEL: "", "kubernetes.io/metadata.name": TEAM}
        await self.cluster.create(NAMESPACES, {"metadata": {"name": TEAM, "labels": labels}})
        made = json.loads(await put(aaq.an_aaq(**spec)))
        self._owner = aaq.owner_of(made)
        for definition in DEFINITIONS:
            name = definition["metadata"]["name"]
            if name.endswith(".aaq.kubevirt.io") and not name.startswith("aaqs."):
                await self._own(definition, name)
        for name in ("aaq-controller", "aaq-server"):
            await put(aaq.the_account(self._owner, name))
        config = {"metadata": {"name": "aaq-config", "namespace": aaq.HOME}}
        await put({"apiVersion": "v1", "kind": "ConfigMap", **config})
        await put(aaq.the_operator())
        quota = {
            "metadata": {"name": "q", "namespace": TEAM},
            "spec": {"hard": {"pods": str(LIMIT)}},
        }
        kind = APPLICATION_QUOTAS
        await put({"apiVersion": kind.api_version, "kind": kind.kind, **quota})
        await self.pass_time(8)
        await self.tenant_creates(LIMIT + 2)
        self.lasting = {pod["metadata"]["uid"] for pod in await self.pods()}
        self._is_busy = True
        await self.pass_time(2)

    async def _put(self, body: Raw) -> bytes:
        (manifest,) = installation_of([body]).manifests
        resource = manifest.resource
        if body["kind"] == "AAQ":
            resource = Resource(
                resource.group, resource.version, "aaqs", "AAQ", is_namespaced=False
            )
        namespace = manifest.key.namespace if resource.is_namespaced else ""
        return await self.cluster.create(resource, body, namespace=namespace)

    async def _own(self, definition: Raw, name: str) -> None:
        resource = resource_of(definition["apiVersion"], definition["kind"])
        body: Json = {"metadata": {"ownerReferences": [self._owner]}}
        patch = Patch(kind=PatchKind.MERGE, body=body)
        await self.cluster.patch(resource, Key("", name), patch)

    # -------------------------------------------------------------- tenants

    async def tenant_creates(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            try:
                await self.cluster.create(PODS, pod_manifest(f"p{self._number}"), namespace=TEAM)
            except ClusterError:
                self.refused += 1

    async def _tenant_acts(self) -> None:
        """Create a pod. The one before it goes, so that there are never too many."""
        if not self._is_busy:
            return
        if self._newest is not None:
            with contextlib.suppress(NotFoundError):
                await self.cluster.delete(PODS, self._newest, grace_seconds=0)
        await self.tenant_creates(1)
        self._newest = Key(TEAM, f"p{self._number}")

    async def pods(self, namespace: str = TEAM) -> list[Raw]:
        page = await self.cluster.list(PODS, Query(namespace=namespace))
        return [json.loads(body) for body in page.items]

    async def waiting(self) -> int:
        return sum(bool(gates_of(pod)) for pod in await self.pods())

    # -------------------------------------------------------------- time

    async def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            await self.tick()

    async def tick(self) -> None:
        await self._deployments()
        running = {name: await self._running(name) for name in PROGRAMS}
        if running["aaq-operator"]:
            await self._operate()
        if running["aaq-controller"] and running["bursar"]:
            self.wrongs.append("two controllers run")
        if running["aaq-controller"]:
            await self._release(is_aaq=True)
        if running["bursar"]:
            await self._activate()
            await self._release(is_aaq=False)
        await self._tenant_acts()
        released = len(await self.pods()) - await self.waiting()
        if released > LIMIT:
            self.wrongs.append(f"{released} pods run, and {LIMIT} may")

    async def _deployments(self) -> None:
        """Make and end pods as Deployments say."""
        listed = (await self.cluster.list(DEPLOYMENTS)).items
        wanted = {each["metadata"]["name"]: each for each in map(json.loads, listed)}
        owners = {**wanted}
        for pod in await self.pods(aaq.HOME):
            key = Key(aaq.HOME, pod["metadata"]["name"])
            owner = owners.get(pod["metadata"]["annotations"]["deployment"])
            is_wanted = (
                owner is not None
                and owner["metadata"]["uid"] == pod["metadata"]["annotations"]["uid"]
            )
            if not is_wanted or not owner["spec"]["replicas"]:
                self._ending[key] = self._ending.get(key, 0) + 1
                if self._ending[key] > ENDING_TICKS:
                    await self.cluster.delete(PODS, key, grace_seconds=0)
        for name, deployment in wanted.items():
            await self._replicate(name, deployment)

    async def _replicate(self, name: str, deployment: Raw) -> None:
        uid, spec = deployment["metadata"]["uid"], deployment["spec"]
        marks = {"deployment": name, "uid": uid}
        own = [pod for pod in await self.pods(aaq.HOME) if pod["metadata"]["annotations"] == marks]
        for _ in range(spec["replicas"] - len(own)):
            self._number += 1
            metadata = {"labels": spec["template"]["metadata"]["labels"], "annotations": marks}
            pod = pod_manifest(f"{name}-{self._number}", metadata=metadata)
            await self.cluster.create(PODS, pod, namespace=aaq.HOME)
        status = {
            "readyReplicas": min(len(own), spec["replicas"]),
            "observedGeneration": deployment["metadata"]["generation"],
        }
        patch = Patch(kind=PatchKind.MERGE, body={"status": status})
        key = Key(aaq.HOME, name)
        await self.cluster.patch(DEPLOYMENTS, key, patch, subresource="status")

    async def _running(self, program: str) -> int:
        return sum(is_pod_of(program, pod) for pod in await self.pods(aaq.HOME))

    # -------------------------------------------------------------- programs

    async def _operate(self) -> None:
        """AAQ's operator. It empties the webhooks while a Deployment is not ready."""
        for body in (
            aaq.the_controller(self._owner),
            aaq.the_server(self._owner),
            aaq.the_service(self._owner),
        ):
            try:
                await self._put(body)
            except ClusterError:
                continue
        is_ready = True
        for name in ("aaq-controller", "aaq-server"):
            found = json.loads(await self.cluster.get(DEPLOYMENTS, Key(aaq.HOME, name)))
            is_ready &= bool(found.get("status", {}).get("readyReplicas"))
        for body in aaq.the_webhooks(self._owner, SERVICE, is_empty=not is_ready):
            resource = resource_of(body["apiVersion"], body["kind"])
            key = Key("", body["metadata"]["name"])
            try:
                await self.cluster.create(resource, body)
            except ClusterError:
                patch = Patch(kind=PatchKind.MERGE, body={"webhooks": body["webhooks"]})
                await self.cluster.patch(resource, key, patch)

    async def _activate(self) -> None:
        body: Json = {"metadata": {"annotations": {GATING_ANNOTATION: GATING_ACTIVE}}}
        key = Key(aaq.HOME, "aaq-controller")
        await self.cluster.patch(SERVICE_ACCOUNTS, key, Patch(kind=PatchKind.MERGE, body=body))

    async def _release(self, *, is_aaq: bool) -> None:
        """One controller: releases pods while the quota has room."""
        if is_aaq and await was_locked(self.cluster, TEAM):
            return
        pods = await self.pods()
        room = LIMIT - sum(not gates_of(pod) for pod in pods)
        for pod in [pod for pod in pods if gates_of(pod) == [GATE]][: max(room, 0)]:
            body: Json = {"spec": {"schedulingGates": None}}
            key = Key(TEAM, pod["metadata"]["name"])
            await self.cluster.patch(PODS, key, Patch(kind=PatchKind.MERGE, body=body))

    # -------------------------------------------------------------- the API server

    async def _mutate(self, request: Request) -> Admitted | Refused:
        if not is_new_pod(request):
            return Admitted()
        assert request.new is not None
        pod = json.loads(json.dumps(request.new))
        gates = pod["spec"].setdefault("schedulingGates", [])
        if await self._is_gated_by_policy() and not gates_of(pod):
            gates.append({"name": GATE})
        for webhook in await self._webhooks():
            names = {each["name"] for each in webhook.get("matchConditions", ())}
            if names.issuperset(SHARED_GATE) and (gates_of(pod) or request.is_dry_run):
                continue
            is_bursars = "gate-missing" in names
            if is_bursars and gates_of(pod):
                continue
            if not await self._running("bursar-webhook" if is_bursars else "aaq-server"):
                return Refused(message="failed calling webhook")
            gates.append({"name": GATE})
        if gates_of(pod).count(GATE) > 1:
            return Refused(message="Duplicate value", code=422)
        return Admitted(body=pod)

    async def _validate(self, request: Request) -> Admitted | Refused:
        if not is_new_pod(request):
            return Admitted()
        assert request.new is not None
        if not gates_of(request.new):
            if await self._exists(VALIDATING_BINDINGS, GUARD):
                return Refused(message=REFUSED)
            if not request.is_dry_run:
                self.wrongs.append("a pod was created without the gate")
        return Admitted()

    async def _is_gated_by_policy(self) -> bool:
        key = Key(aaq.HOME, "aaq-controller")
        account = json.loads(await self.cluster.get(SERVICE_ACCOUNTS, key))
        is_active = account["metadata"].get("annotations", {}).get(GATING_ANNOTATION)
        return bool(is_active) and await self._exists(MUTATING_BINDINGS, GATING_POLICY)

    async def _webhooks(self) -> list[Raw]:
        try:
            found = json.loads(await self.cluster.get(MUTATING_WEBHOOKS, Key("", "gating-mutator")))
        except NotFoundError:
            return []
        return found["webhooks"]

    async def _exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.cluster.get(resource, Key("", name))
        except NotFoundError:
            return False
        return True


PROGRAMS = {
    "aaq-operator": aaq.OPERATOR_LABELS,
    "aaq-controller": {"aaq.kubevirt.io": "aaq-controller"},
    "aaq-server": {"aaq.kubevirt.io": "aaq-server"},
    "bursar": {
        NAME: "bursar",
        "app.kubernetes.io/component": "controller",
    },
    "bursar-webhook": {
        NAME: "bursar",
        "app.kubernetes.io/component": "webhook",
    },
}


def is_new_pod(request: Request) -> bool:
    is_pod = request.resource == PODS and not request.subresource
    return is_pod and request.operation is Operation.CREATE and request.key.namespace == TEAM


def gates_of(pod: Raw) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


class MovingLine:
    """The cluster as a move sees it: the world goes on before each write, and it may be killed."""

    def __init__(self, world: AaqWorld, crash_after: int | None = None) -> None:
        self._world, self._cluster = world, world.cluster
        self._left = crash_after
        self.writes = 0

    async def get(self, *arguments: Any) -> bytes:
        return await self._cluster.get(*arguments)

    async def list(self, *arguments: Any, **options: Any):
        return await self._cluster.list(*arguments, **options)

    async def create(self, *arguments: Any, **options: Any) -> bytes:
        if options.get("is_dry_run"):
            return await self._cluster.create(*arguments, **options)
        return await self._write(self._cluster.create, *arguments, **options)

    async def patch(self, *arguments: Any, **options: Any) -> bytes:
        return await self._write(self._cluster.patch, *arguments, **options)

    async def delete(self, *arguments: Any, **options: Any) -> None:
        await self._write(self._cluster.delete, *arguments, **options)

    async def _write(self, request, *arguments: Any, **options: Any):
        await self._world.tick()
        self.writes += 1
        answer = await request(*arguments, **options)
        if self.writes == self._left:
            raise CrashError
        return answer


class WorldClock:
    """A clock of the move: while it sleeps, the world goes on."""

    def __init__(self, world: AaqWorld) -> None:
        self._world, self._now = world, 0.0

    def now(self):
        return self._world.clock.now()

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await self._world.tick()


def is_pod_of(program: str, pod: Raw) -> bool:
    """Bursar's pods have the labels of AAQ's too."""
    labels, is_bursars = pod["metadata"]["labels"], program.startswith("bursar")
    return (
        labels.items() >= PROGRAMS[program].items() and (labels.get(NAME) == "bursar") == is_bursars
    )


async def was_locked(cluster: Any, namespace: str) -> bool:
    """As AAQ does it: it counts, removes its locks, and releases pods at the next occasion."""
    key = Key(namespace, "aaqjqc")
    try:
        found = json.loads(await cluster.get(JOB_QUEUE_CONFIGS, key))
    except NotFoundError:
        return False
    locks = found.get("status", {}).get("controllerLock") or {}
    if not any(locks.values()):
        return False
    status = {"controllerLock": dict.fromkeys(locks, False)}
    patch = Patch(kind=PatchKind.MERGE, body={"status": status})
    await cluster.patch(JOB_QUEUE_CONFIGS, key, patch, subresource="status")
    return True
