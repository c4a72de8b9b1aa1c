"""What is added to kubelet's responses, decided from the node's pods and devices.

There are two ways: Bursar's, and Koordinator's own for comparing responses. Resolving the devices
of a pod costs more than adding them to a response, so only pods that changed are resolved again.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from bursar.app.devices.node_pods import PodsView
from bursar.core.devices.additions import additions, allocatable_entries
from bursar.core.devices.allocation import Additions, Entry, Holdings, PodKey, ReportedPod
from bursar.core.devices.compat import compat_additions
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.resolve import Rules, resolve
from bursar.core.devices.sharing import number_shares
from bursar.core.devices.source import KOORDINATOR, Source

PLANNED_SPARE: Final = 16

Plan: TypeAlias = Callable[[ReportedPod], Additions | None]
"""What to add to a pod; None leaves the pod unchanged."""


class Plans(Protocol):
    """What to add for one state of the pods and devices."""

    @property
    def holdings(self) -> Mapping[PodKey, Holdings]: ...

    @property
    def wanted(self) -> Container[PodKey]:
        """The pods to which something may be added."""

    def plan(self, reported: ReportedPod) -> Additions | None: ...

    def allocatable(self, already: Sequence[Entry]) -> Sequence[Entry]: ...


class Planning(Protocol):
    def plans(self, view: PodsView, inventory: Inventory | None) -> Plans:
        """The plans; the same object as long as nothing has changed."""


# ------------------------------------------------------------------ Bursar's


@dataclass(frozen=True, eq=False)
class HoldingPlans:
    holdings: Mapping[PodKey, Holdings]
    sources: Mapping[str, Source]
    inventory: Inventory | None
    _planned: dict[int, tuple[ReportedPod, Additions | None]] = field(default_factory=dict)
    """Plans by `id()` of the reported pod: decoding gives the same object for the same bytes, and
    hashing its content would cost more than everything else."""

    @property
    def wanted(self) -> Container[PodKey]:
        return self.holdings

    def plan(self, reported: ReportedPod) -> Additions | None:
        planned = self._planned.get(id(reported))
        if planned is not None:
            return planned[1]
        held = self.holdings.get(reported.key)
        if held is None:
            return None
        plan = additions(held, reported)
        if len(self._planned) >= 2 * len(self.holdings) + PLANNED_SPARE:
            self._planned.clear()
        # While the object is kept here, no other object can have its id().
        self._planned[id(reported)] = reported, plan
        return plan

    def follow(self, before: "HoldingPlans") -> None:
        """Take over the plans of pods whose holdings did not change."""
        for reported, plan in before._planned.values():  # noqa: SLF001 - of its own kind
            key = reported.key
            if self.holdings.get(key) is before.holdings.get(key):
                self._planned[id(reported)] = reported, plan

    def allocatable(self, already: Sequence[Entry]) -> Sequence[Entry]:
        if self.inventory is None:
            return ()
        return allocatable_entries(self.inventory, self.sources, self.holdings.values(), already)


@dataclass(slots=True, eq=False)
class HoldingPlanning:
    """Adds every device that a source gave to a pod, after all checks, to its container."""

    sources: Mapping[str, Source]
    rules: Rules = field(default_factory=Rules)
    resolved: int = field(default=0, init=False)
    """How often a pod was resolved."""
    _plans: HoldingPlans | None = field(default=None, init=False)
    _view: PodsView | None = field(default=None, init=False)
    _known: "_Known" = field(default_factory=dict, init=False)
    """The last resolved pods and their holdings."""

    def plans(self, view: PodsView, inventory: Inventory | None) -> Plans:
        plans = self._plans
        if plans is not None and view is self._view and inventory is plans.inventory:
            return plans
        before = self._known
        if plans is not None and inventory != plans.inventory:
            self._known = {}
        self._known = {
            key: self._resolved(key, pod, inventory) for key, pod in view.pods.items() if pod.claims
        }
        self._view = view
        if plans is not None and inventory is plans.inventory and _are_same(before, self._known):
            return plans
        found = [holdings for _, holdings in self._known.values()]
        named = number_shares(found, self.sources) if self.rules.numbers_shares else found
        self._plans = HoldingPlans({each.key: each for each in named}, self.sources, inventory)
        if plans is not None:
            self._plans.follow(plans)
        return self._plans

    def _resolved(
        self, key: PodKey, pod: DevicePod, inventory: Inventory | None
    ) -> tuple[DevicePod, Holdings]:
        before = self._known.get(key)
        if before is not None and (before[0] is pod or before[0] == pod):
            return before
        self.resolved += 1
        return pod, resolve(pod, self.sources, inventory, self.rules)


_Known: TypeAlias = dict[PodKey, tuple[DevicePod, Holdings]]


def _are_same(some: _Known, others: _Known) -> bool:
    return len(some) == len(others) and all(some.get(key) is each for key, each in others.items())


# ------------------------------------------------------------------ Koordinator's


def latest_pods(pods: Sequence[DevicePod]) -> Mapping[PodKey, DevicePod]:
    """The pods by key. Of pods with the same key the last is used, as by Koordinator."""
    return {pod.key: pod for pod in pods}


@dataclass(frozen=True, eq=False)
class CompatPlans:
    pods: Mapping[PodKey, DevicePod]

    @property
    def holdings(self) -> Mapping[PodKey, Holdings]:
        """Always empty: claims are not checked, so there are no holdings."""
        return {}

    @property
    def wanted(self) -> Container[PodKey]:
        return self.pods

    def plan(self, reported: ReportedPod) -> Additions | None:
        pod = self.pods.get(reported.key)
        for claims in pod.claims if pod is not None else ():
            if claims.source == KOORDINATOR.name:
                return compat_additions(claims, reported)
        return None

    def allocatable(self, already: Sequence[Entry]) -> Sequence[Entry]:  # noqa: ARG002 - nothing is added
        return ()


class CompatPlanning:
    def __init__(self) -> None:
        self._plans = CompatPlans({})

    def plans(
        self,
        view: PodsView,
        inventory: Inventory | None,  # noqa: ARG002 - Koordinator's proxy does not use it
    ) -> Plans:
        if self._plans.pods is not view.pods:
            self._plans = CompatPlans(view.pods)
        return self._plans
