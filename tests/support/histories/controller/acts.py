"""What happens to the objects of an embedded cluster, and to its controllers."""

import json
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from bursar.adapters.memory.manifests import load_manifests
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import (
    ClusterError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    Resource,
    UnavailableError,
)
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.install.admission import GatingSettings, policy_documents
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.model.selectors.selector import LabelSelector
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.histories.controller.truth import Raw, read_all
from support.quota.aaq_controller import CLASSES, HOME, AaqScene

TEAMS = ("team", "other")
HARD = {
    "pods": (0.4, ("0", "1", "2", "3", "5")),
    "requests.cpu": (0.4, ("100m", "500m", "1", "2")),
    "requests.memory": (0.3, ("64Mi", "1Gi")),
    "services": (0.1, ("1",)),
    "count/secrets": (0.05, ("5",)),
    "cpus": (0.05, ("1",)),
}
"""How often a quota has the limit, and its amounts. Nothing is counted under the last name."""
REQUESTS = ("", "cpu=100m", "cpu=500m", "cpu=1 memory=64Mi", "memory=512Mi")
SCOPES: tuple[list[str], ...] = (
    *([],) * 6,
    ["Terminating"],
    ["NotTerminating"],
    ["PriorityClass"],
    ["Terminating", "NotTerminating"],
    ["Terminating", "Terminating"],
)
SELECTORS = (None, None, None, LabelSelector(match_labels={"team": "a"}))
"""Of the installed policies; None selects as the controller does."""
PAUSES_S = (0.0, 0.05, 0.5, 2.0, 9.0, 11.0, 25.0)


