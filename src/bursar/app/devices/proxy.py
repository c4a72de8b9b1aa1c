"""The PodResources API with every device of a pod: kubelet's response and the devices it lacks.

Each call gathers (kubelet's response, the node's pods and devices), decides (`planning`) and
encodes. Kubelet is called for every request. If anything else fails or takes too long, clients
still get kubelet's response before their deadline: pods cannot start without it.
"""

import asyncio
from collections.abc import Awaitable, Collection, Container
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bursar.app.cluster.ports import Clock
from bursar.app.cluster.time_limit import end
from bursar.app.devices.counters import ProxyCounts
from bursar.app.devices.events import ProblemTracker
from bursar.app.devices.node_pods import NodePods, PodsView, ReadDeadline, named_twice
from bursar.app.devices.planning import Plan, Planning, Plans
from bursar.app.devices.ports import CallError, InventorySource, Kubelet, Method, Reporter, Version
from bursar.app.devices.shared_call import SharedCall
from bursar.core.devices.allocation import Additions, PodKey, ReportedPod
from bursar.wire.devices.pod_resources.pod_cache import PodCache
from bursar.wire.devices.pod_resources.response import AllocatableResponse, PodsResponse

UNIMPLEMENTED: Final = 12
UNAVAILABLE: Final = 14
WAIT_PART: Final = 0.4
"""The part of a client's remaining time in which the proxy waits for pods. The call may also have
to wait for the shared call before it, and for kubelet."""
WAIT_STEPS_S: Final = (0.0, 0.1, 0.3, 0.7, 1.5, 3.0)
"""Clients share a response with clients of the same step, so a client with a long deadline does not
get a response that was made in a hurry. Most clients wait ten seconds, or without a limit."""
NO_PODS: Final = PodsView({}, 0.0)


