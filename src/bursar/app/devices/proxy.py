"""The PodResources API, with every device that a pod has: kubelet's answer and what it lacks.

Each call is gather (kubelet's answer, the node's pods and devices), decide (`planning`) and encode.
Kubelet is always asked afresh. Whatever else fails or takes too long, clients still get what
kubelet said, before their deadline: pods cannot start without an answer.
"""

import asyncio
from collections.abc import Awaitable, Collection, Container
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bursar.app.cluster.ports import Clock
from bursar.app.cluster.time_limit import end
from bursar.app.devices.counters import DeviceTally, ProxyCounts
from bursar.app.devices.flight import Flight
from bursar.app.devices.freshness import NodePods, Patience, PodsView, named_twice
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
from bursar.core.devices.allocation import Additions, PodKey, ReportedPod

UNIMPLEMENTED: Final = 12
UNAVAILABLE: Final = 14
PATIENCE_PART: Final = 0.4
"""Of what is left of a client's deadline, the part in which pods may be waited for. It may have
to wait for the answer of others before, and for kubelet."""
PATIENCE_STEPS_S: Final = (0.0, 0.1, 0.3, 0.7, 1.5, 3.0)
"""So that clients who can wait about as long share an answer, and nobody gets a hasty one who
need not. Most wait ten seconds, or for ever."""


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
    _flights: dict[tuple[Version, float], Flight[bytes]] = field(init=False)
    _tally: DeviceTally = field(default_factory=DeviceTally, init=False)
    _telling: Telling = field(init=False)
    _audited: Plans | None = field(default=None, init=False)
    _audited_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._telling = Telling(self.reporter, self.counts)
        self._flights = {
            (version, patience_s): Flight(
                partial(self._list, version, b"", self.rules.list_s, patience_s=patience_s)
            )
            for version in Version
            for patience_s in PATIENCE_STEPS_S
        }

    # -------------------------------------------------------------- the port

    async def list(self, version: Version, request: bytes, within_s: float | None) -> bytes:
        """Concurrent calls share one answer, which kubelet gave after each of them asked."""
        patience_s = patience_step_s(within_s)
        if not request:
            return await self._flights[version, patience_s].join()
        # No kubelet has fields in this request yet. One that does may answer each differently.
        return await self._list(version, request, within_s, patience_s=patience_s)

    async def get(self, request: bytes, within_s: float | None) -> bytes:
        asked = self.kubelet.get(request, within_s)
        if self.rules.fills_list_only:
            return await asked
        patience = self._patience(patience_step_s(within_s))
        body, view = await self._gather(asked, patience)
        try:
            answer = self.codec.pod(body)
            keys = answer.keys()
        except ValueError:
            return self._passed_on(body)
        view = await self._covering(view, keys, patience)
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
        body, view = await self._gather(asked, self._patience(patience_step_s(within_s)))
        plans = self._plans(view or NOBODY)
        try:
            answer = self.codec.allocatable(body)
            entries = plans.allocatable(answer.entries())
            if not entries:
                return body
            answer.add(entries)
            filled = answer.encode()
        except ValueError:
            return self._passed_on(body)
        self.counts.filled += sum(len(entry.devices) for entry in entries)
        return filled

    # -------------------------------------------------------------- gather

    async def _list(
        self, version: Version, request: bytes, within_s: float | None, *, patience_s: float
    ) -> bytes:
        asked = self._ask(version, request, within_s)
        if version is Version.V1ALPHA1 and self.rules.fills_list_only:
            return await asked
        patience = self._patience(patience_s)
        body, view = await self._gather(asked, patience)
        try:
            answer = self.codec.pods(version, body)
            keys = answer.keys()
        except ValueError:
            return self._passed_on(body)
        view = await self._covering(view, keys, patience)
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

    def _patience(self, seconds: float) -> Patience:
        return Patience(self.clock.monotonic() + seconds)

    async def _gather(
        self, asked: Awaitable[bytes], patience: Patience
    ) -> tuple[bytes, PodsView | None]:
        """Kubelet's answer and the pods, both at once unless the pods are at hand."""
        if (view := self.pods.fresh()) is not None:
            return await asked, view
        reading = asyncio.ensure_future(self.pods.current(patience))
        try:
            body = await asked
            return body, await reading
        finally:
            await end(reading)

    async def _covering(
        self, view: PodsView | None, keys: Collection[PodKey], patience: Patience
    ) -> PodsView | None:
        view = await self.pods.covering(view, keys, patience)
        if view is None and keys:
            if self.rules.fails_closed:
                self.counts.refused += 1
                reason = self.pods.counts.last_error or "no answer yet"
                raise CallError(UNAVAILABLE, f"the pods of this node are not known: {reason}")
            self.counts.bare += 1
        elif patience.is_over or self.pods.counts.failing_since_s is not None:
            self.counts.aged += 1
        return view

    # -------------------------------------------------------------- decide

    def _plans(self, view: PodsView) -> Plans:
        return self.planning.plans(view, self.inventory.current())

    def _filled(
        self, body: bytes, answer: PodsAnswer, wanted: Container[PodKey], plan: Planner
    ) -> bytes:
        added: list[Additions] = []

        def noted(reported: ReportedPod) -> Additions | None:
            additions = plan(reported)
            if additions is not None:
                added.append(additions)
            return additions

        try:
            answer.add(wanted, noted)
            # The very bytes of kubelet, if nothing was added.
            filled = answer.encode()
        except ValueError:
            return self._passed_on(body)
        self.counts.filled += self._tally.devices(added)
        return filled

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

    def plan(self, reported: ReportedPod) -> Additions | None:
        self.reported.append(reported)
        return self.plans.plan(reported)


def patience_step_s(within_s: float | None) -> float:
    """How long pods may be waited for by a client that has so much time left.

    >>> [patience_step_s(left) for left in (None, 10.0, 2.0, 0.5, 0.01)]
    [3.0, 3.0, 0.7, 0.1, 0.0]
    """
    if within_s is None:
        return PATIENCE_STEPS_S[-1]
    most_s = within_s * PATIENCE_PART
    return max((step_s for step_s in PATIENCE_STEPS_S if step_s <= most_s), default=0.0)
