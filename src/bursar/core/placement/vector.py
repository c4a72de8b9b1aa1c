"""The scheduler's own numbers: whole int64s per resource, in place of quantities.

CPU is counted in thousandths, everything else in whole units, each rounded up. Sums
and differences wrap around like Go's int64, because upstream's do; with amounts a
cluster can really have, nothing ever wraps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended, is_scalar
from bursar.core.model.numbers.int64 import wrapped
from bursar.core.model.quantity import MILLI, Format, Quantity
from bursar.core.model.resources import ResourceList

NO_SCALARS: Final[Mapping[str, int]] = MappingProxyType({})


def _no_scalars() -> Mapping[str, int]:
    return NO_SCALARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    pods: int = 0
    """How many pods are allowed. Meaningful on a node only: what a pod says here is dropped."""
    scalars: Mapping[str, int] = field(default_factory=_no_scalars)
    """Extended resources, hugepages and the like. A name may be present with amount zero."""

    def amount(self, resource: str) -> int:
        """The number under any name the scheduler knows; zero under any other."""
        match resource:
            case "cpu":
                return self.milli_cpu
            case "memory":
                return self.memory
            case "ephemeral-storage":
                return self.ephemeral_storage
            case "pods":
                return self.pods
            case _:
                return self.scalars.get(resource, 0)


EMPTY: Final = Vector()


class Tally:
    """A running sum of vectors.

    Each step costs as much as the vector that comes or goes, not as much as the whole sum, which
    has a name for every extended resource of every pod.
    """

    __slots__ = ("_plain", "_scalars", "_sum")

    def __init__(self) -> None:
        self._plain = EMPTY
        self._scalars: dict[str, int] = {}
        self._sum: Vector | None = EMPTY

    @property
    def sum(self) -> Vector:
        """The sum as a value that later steps do not change."""
        if self._sum is None:
            self._sum = replace(self._plain, scalars=dict(self._scalars))
        return self._sum

    def add(self, vector: Vector) -> None:
        self._step(vector, 1)

    def subtract(self, vector: Vector) -> None:
        self._step(vector, -1)

    def _step(self, vector: Vector, sign: int) -> None:
        self._plain = _plain_sum(self._plain, vector, sign)
        _step_scalars(self._scalars, vector.scalars, sign)
        self._sum = None


def vector_of(amounts: ResourceList) -> Vector:
    """What the scheduler keeps of a resource list; names it does not know are dropped."""
    return Vector(
        milli_cpu=scheduled_amount(CPU, amounts),
        memory=scheduled_amount(MEMORY, amounts),
        ephemeral_storage=scheduled_amount(EPHEMERAL_STORAGE, amounts),
        pods=scheduled_amount(PODS, amounts),
        scalars={name: amount.value() for name, amount in amounts.items() if is_scalar(name)},
    )


def scheduled_amount(resource: str, amounts: ResourceList) -> int:
    """One resource of a list in the scheduler's unit, whether it tracks the name or not."""
    amount = amounts.get(resource)
    if amount is None:
        return 0
    return amount.milli_value() if resource == CPU else amount.value()


def as_quantity(resource: str, number: int) -> Quantity:
    """A number of the vector as people write it: thousandths of a CPU, bytes, or a count."""
    if resource == CPU:
        return Quantity.of(number, scale=MILLI)
    counted = resource == PODS or is_extended(resource)
    return Quantity.of(number, Format.DECIMAL_SI if counted else Format.BINARY_SI)


def _step_scalars(sums: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    """Scalars that come to zero are left out, so that a sum is the same in whatever order."""
    for name, amount in amounts.items():
        total = wrapped(sums.get(name, 0) + sign * amount)
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


def _plain_sum(left: Vector, right: Vector, sign: int) -> Vector:
    """The sum without scalars."""
    return Vector(
        milli_cpu=wrapped(left.milli_cpu + sign * right.milli_cpu),
        memory=wrapped(left.memory + sign * right.memory),
        ephemeral_storage=wrapped(left.ephemeral_storage + sign * right.ephemeral_storage),
        pods=wrapped(left.pods + sign * right.pods),
    )
