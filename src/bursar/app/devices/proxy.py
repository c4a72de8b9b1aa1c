"""The PodResources API, with every device that a pod has: kubelet's answer and what it lacks.

Each call is gather (kubelet's answer, the node's pods and devices), decide (`planning`) and encode.
Kubelet is always asked afresh. Whatever else fails, clients still get what kubelet said: pods
cannot start without an answer.
"""

import asyncio
from collections.abc import Awaitable, Collection, Container
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bursar.app.devices.counters import ProxyCounts
from bursar.app.devices.flight import Flight
from bursar.app.devices.freshness import NodePods, PodsView, named_twice
from bursar.app.devices.planning import Planning, Plans
from bursar.app.devices.ports import (
    CallError,
    Codec,
    InventorySource,
    Kubelet,
    Planner,
    PodsAnswer,
    Reporter,
    Version,
)
from bursar.app.devices.telling import Telling
from bursar.app.ports import Clock
from bursar.app.time_limit import end
from bursar.core.devices.allocation import Additions, PodKey, ReportedPod

UNIMPLEMENTED: Final = 12
UNAVAILABLE: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    fails_closed: bool = False
    """Whether calls fail while the pods are not known, instead of being answered without."""
    fills_list_only: bool = False
    """Whether only List of v1 is filled, as by Koordinator's proxy."""
    trims_above_bytes: int = 0
    """Longer answers leave out pods without devices; 0: never."""
    list_s: float = 10.0
    """For kubelet to answer a List that several clients share, whatever their own deadlines."""
    audit_s: float = 30.0
    """How often all that kubelet reports is compared with what the sources say."""