def wait_step_s(within_s: float | None) -> float:
    """How long the proxy waits for pods for a client that has `within_s` left.

    >>> [wait_step_s(left) for left in (None, 10.0, 2.0, 0.5, 0.01)]
    [3.0, 3.0, 0.7, 0.1, 0.0]
    """
    if within_s is None:
        return WAIT_STEPS_S[-1]
    most_s = within_s * WAIT_PART
    return max((step_s for step_s in WAIT_STEPS_S if step_s <= most_s), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    fails_closed: bool = False
    """Whether calls fail while the pods are not known, instead of returning kubelet's response."""
    fills_list_only: bool = False
    """Whether devices are added only to List of v1, as by Koordinator's proxy."""
    trims_above_bytes: int = 0
    """Longer responses leave out pods without devices. 0: never."""
    list_s: float = 10.0
    """Timeout of a List call to kubelet that several clients share."""
    audit_s: float = 30.0
    """How often all pods that kubelet reports are checked for conflicts."""


@dataclass(slots=True, kw_only=True, eq=False)
class PodResourcesProxy:
    """A `Kubelet` that adds devices to the responses of another `Kubelet`."""

    kubelet: Kubelet
    pods: NodePods
    inventory: InventorySource
    planning: Planning
    reporter: Reporter
    clock: Clock
    rules: ProxyRules = field(default_factory=ProxyRules)
    counts: ProxyCounts = field(default_factory=ProxyCounts, init=False)
    _caches: dict[Version, PodCache] = field(init=False)
    _lists: dict[tuple[Version, float], SharedCall[bytes]] = field(init=False)
    _problems: ProblemTracker = field(init=False)
    _audited: Plans | None = field(default=None, init=False)
    _audited_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._problems = ProblemTracker(self.reporter, self.counts)
        self._caches = {
            version: PodCache(has_topology=version is Version.V1) for version in Version
        }
        self._lists = {
            (version, wait_s): SharedCall(
                partial(self._list, version, b"", self.rules.list_s, wait_s=wait_s)
            )
            for version in Version
            for wait_s in WAIT_STEPS_S
        }

    # -------------------------------------------------------------- the port

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        """Concurrent List calls share one response, which kubelet gave after each of them asked."""
        wait_s = wait_step_s(within_s)
        if method is Method.LIST:
            if not request:
                return await self._lists[version, wait_s].join()
            # The request has no fields yet. A newer kubelet may answer by fields: not shared.
            return await self._list(version, request, within_s, wait_s=wait_s)
        call = self.kubelet.call(version, method, request, within_s)
        if self.rules.fills_list_only:
            return await call
        answer = self._get if method is Method.GET else self._allocatable
        return await answer(call, self._deadline(wait_s))

    # -------------------------------------------------------------- gather

    async def _get(self, call: Awaitable[bytes], deadline: ReadDeadline) -> bytes:
        body, view = await self._gather(call, deadline)
        try:
            response = PodsResponse(body, self._caches[Version.V1])
        except ValueError:
            return self._passed_on(body)
        view = await self._covering(view, response.keys, deadline)
        if view is None:
            return body
        plans = self._plans(view)
        if plans is not self._audited:
            # The node's clients may never call List.
            self._audited = plans
            self._problems.update(view.pods, plans.holdings, ())
        return self._filled(body, response, plans.wanted, plans.plan)

    async def _allocatable(self, call: Awaitable[bytes], deadline: ReadDeadline) -> bytes:
        body, view = await self._gather(call, deadline)
        plans = self._plans(view or NO_PODS)
        try:
            response = AllocatableResponse(body)
            entries = plans.allocatable(response.entries())
            response.add(entries)
            filled = response.encode()
        except ValueError:
            return self._passed_on(body)
        self.counts.filled += sum(len(entry.devices) for entry in entries)
        return filled

    async def _list(
        self, version: Version, request: bytes, within_s: float | None, *, wait_s: float
    ) -> bytes:
        call = self._call_list(version, request, within_s)
        if version is Version.V1ALPHA1 and self.rules.fills_list_only:
            return await call
        deadline = self._deadline(wait_s)
        body, view = await self._gather(call, deadline)
        try:
            response = PodsResponse(body, self._caches[version])
        except ValueError:
            return self._passed_on(body)
        keys = response.keys
        view = await self._covering(view, keys, deadline)
        if view is not None:
            plans = self._plans(view)
            audit = _Audit(plans) if self._is_audit_due(plans) else None
            wanted = plans.wanted if audit is None else keys
            plan = plans.plan if audit is None else audit.plan
            body = self._filled(body, response, wanted, self._add_once(keys, plan))
            if audit is not None:
                self._conclude(audit, view)
        return self._trimmed(body, response)

    async def _call_list(self, version: Version, request: bytes, within_s: float | None) -> bytes:
        try:
            return await self.kubelet.call(version, Method.LIST, request, within_s)
        except CallError as error:
            if version is Version.V1 or error.code != UNIMPLEMENTED:
                raise
        # This kubelet has dropped v1alpha1, whose messages are those of v1 with fewer fields.
        return await self.kubelet.call(Version.V1, Method.LIST, request, within_s)

    def _deadline(self, seconds: float) -> ReadDeadline:
        return ReadDeadline(self.clock.monotonic() + seconds)

    async def _gather(
        self, call: Awaitable[bytes], deadline: ReadDeadline
    ) -> tuple[bytes, PodsView | None]:
        """Kubelet's response and the pods, concurrently unless the cached pods are fresh."""
        if (view := self.pods.fresh()) is not None:
            return await call, view
        reading = asyncio.ensure_future(self.pods.current(deadline))
        try:
            body = await call
            return body, await reading
        finally:
            await end(reading)

    async def _covering(
        self, view: PodsView | None, keys: Collection[PodKey], deadline: ReadDeadline
    ) -> PodsView | None:
        view = await self.pods.covering(view, keys, deadline)
        if view is None and keys:
            if self.rules.fails_closed:
                self.counts.refused += 1
                reason = self.pods.counts.last_error or "no answer yet"
                raise CallError(UNAVAILABLE, f"the pods of this node are not known: {reason}")
            self.counts.bare += 1
        elif deadline.is_exceeded or self.pods.counts.failing_since_s is not None:
            self.counts.aged += 1
        return view

    # -------------------------------------------------------------- decide

    def _plans(self, view: PodsView) -> Plans:
        return self.planning.plans(view, self.inventory.current())

    def _filled(
        self, body: bytes, response: PodsResponse, wanted: Container[PodKey], plan: Plan
    ) -> bytes:
        try:
            added = response.add(wanted, plan)
            filled = response.encode()
        except ValueError:
            return self._passed_on(body)
        self.counts.filled += added
        return filled

    def _add_once(self, keys: Collection[PodKey], plan: Plan) -> Plan:
        """Add to the first of two pods with one key: Multus joins them, and would count twice."""
        if self.rules.fills_list_only or not named_twice(keys):
            return plan
        planned: set[PodKey] = set()

        def plan_first(reported: ReportedPod) -> Additions | None:
            additions = plan(reported)
            if reported.key in planned:
                return None
            planned.add(reported.key)
            return additions

        return plan_first

    def _conclude(self, audit: "_Audit", view: PodsView) -> None:
        self._audited, self._audited_at_s = audit.plans, self.clock.monotonic()
        self._problems.update(view.pods, audit.plans.holdings, audit.reported)

    def _is_audit_due(self, plans: Plans) -> bool:
        late = self.clock.monotonic() - self._audited_at_s >= self.rules.audit_s
        return late or plans is not self._audited

    def _trimmed(self, body: bytes, response: PodsResponse) -> bytes:
        bytes_max = self.rules.trims_above_bytes
        if not bytes_max or len(body) <= bytes_max:
            return body
        response.keep_only_with_devices()
        self.counts.trimmed += 1
        return response.encode()

    def _passed_on(self, body: bytes) -> bytes:
        self.counts.unreadable += 1
        return body


@dataclass(slots=True, eq=False)
class _Audit:
    """Plans that also record every pod that kubelet reports."""

    plans: Plans
    reported: list[ReportedPod] = field(default_factory=list)

    def plan(self, reported: ReportedPod) -> Additions | None:
        self.reported.append(reported)
        return self.plans.plan(reported)
