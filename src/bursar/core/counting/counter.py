"""The port of a pod counter: one way of counting, such as that of VMs or of a policy.

Several pod counters may count the same pod. `Counters` adds up what they charge.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from bursar.core.model.pod_row import PodRow
from bursar.core.model.resources import NOTHING, ResourceList
from bursar.core.quota.account import Charge
from bursar.core.quota.ledger import PodKey


class Counted(NamedTuple):
    """What a pod counter charges for a pod."""

    amounts: ResourceList
    reason: str
    """Why, in a few words for the pod's owner: "VM db: 4 vCPUs, 8Gi"."""
    is_addition: bool = False
    """Whether the amounts come on top of native counting, and do not replace it."""


class Pending(NamedTuple):
    """The pod is one that this counter counts, but it cannot tell the amounts yet."""

    detail: str
    """What the counter waits for, for the pod's owner to read."""
    at_least: ResourceList = NOTHING
    """What is known so far. A running pod without a charge, such as after a change of leader, costs
    this much for the time being."""


class PodCounter(Protocol):
    """One way of counting. It is told of every pod before the pod is counted."""

    @property
    def name(self) -> str:
        """How views and messages name it."""

    def derive_facts(self, body: bytes) -> Hashable | None:
        """What this counter needs of a pod beyond the fields of a row, given the pod as JSON.

        It is called each time a pod is decoded, and its result is kept with the row. It must not
        raise, whatever the pod's owner has written.
        """

    def see_pod(self, row: PodRow) -> Iterable[PodRow]:
        """A pod was created or changed. Returns the other pods that must be counted again."""

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]:
        """A pod was deleted. Returns the other pods that must be counted again."""

    def count(self, row: PodRow) -> Counted | Pending | None:
        """What the pod costs; None if it is not one that this counter counts.

        Only pods that have not ended are counted. Scheduling gates make no difference.
        """

    def may_charge(self, resource: str) -> bool:
        """Whether an answer can have this name.

        The owner of a quota is told of a name that no counter charges. A counter that does not know
        yet, such as before its objects are listed, answers true.
        """


@runtime_checkable
class ChargeObserver(Protocol):
    """A pod counter that reports what all counters together charge for a pod."""

    def see_charge(self, row: PodRow, charge: Charge) -> None:
        """The pod was counted. While a counter cannot tell its part, the charge is provisional."""


T = TypeVar("T")


def fact_of(row: PodRow, kind: type[T]) -> T | None:
    """The fact of that type among those that pod counters derived from the pod."""
    facts = row.facts
    if type(facts) is tuple:
        for each in facts:
            if type(each) is kind:
                return each
    return None