class Acts:
    """The part of a history that needs no auditor."""

    random: Random
    scene: AaqScene
    changed_s: dict[str, float]
    """When a quota or namespace last changed, by name; "" of all of them."""

    @property
    def cluster(self) -> Any:
        return self.scene.cluster

    def note(self, name: str) -> None:
        self.changed_s[name] = self.scene.clock.monotonic()

    async def some(self, resource: Resource) -> Raw | None:
        found = await read_all(self.cluster, resource)
        found = [each for each in found if each["metadata"].get("namespace", "") in ("", *TEAMS)]
        return self.random.choice(found) if found else None

    async def change(self, resource: Resource, raw: Raw, body: Raw, subresource: str = "") -> None:
        patch = Patch(kind=PatchKind.MERGE, body=body)
        await self.cluster.patch(resource, key_of(raw), patch, subresource=subresource)

    # .............................................................. pods

    async def create_pod(self) -> None:
        random = self.random
        where = f"{random.choice(TEAMS)}/p{random.randrange(6)}"
        spec: Raw = {}
        if random.random() < 0.2:
            spec["activeDeadlineSeconds"] = 60
        if random.random() < 0.2:
            spec["priorityClassName"] = random.choice(CLASSES)
        pod = pod_manifest(where, GATE, requests=random.choice(REQUESTS), **spec)
        pod["metadata"]["finalizers"] = ["example.com/keep"] if random.random() < 0.1 else []
        with suppress(ClusterError):
            await self.cluster.create(PODS, pod, namespace=pod["metadata"]["namespace"])

    async def delete_pod(self) -> None:
        pod = await self.some(PODS)
        if pod is not None:
            await self.cluster.delete(PODS, key_of(pod), grace_seconds=0)

    async def let_go(self) -> None:
        """Remove the finalizers of a pod."""
        pod = await self.some(PODS)
        if pod is not None:
            await self.change(PODS, pod, {"metadata": {"finalizers": None}})

    async def end_pod(self) -> None:
        pod = await self.some(PODS)
        if pod is not None and not pod["spec"].get("schedulingGates"):
            await self.change(PODS, pod, {"status": {"phase": "Succeeded"}}, "status")

    async def touch_pod(self) -> None:
        pod = await self.some(PODS)
        if pod is not None:
            number = str(self.random.random())
            await self.change(PODS, pod, {"metadata": {"labels": {"number": number}}})

    async def resize_pod(self) -> None:
        """Ask the leader for a resize, as the webhook does, and write it if it agrees."""
        pod = await self.some(PODS)
        service = self.resize_service()
        if pod is None or service is None or pod["spec"].get("schedulingGates"):
            return
        containers = pod["spec"]["containers"]
        if not containers[0]["resources"].get("requests"):
            return
        amounts = dict.fromkeys(containers[0]["resources"]["requests"], "")
        for name in amounts:
            amounts[name] = {"cpu": "700m", "memory": "100Mi"}[name]
        grown = {**containers[0], "resources": {"requests": amounts}}
        after = {**pod, "spec": {**pod["spec"], "containers": [grown]}}
        row = PodRowDecoder().decode(json.dumps(after).encode())
        with suppress(UnavailableError):
            if await self.in_time(service.resize(row, is_dry_run=False)) == ():
                fence = {"resourceVersion": pod["metadata"]["resourceVersion"]}
                body = {"metadata": fence, "spec": {"containers": [grown]}}
                with suppress(ClusterError):
                    await self.change(PODS, pod, body, "resize")

    def resize_service(self) -> Any:
        raise NotImplementedError

    async def in_time(self, work: Coroutine[Any, Any, Any]) -> Any:
        raise NotImplementedError

    # .............................................................. quotas

    def spec(self) -> Raw:
        random = self.random
        hard = {
            name: random.choice(amounts)
            for name, (chance, amounts) in HARD.items()
            if random.random() < chance
        }
        spec: Raw = {"hard": hard or {"pods": "2"}}
        scopes = random.choice(SCOPES)
        if scopes:
            spec["scopes"] = scopes
        if random.random() < 0.05:
            spec["scopeSelector"] = {"matchExpressions": [{"scopeName": 7}]}  # It cannot be read.
        return spec

    async def write_quota(self) -> None:
        await self.put(self.new_quota())

    def new_quota(self) -> Raw:
        random = self.random
        if random.random() < 0.7:
            kind, spec = APPLICATION_QUOTAS, self.spec()
            metadata = {"name": random.choice("qr"), "namespace": random.choice(TEAMS)}
        else:
            labels = random.choice(({}, {"team": "a"}))
            selector = {"labels": {"matchLabels": labels}} if labels else {}
            kind, spec = CLUSTER_QUOTAS, {"quota": self.spec(), "selector": selector}
            metadata = {"name": random.choice("xy")}
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "spec": spec,
        }

    async def put(self, quota: Raw) -> None:
        """Create a quota, or replace its spec."""
        self.note(name_of(quota))
        kind = kind_of(quota)
        try:
            await self.cluster.create(kind, quota, namespace=key_of(quota).namespace)
        except ClusterError:
            patch = Patch(kind=PatchKind.JSON, body=[replace_spec(quota)])
            with suppress(ClusterError):
                await self.cluster.patch(kind, key_of(quota), patch)

    async def delete_quota(self) -> None:
        quota = await self.some(self.random.choice((APPLICATION_QUOTAS, CLUSTER_QUOTAS)))
        if quota is not None:
            self.note(name_of(quota))
            await self.cluster.delete(kind_of(quota), key_of(quota))

    async def replace_quota(self) -> None:
        """`kubectl replace --force`, once or again and again, at times with long pauses."""
        quota = await self.some(self.random.choice((APPLICATION_QUOTAS, CLUSTER_QUOTAS)))
        if quota is None:
            return
        for _ in range(self.random.randint(1, 3)):
            self.note(name_of(quota))
            with suppress(NotFoundError):
                await self.cluster.delete(kind_of(quota), key_of(quota))
            await self.pause()
            fields = ("apiVersion", "kind", "spec")
            metadata = {name: text for name, text in quota["metadata"].items() if name in NAMED}
            await self.put({**{each: quota[each] for each in fields}, "metadata": metadata})
            await self.pause()

    # .............................................................. namespaces and policies

    async def label_namespace(self) -> None:
        name, random = self.random.choice(TEAMS), self.random
        key, value = random.choice(((GATING_LABEL, ""), ("team", "a")))
        labels = {key: random.choice((value, value, None))}
        self.note("")
        with suppress(NotFoundError):
            body = {"metadata": {"labels": labels}}
            await self.cluster.patch(
                NAMESPACES, Key("", name), Patch(kind=PatchKind.MERGE, body=body)
            )

    async def delete_namespace(self) -> None:
        self.note("")
        with suppress(ClusterError):
            await self.cluster.delete(NAMESPACES, Key("", self.random.choice(TEAMS)))

    async def create_namespace(self) -> None:
        self.note("")
        with suppress(ClusterError):
            await self.scene.namespace(self.random.choice(TEAMS))

    async def install_policies(self) -> None:
        await self.remove_policies()
        settings = GatingSettings(namespace=HOME, namespace_selector=self.random.choice(SELECTORS))
        wanted = {(resource.kind, name) for resource, name in CONFIGURATIONS}
        documents = policy_documents(settings)
        await load_manifests(
            self.cluster,
            [each for each in documents if (each["kind"], each["metadata"]["name"]) in wanted],
        )

    async def remove_policies(self) -> None:
        self.note("")
        for resource, name in CONFIGURATIONS[:2]:
            with suppress(NotFoundError):
                await self.cluster.delete(resource, Key("", name))

    # .............................................................. time

    async def pause(self) -> None:
        await self.scene.clock.advance(self.random.choice(PAUSES_S))


NAMED = ("name", "namespace")


def key_of(raw: Raw) -> Key:
    return Key(raw["metadata"].get("namespace", ""), raw["metadata"]["name"])


def name_of(raw: Raw) -> str:
    key = key_of(raw)
    return f"{key.namespace}/{key.name}"


def kind_of(quota: Raw) -> Resource:
    is_own = quota["kind"] == APPLICATION_QUOTAS.kind
    return APPLICATION_QUOTAS if is_own else CLUSTER_QUOTAS


def replace_spec(quota: Raw) -> Raw:
    return {"op": "replace", "path": "/spec", "value": quota["spec"]}


async def remove_all(cluster: Any, resource: Resource) -> None:
    for each in await read_all(cluster, resource):
        if key_of(each).namespace in ("", *TEAMS):
            with suppress(ClusterError):
                if each["metadata"].get("finalizers"):
                    patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": None}})
                    await cluster.patch(resource, key_of(each), patch)
                await cluster.delete(resource, key_of(each))


async def count_of(cluster: Any, resource: Resource) -> int:
    return len((await cluster.list(resource, Query())).items)
