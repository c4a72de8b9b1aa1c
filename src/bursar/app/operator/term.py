"""What a leading operator does: keep the installation as the AAQ object says.

One pass after another compares everything with what it should be. A pass follows each change of an
AAQ object or of an object of the installation, and comes at an interval besides.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final, Protocol

from bursar.app.cluster.events.document import EventType
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import MUTATING_POLICIES, PRIORITY_CLASSES
from bursar.app.cluster.observe import RunningInformer, follow, observe, observe_one
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Reader,
    Resource,
    Watcher,
    Writer,
)
from bursar.app.cluster.time_limit import wait_at_most
from bursar.app.install.documents import Document
from bursar.app.log import Log
from bursar.app.operator.applied import AppliedObjects, Stored, Write, decode_stored, observe_owned
from bursar.app.operator.events import ACTION, OperatorReason, record_write, reference
from bursar.app.operator.kinds import OWNED, Target, target_of
from bursar.app.operator.readiness import Workload, held_back, untrusted, workloads
from bursar.app.operator.removal import QUOTAS_ANNOTATION, delete_objects, free_pods
from bursar.app.operator.rendering import KUBEVIRT_CLASS, Rendered, Surroundings, rendered
from bursar.app.operator.status import status_patch, wanted_status
from bursar.app.quota.kinds import AAQS, CLUSTER_RESOURCE_QUOTAS
from bursar.app.tracing import Span, Tracer
from bursar.core.operator.conditions import (
    DEGRADED,
    Installation,
    Judgement,
    Phase,
    Reason,
    deleted,
    deleting,
    judged,
    refused,
)
from bursar.core.operator.versions import Step, step
from bursar.wire.aaq import AaqObject, decode_aaq

LOG: Final = Log("operator")
FINALIZER: Final = "operator.aaq.kubevirt.io"
INTERVAL_SECONDS: Final = 60.0
"""Longest time between two passes. Then every object is compared by its fields."""
PAUSE_SECONDS: Final = 0.5
"""Shortest time between two passes, so that many changes lead to one."""
RETRY_SECONDS: Final = 2.0
"""Time until the next pass, after one in which something failed."""
UNWANTED: Final = "another AAQ object is in force: {}; delete one of them"


class Cluster(Reader, Writer, Watcher, Protocol):
    """A cluster that can be read, written and watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    surroundings: Surroundings
    version: str
    """The version of the operator."""

    @property
    def home(self) -> str:
        return self.surroundings.namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class TermContext:
    """What a term needs of its process."""

    cluster: Cluster
    clock: Clock
    random: Random
    settings: OperatorSettings
    is_leader: Callable[[], bool]
    remaining_seconds: Callable[[], float]
    recorder: EventRecorder[OperatorReason]
    tracer: Tracer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermView:
    """The outcome of the latest pass, for metrics."""

    judgement: Judgement | None = None
    workloads: tuple[Workload, ...] = ()
    unwanted: int = 0
    """AAQ objects beside the one in force."""


