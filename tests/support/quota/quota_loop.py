"""A quota loop on an embedded cluster, in virtual time or on an ordinary event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.informer.informer import InformerRules
from bursar.app.cluster.kinds import CRDS, NAMESPACES, PODS
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.cluster.time_limit import end
from bursar.app.counting.feeds import Counting
from bursar.app.quota.growth.resize import ResizeService
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.app.quota.quota_loop import STEPS_MAX, QuotaLoop
from bursar.app.quota.release.lifting import GateLifter
from bursar.app.quota.sources import quota_sources
from bursar.core.quota.books import Books
from bursar.core.quota.counting import Counter, NativeCounter
from bursar.core.quota.quota import GATE
from bursar.core.quota.releases import Wait
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import DEFINITIONS
from support.faults.line import Line
from support.virtual_time import MachineClock, spend

HOME = "team-a"
WRITE_SECONDS = 10
BACKOFF_SECONDS = 5
"""Long enough for everything to have been noticed and done."""
PENDING_MAX = 16
"""Changes of pods that may be on their way to the books."""


class QuotaLoopScene:
    """One namespace in which pods are gated, and its quota loop."""

    def __init__(
        self,
        rate: float,
        counter: Counter | None = None,
        line: type[Line] = Line,
        steps_max: int = STEPS_MAX,
    ) -> None:
        self.clock = MachineClock(rate=rate)
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        random = Random(7)  # noqa: S311 - likewise
        self.counter = counter or NativeCounter()
        self.books = Books(self.counter.count, related=self.counter)
        targeting = Targeting(own_namespace="aaq")
        self.sources = quota_sources(
            self.cluster, self.clock, random, targeting, counting=Counting(counter=self.counter)
        )
        self.sources.pods.rules = InformerRules(pending_max=PENDING_MAX)
        self.informers = (self.sources.pods, self.sources.namespaces, *self.sources.quotas)
        self.line = line(self.cluster)
        self.lifter = GateLifter(
            self.line,
            self.clock,
            random=random,
            may_write=lambda: self.may_write,
            write_seconds=WRITE_SECONDS,
            remaining_seconds=lambda: 20 if self.may_write else 0,
        )
        self.may_write = True
        self.waits = list[Wait]()
        self.wait_seconds = 0.0
        """How long it takes to tell one pod why it waits; in virtual time only."""
        self.loop = QuotaLoop(
            self.books,
            self.sources,
            self.lifter,
            clock=self.clock,
            record_wait=self.record_wait,
            on_usage_changed=lambda _: None,
        )
        self.loop.slice_size.steps_max = self.loop.slice_size.steps = steps_max
        self.decode = PodRowDecoder().decode

    def record_wait(self, wait: Wait) -> None:
        self.waits.append(wait)
        if self.wait_seconds:
            spend(self.wait_seconds)

    def resize_service(self, **options: Any) -> ResizeService:
        parts = {"pods": self.sources.pods, "informers": self.informers, "reader": self.cluster}
        return ResizeService(self.loop, clock=self.clock, **{**parts, **options})

    async def furnish(self) -> None:
        for definition in DEFINITIONS:
            await self.cluster.create(CRDS, definition)
        await self.create_namespace(HOME)

    async def create_namespace(self, name: str) -> None:
        labelled = {"name": name, "labels": {GATING_LABEL: ""}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}
        await self.cluster.create(NAMESPACES, namespace)

    async def label_namespace(self, name: str, value: str | None) -> None:
        """Set the label by which namespaces are selected, or remove it."""
        body = {"metadata": {"labels": {GATING_LABEL: value}}}
        await self.cluster.patch(NAMESPACES, Key("", name), Patch(kind=PatchKind.MERGE, body=body))

    async def rest(self, seconds: float = BACKOFF_SECONDS) -> None:
        await self.clock.sleep(seconds)

    async def set_quota(self, name: str, **hard: str) -> None:
        listed = {key.replace("_", "."): amount for key, amount in hard.items()}
        quota = {
            "apiVersion": APPLICATION_QUOTAS.api_version,
            "kind": APPLICATION_QUOTAS.kind,
            "metadata": {"name": name},
            "spec": {"hard": listed},
        }
        patch = Patch(kind=PatchKind.APPLY, body=quota, field_manager="test", is_forced=True)
        await self.cluster.patch(APPLICATION_QUOTAS, Key(HOME, name), patch)

    async def create_pod(
        self, name: str, cpu: str, *, namespace: str = HOME, **annotations: str
    ) -> bytes:
        gated = {"schedulingGates": [{"name": GATE}]}
        return await self._create(Key(namespace, name), cpu, annotations, gated)

    async def create_running_pod(self, name: str) -> bytes:
        """A pod that nothing holds back."""
        return await self._create(Key(HOME, name), "1", {}, {})

    async def _create(
        self, key: Key, cpu: str, annotations: dict[str, str], spec: dict[str, Any]
    ) -> bytes:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": key.name, "annotations": annotations}
        spec = {"containers": [container], **spec}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return await self.cluster.create(PODS, pod, namespace=key.namespace)


@asynccontextmanager
async def a_quota_loop(
    *,
    is_running: bool = True,
    rate: float = 1,
    counter: Counter | None = None,
    line: type[Line] = Line,
    steps_max: int = STEPS_MAX,
) -> AsyncIterator[QuotaLoopScene]:
    """On an ordinary event loop, time that passes many times faster saves waiting."""
    scene = QuotaLoopScene(rate, counter, line, steps_max)
    await scene.furnish()
    jobs = [informer.run() for informer in scene.informers] if is_running else []
    if is_running:
        jobs.append(scene.loop.run())
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        if is_running:
            await scene.rest()
        yield scene
    finally:
        await end(*tasks)
