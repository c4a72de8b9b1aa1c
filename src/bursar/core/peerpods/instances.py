"""The choice of an instance type from a catalogue.

`upstream_choice` chooses as the cloud-api-adaptor does, with its defects: its binary search
assumes that every later type is larger in everything, and it ignores the size of a pod that asks
for only one of CPU and memory. `best_choice` looks at every type.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.core.model.quantity import ZERO, Quantity

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    vcpus: int
    memory_mib: int
    gpus: int = 0
    price: Quantity | None = None
    """Price per hour, in the currency of the catalogue; None if the catalogue has no price."""
    arch: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """The least size of a VM; zero for a resource that is not asked for."""

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
    """The other types that are large enough, best first."""


@dataclass(frozen=True, slots=True)
class NothingFits:
    message: str


Choice: TypeAlias = Chosen | NothingFits

# ------------------------------------------------------------------ as upstream


def upstream_order(types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """Sort by GPUs, then memory, then vCPUs. Upstream does not define the order of equal types."""
    return tuple(sorted(types, key=lambda each: (each.gpus, each.memory_mib, each.vcpus)))


def upstream_choice(
    size: MachineSize,
    types: Sequence[InstanceType],
    *,
    default: str,
    valid: Collection[str],
    named: str = "",
) -> Choice:
    """The type that the adaptor would create.

    `types` must be in `upstream_order`. If the pod names a type (`named`), the size is ignored.
    """
    candidate = named
    if not named and size.gpus > 0:
        found = _binary_search(types, lambda each: _is_enough(each, size))
        if found is None:
            return NothingFits(
                "failed to get instance type based on GPU, vCPU, and memory annotations: no "
                f"instance type found for the given GPUs ({size.gpus}), vCPUs ({size.vcpus}), and "
                f"memory ({size.memory_mib})"
            )
        candidate = found.name
    elif not named and size.vcpus != 0 and size.memory_mib != 0:
        without = [each for each in types if each.gpus == 0]
        found = _binary_search(without, lambda each: _is_enough(each, size))
        if found is None:
            return NothingFits(
                "failed to get instance type based on vCPU and memory annotations: no instance "
                f"type found for the given vcpus ({size.vcpus}) and memory ({size.memory_mib})"
            )
        candidate = found.name
    return upstream_verified(candidate, default=default, valid=valid)


def upstream_verified(candidate: str, *, default: str, valid: Collection[str]) -> Choice:
    """The candidate if it is valid; the default if there is no candidate."""
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


def _binary_search(
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


# ------------------------------------------------------------------ the best choice


def best_choice(
    size: MachineSize, types: Sequence[InstanceType], *, default: str = "", named: str = ""
) -> Choice:
    """The cheapest type that is large enough; among equally cheap ones the smallest.

    Types without a price come last. Types with GPUs are only for pods that ask for GPUs. A pod
    that asks for nothing gets the default, which need not be in the catalogue. A type named by
    the pod must be in the catalogue.
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
    """Why the type that a pod names is unknown or too small; empty if it is right."""
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
    """All types that are large enough, best first."""
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
