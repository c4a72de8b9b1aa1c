"""Counters: what a pod costs once it is released.

`NativeCounter` counts as Kubernetes does for a ResourceQuota. Another counter may count what
the application asked for: it is given the whole pod, and may answer that it is not ready.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from bursar.core.model.pod_row import DeriveFacts, PodDemand, PodRow
from bursar.core.quota.account import Charge
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.names import is_native_name
from bursar.core.quota.usage import native_usage, native_usage_in
from bursar.core.sharing import Attached


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """The counter cannot tell yet what the pod costs.

    A gated pod stays gated. A pod that is charged keeps its charge until it can be counted. If its
    requests change meanwhile, it is charged at least `provisional`.
    """

    detail: str
    """What the counter waits for, for the pod's owner to read."""
    provisional: Charge
    """The charge of a running pod that has none yet, such as after a change of leader."""


Count: TypeAlias = Callable[[PodRow], Charge | NotReady]
"""Says what a pod costs that has not ended. Scheduling gates make no difference.

Pods that cost the same should get the same `Charge` object: bills are found by its address.
"""

RecountPods: TypeAlias = Callable[[Iterable[PodKey]], None]
"""Tells the books that the answers for these pods may have changed."""


class Counter(Protocol):
    """A way of counting pods. The composition root chooses it."""

    @property
    def derive_facts(self) -> DeriveFacts | None:
        """Derives what the counter needs beyond a row; None if a row holds all of it."""

    def count(self, row: PodRow) -> Charge | NotReady:
        """What the pod costs; see `Count`."""

    def see_pod(self, row: PodRow) -> Iterable[PodRow]:
        """A pod was created or changed. Returns the other pods that must be counted again."""

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]:
        """A pod was deleted. Returns the other pods that must be counted again."""

    def may_charge(self, resource: str) -> bool:
        """Whether any pod can be charged under this name."""


class RelatedPods(Protocol):
    """The part of a counter that knows which pods depend on each other, such as those of a VM."""

    def see_pod(self, row: PodRow) -> Iterable[PodRow]: ...

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]: ...


class IndependentPods:
    """For counters whose answer for one pod depends on no other pod."""

    def see_pod(self, row: PodRow) -> Iterable[PodRow]:  # noqa: ARG002 - the port has it
        return ()

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]:  # noqa: ARG002 - the port has it
        return ()


class NativeCounter(IndependentPods):
    """Counts as Kubernetes does for a ResourceQuota. The answer for a pod never changes."""

    derive_facts: Final = None

    def __init__(self) -> None:
        self._charges: Final[Attached[PodDemand, Charge]] = Attached()

    def count(self, row: PodRow) -> Charge:
        demand = row.profile.demand
        known = self._charges.entries.get(id(demand))
        if known is not None:
            return known[0]
        rest = demand.rest
        # A charge that held the demand itself would keep it alive for ever.
        amounts_in = None if rest is None else partial(native_usage_in, rest)
        charge = Charge(native_usage(demand, is_counted=True), amounts_in)
        self._charges.keep(demand, charge)
        return charge

    def may_charge(self, resource: str) -> bool:
        return is_native_name(resource)
