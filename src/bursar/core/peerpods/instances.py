"""Which instance type a pod's VM gets, out of a catalogue.

`upstream_choice` answers as the adaptor of peer pods does, mistakes included: it searches a
sorted list by halves, as if every type that comes later were larger in everything, and
ignores a pod that asks for only one of CPU and memory. `best_choice` looks at every type.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bursar.core.model.quantity import ZERO, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    vcpus: int
    memory_mib: int
    gpus: int = 0
    price: Quantity | None = None
    """Per hour, in whatever currency the catalogue is; None if it does not say."""
    arch: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """How large a VM has to be; zero where nothing is asked for."""

    vcpus: int = 0
    memory_mib: int = 0
    gpus: int = 0

    @property
    def is_nothing(self) -> bool:
        return not (self.vcpus or self.memory_mib or self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    name: str
    others: tuple[InstanceType, ...] = ()
    """What else would do, in the order of preference."""


@dataclass(frozen=True, slots=True)
class NothingFits:
    message: str


Choice: TypeAlias = Chosen | NothingFits

# ------------------------------------------------------------------ as upstream


def upstream_order(types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """By GPUs, then memory, then CPUs. Upstream leaves open in which order equal ones come."""
    return tuple(sorted(types, key=lambda each: (each.gpus, each.memory_mib, each.vcpus)))


def upstream_choice(
    size: MachineSize,
    types: Sequence[InstanceType],
    *,
    default: str,
    valid: Collection[str],
    named: str = "",
) -> Choice:
    """What the adaptor would create. `types` are taken in the order given: see `upstream_order`.

    `named` is the type the pod itself names; then its size is not looked at.
    """
    candidate = named
    if not named and size.gpus > 0:
        found = _first_by_halves(types, lambda each: _is_enough(each, size))
        if found is None:
            return NothingFits(
                "failed to get instance type based on GPU, vCPU, and memory annotations: no "
                f"instance type found for the given GPUs ({size.gpus}), vCPUs ({size.vcpus}), and "
                f"memory ({size.memory_mib})"
            )
        candidate = found.name
    elif not named and size.vcpus != 0 and size.memory_mib != 0:
        without = [each for each in types if each.gpus == 0]
        found = _first_by_halves(without, lambda each: _is_enough(each, size))
        if found is None:
            return NothingFits(
                "failed to get instance type based on vCPU and memory annotations: no instance "
                f"type found for the given vcpus ({size.vcpus}) and memory ({size.memory_mib})"
            )
        candidate = found.name
    return upstream_verified(candidate, default=default, valid=valid)


def upstream_verified(candidate: str, *, default: str, valid: Collection[str]) -> Choice:
    """The candidate if it may be used, the default if there is none."""
    if not candidate:
        return Chosen(name=default)
    if not valid and candidate != default:
        return NothingFits(
            f'failed to verify instance type: requested instance type ("{candidate}") is not '
            f'default ("{default}") and supported instance types list is empty'
        )
    if valid and candidate not in valid:
        return NothingFits(
            f'failed to verify instance type: requested instance type ("{candidate}") is not part '
            "of supported instance types list"
        )
    return Chosen(name=candidate)


def _first_by_halves(
    types: Sequence[InstanceType], is_enough: Callable[[InstanceType], bool]
) -> InstanceType | None:
    low, high = 0, len(types)
    while low < high:
        middle = (low + high) // 2
        if is_enough(types[middle]):
            high = middle
        else:
            low = middle + 1
    return types[low] if low < len(types) else None


def _is_enough(each: InstanceType, size: MachineSize) -> bool:
    return (
        each.gpus >= size.gpus and each.memory_mib >= size.memory_mib and each.vcpus >= size.vcpus
    )


# ------------------------------------------------------------------ the best


def best_choice(
    size: MachineSize, types: Sequence[InstanceType], *, default: str = "", named: str = ""
) -> Choice:
    """The cheapest type that is large enough; among equally cheap ones the smallest.

    Types without a price come after those with one. Types with GPUs are for pods that ask
    for GPUs. The default is for pods that ask for nothing, and need not be in the catalogue;
    a type named by the pod has to be.
    """
    if named:
        if any(each.name == named for each in types):
            return Chosen(name=named)
        return NothingFits(_unknown(named))
    if size.is_nothing and default:
        return Chosen(name=default)
    fitting = fitting_types(size, types)
    if not fitting:
        return NothingFits(
            f"no instance type of {len(types)} in the catalogue has {size.vcpus} vCPUs, "
            f"{size.memory_mib} MiB of memory and {size.gpus} GPUs"
        )
    return Chosen(name=fitting[0].name, others=fitting[1:])


def named_problem(size: MachineSize, types: Sequence[InstanceType], named: str) -> str:
    """What is wrong with the type that a pod names; empty if nothing is."""
    known = next((each for each in types if each.name == named), None)
    if known is None:
        return _unknown(named)
    if _is_enough(known, size):
        return ""
    return (
        f'the instance type "{named}" named by the pod has {known.vcpus} vCPUs, '
        f"{known.memory_mib} MiB of memory and {known.gpus} GPUs; the containers need "
        f"{size.vcpus}, {size.memory_mib} and {size.gpus}"
    )


def _unknown(named: str) -> str:
    return f'the instance type "{named}" named by the pod is not in the catalogue'


def fitting_types(size: MachineSize, types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """Everything that is large enough, best first."""
    enough = (each for each in types if _is_enough(each, size) and (size.gpus or not each.gpus))
    return tuple(sorted(enough, key=_preference))


def _preference(each: InstanceType) -> tuple[bool, Quantity, int, int, int, str]:
    return (
        each.price is None,
        each.price or ZERO,
        each.gpus,
        each.memory_mib,
        each.vcpus,
        each.name,
    )
