"""The counter: what a pod costs, once it is let go.

This is where other ways of counting fit in. A counter answers with a charge, or that it
cannot tell yet; then the pod waits, or if it runs already, is charged what the counter
gives for the time being. Charges of pods that cost the same are one object, because
bills are found by it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.core.model.pod_row import PodDemand, PodRow
from bursar.core.quota.account import Charge
from bursar.core.quota.usage import native_usage

CHARGES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """The cost is not known yet."""

    detail: str
    """What is being waited for."""
    provisional: Charge
    """What a pod that runs already is charged meanwhile."""


Counter: TypeAlias = Callable[[PodRow], Charge | NotReady]
"""Asked about pods that have not ended; gates are left out of account."""


class NativeCounter:
    """As Kubernetes counts for a ResourceQuota."""

    def __init__(self) -> None:
        self._charges: dict[int, tuple[PodDemand, Charge]] = {}

    def __call__(self, row: PodRow) -> Charge:
        # By address, which cannot be taken over while the demand is kept here.
        demand = row.profile.demand
        known = self._charges.get(id(demand))
        if known is not None:
            return known[1]
        if len(self._charges) >= CHARGES_MAX:
            self._charges.clear()
        charge = Charge(native_usage(demand, is_counted=True))
        self._charges[id(demand)] = (demand, charge)
        return charge