@dataclass(slots=True, kw_only=True, eq=False)
class PodResourcesProxy:
    """The port `Kubelet` once more, over a kubelet that knows less."""

    kubelet: Kubelet
    codec: Codec
    pods: NodePods
    inventory: InventorySource
    planning: Planning
    reporter: Reporter
    clock: Clock
    rules: ProxyRules = field(default_factory=ProxyRules)
    counts: ProxyCounts = field(default_factory=ProxyCounts, init=False)
    _flights: dict[Version, Flight[bytes]] = field(init=False)
    _telling: Telling = field(init=False)
    _audited: Plans | None = field(default=None, init=False)
    _audited_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._telling = Telling(self.reporter, self.counts)
        self._flights = {
            version: Flight(partial(self._list, version, b"", self.rules.list_s))
            for version in Version
        }

    # -------------------------------------------------------------- the port

    async def list(self, version: Version, request: bytes, within_s: float | None) -> bytes:
        """Concurrent calls share one answer, which kubelet gave after each of them asked."""
        if not request:
            return await self._flights[version].join()
        # No kubelet has fields in this request yet. One that does may answer each differently.
        return await self._list(version, request, within_s)

    async def get(self, request: bytes, within_s: float | None) -> bytes:
        asked = self.kubelet.get(request, within_s)
        if self.rules.fills_list_only:
            return await asked
        body, view = await self._gather(asked)
        try:
            answer = self.codec.pod(body)
            keys = answer.keys()
        except ValueError:
            return self._passed_on(body)
        view = await self._covering(view, keys)
        if view is None:
            return body
        plans = self._plans(view)
        if plans is not self._audited:
            # Somebody may never ask for more than one pod.
            self._audited = plans
            self._telling.look(view.pods, plans.holdings, ())
        return self._filled(body, answer, plans.wanted, plans.plan)

    async def allocatable(self, request: bytes, within_s: float | None) -> bytes:
        asked = self.kubelet.allocatable(request, within_s)
        if self.rules.fills_list_only:
            return await asked
        body, view = await self._gather(asked)
        plans = self._plans(view or NOBODY)
        try:
            answer = self.codec.allocatable(body)
            entries = plans.allocatable(answer.entries())
            if not entries:
                return body
            answer.add(entries)
            return answer.encode()
        except ValueError:
            return self._passed_on(body)

    # -------------------------------------------------------------- gather

    async def _list(self, version: Version, request: bytes, within_s: float | None) -> bytes:
        asked = self._ask(version, request, within_s)
        if version is Version.V1ALPHA1 and self.rules.fills_list_only:
            return await asked
        body, view = await self._gather(asked)
        try:
            answer = self.codec.pods(version, body)
            keys = answer.keys()
        except ValueError:
            return self._passed_on(body)
        view = await self._covering(view, keys)
        if view is not None:
            plans = self._plans(view)
            audit = _Audit(plans) if self._is_audit_due(plans) else None
            wanted = plans.wanted if audit is None else keys
            plan = plans.plan if audit is None else audit.plan
            body = self._filled(body, answer, wanted, self._told_once(keys, plan))
            if audit is not None:
                self._conclude(audit, view)
        return self._trimmed(body, answer)

    async def _ask(self, version: Version, request: bytes, within_s: float | None) -> bytes:
        try:
            return await self.kubelet.list(version, request, within_s)
        except CallError as error:
            if version is Version.V1 or error.code != UNIMPLEMENTED:
                raise
        # This kubelet has dropped the old version. Its messages are the new ones with less in them.
        return await self.kubelet.list(Version.V1, request, within_s)

    async def _gather(self, asked: Awaitable[bytes]) -> tuple[bytes, PodsView | None]:
        """Kubelet's answer and the pods, both at once unless the pods are at hand."""
        if (view := self.pods.fresh()) is not None:
            return await asked, view
        reading = asyncio.ensure_future(self.pods.current())
        try:
            body = await asked
            return body, await reading
        finally:
            await end(reading)

    async def _covering(self, view: PodsView | None, keys: Collection[PodKey]) -> PodsView | None:
        view = await self.pods.covering(view, keys)
        if view is None and keys:
            if self.rules.fails_closed:
                self.counts.refused += 1
                reason = self.pods.counts.last_error
                raise CallError(UNAVAILABLE, f"the pods of this node are not known: {reason}")
            self.counts.bare += 1
        elif self.pods.counts.failing_since_s is not None:
            self.counts.aged += 1
        return view

    # -------------------------------------------------------------- decide

    def _plans(self, view: PodsView) -> Plans:
        return self.planning.plans(view, self.inventory.current())

    def _filled(
        self, body: bytes, answer: PodsAnswer, wanted: Container[PodKey], plan: Planner
    ) -> bytes:
        try:
            answer.add(wanted, plan)
            # The very bytes of kubelet, if nothing was added.
            return answer.encode()
        except ValueError:
            return self._passed_on(body)

    def _told_once(self, keys: Collection[PodKey], plan: Planner) -> Planner:
        """Multus joins all that is told under one name, and would take a device for two."""
        if self.rules.fills_list_only or not named_twice(keys):
            return plan
        told: set[PodKey] = set()

        def planned(reported: ReportedPod) -> Additions | None:
            additions = plan(reported)
            if reported.key in told:
                return None
            told.add(reported.key)
            return additions

        return planned

    def _conclude(self, audit: "_Audit", view: PodsView) -> None:
        self._audited, self._audited_at_s = audit.plans, self.clock.monotonic()
        self.counts.filled = audit.devices
        self._telling.look(view.pods, audit.plans.holdings, audit.reported)

    def _is_audit_due(self, plans: Plans) -> bool:
        late = self.clock.monotonic() - self._audited_at_s >= self.rules.audit_s
        return late or plans is not self._audited

    def _trimmed(self, body: bytes, answer: PodsAnswer) -> bytes:
        bytes_max = self.rules.trims_above_bytes
        if not bytes_max or len(body) <= bytes_max:
            return body
        try:
            answer.keep_only_with_devices()
            trimmed = answer.encode()
        except ValueError:
            return self._passed_on(body)
        self.counts.trimmed += 1
        return trimmed

    def _passed_on(self, body: bytes) -> bytes:
        self.counts.unreadable += 1
        return body


NOBODY: Final = PodsView({}, 0.0)


@dataclass(slots=True, eq=False)
class _Audit:
    """The plans, followed for one answer about all pods, and what was seen on the way."""

    plans: Plans
    reported: list[ReportedPod] = field(default_factory=list)
    devices: int = 0

    def plan(self, reported: ReportedPod) -> Additions | None:
        self.reported.append(reported)
        additions = self.plans.plan(reported)
        if additions is not None:
            lines = (line for lines in additions.entries.values() for line in lines)
            self.devices += sum(len(line.devices) for line in lines)
        return additions