class OperatorTerm:
    """Call `run` once."""

    def __init__(self, context: TermContext) -> None:
        self._context, self._settings = context, context.settings
        cluster, clock, random = context.cluster, context.clock, context.random
        self.aaqs = observe(cluster, clock, random, AAQS, decode_aaq)
        self._classes = observe_one(
            cluster, clock, random, PRIORITY_CLASSES, decode_stored, Key("", KUBEVIRT_CLASS)
        )
        self.applied = AppliedObjects(
            writer=cluster,
            informers=observe_owned(cluster, clock, random, self._settings.home),
            may_write=context.is_leader,
            send_by=self._send_by,
            record=self._record_write,
        )
        self.view = TermView()
        self._has_cluster_resource_quotas = False
        self.passes = 0
        self._active: AaqObject | None = None
        self._changed = asyncio.Event()
        self._compared_at = clock.monotonic()

    def informers(self) -> tuple[RunningInformer, ...]:
        return (self.aaqs, self._classes, *self.applied.informers.values())

    async def run(self) -> None:
        """Keep the installation until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers():
                tasks.create_task(informer.run())
            tasks.create_task(follow(self.aaqs, self._wake, self._wake, self._changed.set))
            tasks.create_task(follow(self._classes, self._wake, self._wake))
            for resource, owned in self.applied.informers.items():
                lose = partial(self._lose, resource)
                tasks.create_task(follow(owned, self._wake, lose, self._changed.set))
            await self._wait_known()
            await self._repeat()

    def _wake(self, _: object) -> None:
        self._changed.set()

    def _lose(self, resource: Resource, seen: Sighting[Stored]) -> None:
        self.applied.forget(Target(resource, seen.identity.key))
        self._changed.set()

    async def _wait_known(self) -> None:
        await self.aaqs.wait_synced()
        await self._classes.wait_synced()
        while not all(map(self.applied.is_known, OWNED)):
            await self._context.clock.sleep(PAUSE_SECONDS)

    async def _repeat(self) -> None:
        clock = self._context.clock
        while True:
            self._changed.clear()
            now = clock.monotonic()
            if now - self._compared_at >= INTERVAL_SECONDS:
                self._compared_at = now
                self.applied.forget_all()
            began_s = clock.now().timestamp()
            seconds = await self._pass()
            self.passes += 1
            self._trace(began_s)
            await clock.sleep(PAUSE_SECONDS)
            await wait_at_most(clock, seconds, self._changed)

    def _trace(self, began_s: float) -> None:
        tracer, judgement = self._context.tracer, self.view.judgement
        if tracer is None:
            return
        phase = "" if judgement is None or judgement.phase is None else judgement.phase.value
        now_s = self._context.clock.now().timestamp()
        attributes = {"bursar.loop": "installation", "bursar.phase": phase}
        tracer.record(Span(name="reconcile", began_s=began_s, ended_s=now_s, attributes=attributes))

    def _send_by(self) -> float:
        return self._context.clock.monotonic() + self._context.remaining_seconds()

    # ------------------------------------------------------------------ one pass

    async def _pass(self) -> float:
        """Compare everything once. Returns seconds until the next pass, if nothing changes."""
        if not self._context.is_leader():
            return RETRY_SECONDS
        every = sorted(
            (seen.item for seen in self.aaqs.snapshot().values()),
            key=lambda each: (each.created, each.uid),
        )
        if not every:
            self._active, self.view = None, TermView()
            return INTERVAL_SECONDS
        active, *others = every
        self._active = active
        self.view = replace(self.view, unwanted=len(others))
        try:
            for other in others:
                await self._refuse(other, active)
            is_done = await self._keep(active)
        except ClusterError as error:
            LOG.warning("reconciling the installation failed; trying again", error=error)
            return RETRY_SECONDS
        return INTERVAL_SECONDS if is_done else RETRY_SECONDS

    async def _refuse(self, other: AaqObject, active: AaqObject) -> None:
        """A second object. It installs nothing; its deletion removes nothing."""
        if other.is_deleting:
            await self._drop_finalizer(other)
            return
        judgement = refused(Reason.CONFIG_ERROR, UNWANTED.format(active.name))
        await self._report(other, judgement)

    async def _keep(self, aaq: AaqObject) -> bool:
        if aaq.is_deleting:
            return await self._remove(aaq)
        version, observed = self._settings.version, aaq.status.observed_version
        if step(observed, version) is Step.REFUSED:
            text = (
                f"operator {version} does not take over from {observed}: a rollback is possible "
                "by one minor version at a time; nothing was changed"
            )
            await self._judge(aaq, refused(Reason.VERSION_REFUSED, text))
            return True
        try:
            objects = rendered(aaq, await self._surroundings())
        except ValueError as error:
            text = f"{error}; nothing was changed"
            await self._judge(aaq, refused(Reason.CONFIG_ERROR, text))
            return True
        await self._add_finalizer(aaq)
        return await self._install(aaq, objects)

    async def _surroundings(self) -> Surroundings:
        await self._probe_cluster_resource_quotas()
        return replace(
            self._settings.surroundings,
            has_kubevirt_class=self._classes.find(Key("", KUBEVIRT_CLASS)) is not None,
            has_mutating_policies=not self.applied.is_missing(MUTATING_POLICIES),
            has_cluster_resource_quotas=self._has_cluster_resource_quotas,
        )

    async def _probe_cluster_resource_quotas(self) -> None:
        """Find out whether the API server serves the kind. An error leaves the question open."""
        try:
            await self._context.cluster.list(CLUSTER_RESOURCE_QUOTAS, limit=1)
        except NotFoundError:
            self._has_cluster_resource_quotas = False
        except ClusterError as error:
            LOG.info("cannot list ClusterResourceQuotas", error=str(error))
        else:
            self._has_cluster_resource_quotas = True

    async def _install(self, aaq: AaqObject, objects: Rendered) -> bool:
        find, applied = self.applied.find, self.applied
        failures = await applied.apply((*objects.definitions, *objects.base))
        running = workloads(objects.base, find)
        later = held_back(objects.gate, running, find)
        failures += await applied.apply(each for each in objects.gate if each not in later)
        if not failures and not later:
            failures += await applied.prune(objects.every)
        known = Installation(
            version=self._settings.version,
            observed=aaq.status.observed_version,
            was_deployed=aaq.status.phase == Phase.DEPLOYED.value,
            failures=failures,
            waiting=[
                *(each.text for each in running if each.text),
                *untrusted(objects.gate, find),
            ],
            down=[each.name for each in running if not each.ready],
            held_back=_names(later),
            ignored=objects.ignored,
        )
        self.view = replace(self.view, workloads=running)
        await self._judge(aaq, judged(known))
        return not failures

    # ------------------------------------------------------------------ deletion

    async def _remove(self, aaq: AaqObject) -> bool:
        if FINALIZER not in aaq.finalizers:
            return True
        if aaq.status.phase == Phase.DELETED.value:
            await self._drop_finalizer(aaq)
            return True
        cluster, clock = self._context.cluster, self._context.clock
        if aaq.status.phase != Phase.DELETING.value:
            await self._judge(aaq, deleting(()))
        problems = await free_pods(cluster, clock)
        if not problems:
            problems = await delete_objects(
                cluster,
                self._settings.home,
                may_write=self._context.is_leader,
                record=lambda target: self._record_write(Write.DELETED, target, ""),
                with_definitions=aaq.annotations.get(QUOTAS_ANNOTATION) == "true",
            )
        if problems:
            await self._judge(aaq, deleting(problems))
            return False
        self.applied.forget_all()
        # The changed status makes the operator look again, and drop the finalizer.
        await self._judge(aaq, deleted())
        return True

    async def _drop_finalizer(self, aaq: AaqObject) -> None:
        left = [each for each in aaq.finalizers if each != FINALIZER]
        await self._write_finalizers(aaq, left)

    async def _add_finalizer(self, aaq: AaqObject) -> None:
        await self._write_finalizers(aaq, [*aaq.finalizers, FINALIZER])

    async def _write_finalizers(self, aaq: AaqObject, wanted: Sequence[str]) -> None:
        unique = list(dict.fromkeys(wanted))
        if unique == list(aaq.finalizers):
            return
        seen = self.aaqs.find(Key("", aaq.name))
        if seen is None or seen.identity.uid != aaq.uid:
            return
        # Fenced by resourceVersion: another writer may have added a finalizer.
        metadata: dict[str, Json] = {
            "uid": aaq.uid,
            "resourceVersion": seen.identity.resource_version,
            "finalizers": unique or None,
        }
        body: Json = {"metadata": metadata}
        patch = Patch(kind=PatchKind.MERGE, body=body, send_by=self._send_by())
        await self._context.cluster.patch(AAQS, Key("", aaq.name), patch)

    # ------------------------------------------------------------------ reporting

    async def _judge(self, aaq: AaqObject, judgement: Judgement) -> None:
        self.view = replace(self.view, judgement=judgement)
        await self._report(aaq, judgement)

    async def _report(self, aaq: AaqObject, judgement: Judgement) -> None:
        now = self._context.clock.now()
        status = wanted_status(aaq, judgement, self._settings.version, now)
        if status == aaq.status:
            return
        self._record_change(aaq, judgement)
        patch = replace(status_patch(aaq, status, now), send_by=self._send_by())
        try:
            await self._context.cluster.patch(AAQS, Key("", aaq.name), patch, subresource="status")
        except NotFoundError:
            LOG.debug("the AAQ object went before its status was written", name=aaq.name)

    def _record_change(self, aaq: AaqObject, judgement: Judgement) -> None:
        """An event for a new phase, and for a new degradation."""
        worse = next(each for each in judgement.conditions if each.type == DEGRADED)
        before = {each.type: each for each in aaq.status.conditions}.get(DEGRADED)
        is_new = before is None or (before.status, before.message) != ("True", worse.message)
        if worse.is_true and is_new:
            self._record(
                aaq, _DEGRADATIONS.get(worse.reason, OperatorReason.DEGRADED), worse.message
            )
        if judgement.phase.value != aaq.status.phase and judgement.phase in _PHASES:
            progress = next(each for each in judgement.conditions if each.type == "Progressing")
            self._record(aaq, _PHASES[judgement.phase], progress.message, EventType.NORMAL)

    def _record(
        self,
        aaq: AaqObject,
        reason: OperatorReason,
        note: str,
        type: EventType = EventType.WARNING,
    ) -> None:
        self._context.recorder.record(reference(aaq), reason, note, action=ACTION, type=type)

    def _record_write(self, write: str, target: Target, words: str) -> None:
        if self._active is not None:
            record_write(self._context.recorder, self._active, write, target, words)


_PHASES: Final = {
    Phase.DEPLOYING: OperatorReason.DEPLOY_STARTED,
    Phase.DEPLOYED: OperatorReason.DEPLOY_COMPLETED,
    Phase.UPGRADING: OperatorReason.UPGRADE_STARTED,
    Phase.DELETING: OperatorReason.DELETE_STARTED,
}
_DEGRADATIONS: Final = {
    Reason.CONFIG_ERROR: OperatorReason.CONFIG_ERROR,
    Reason.VERSION_REFUSED: OperatorReason.VERSION_REFUSED,
    Reason.DELETE_BLOCKED: OperatorReason.DELETE_BLOCKED,
}


def _names(documents: Sequence[Document]) -> list[str]:
    return [str(target_of(each)) for each in documents]
