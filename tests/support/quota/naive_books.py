"""A naive model of one namespace with two quotas, in whole CPUs and instances.

The books are compared with it while counters change their mind and leaders change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bursar.core.model.pod_row import PodDemand, PodRow
from support.builders.pods import parsed

CPU, INSTANCES = "requests.cpu", "instances/app"
LIMITED = {"a/q": (CPU, INSTANCES), "x": (CPU,)}
"""The quotas and the names that they limit."""
Amounts = dict[str, int]
NOTHING: Amounts = {CPU: 0, INSTANCES: 0}


@dataclass
class Flight:
    """A release that was decided and whose outcome is open."""

    row: PodRow
    held: Amounts
    is_unconfirmed: bool = False


@dataclass
class Promise:
    """A resize that was agreed to."""

    row: PodRow | None
    """None if an earlier leader agreed."""
    held: Amounts
    deadline_s: int
    version: int
    before: PodDemand | None = None
    """What the pod requested when the next leader began."""

    def is_for(self, row: PodRow) -> bool:
        if self.row is None:
            return self.before != row.demand
        return self.row.demand == row.demand


@dataclass
class Model:
    """What the machine knows of the world, counted naively."""

    pods: dict[str, PodRow] = field(default_factory=dict)
    hard: dict[str, Amounts] = field(default_factory=dict)
    order: dict[str, str] = field(default_factory=dict)
    flights: dict[str, Flight] = field(default_factory=dict)
    charged: dict[str, Amounts] = field(default_factory=dict)
    promises: dict[str, list[Promise]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def promised(self, name: str) -> Amounts:
        """What is held for a pod beyond its charge."""
        held = [each.held for each in self.promises.get(name, ())]
        if name in self.flights:
            held.append(self.flights[name].held)
        charged = self.charged.get(name, NOTHING)
        return {
            each: max([0, *(amounts[each] - charged[each] for amounts in held)])
            for each in (CPU, INSTANCES)
        }

    def keep_promises(self, is_kept: Callable[[str, Promise], bool]) -> None:
        kept = {
            name: [each for each in promises if is_kept(name, each)]
            for name, promises in self.promises.items()
        }
        self.promises = {name: promises for name, promises in kept.items() if promises}

    def free(self, quota: str, name: str) -> int:
        charged = sum(each[name] for each in self.charged.values())
        promised = sum(self.promised(pod)[name] for pod in {*self.flights, *self.promises})
        return self.hard[quota][name] - charged - promised

    def fits(self, amounts: Amounts) -> bool:
        return not self.short(amounts)

    def short(self, amounts: Amounts) -> set[str]:
        """The quotas that are short."""
        return {
            quota
            for quota, names in LIMITED.items()
            for name in names
            if amounts[name] and amounts[name] > self.free(quota, name)
        }

    def is_hopeless(self, amounts: Amounts) -> bool:
        return any(
            amounts[name] > self.hard[quota][name]
            for quota, names in LIMITED.items()
            for name in names
        )


def amounts_of(text: str) -> Amounts:
    return NOTHING | {
        name: int(str(amount)) for name, amount in parsed(text).items() if name in NOTHING
    }
