"""Options shared by the peer pod verbs and `bursar webhook`: sizing and the catalogue."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from bursar.adapters.files.packaged import packaged
from bursar.adapters.files.peerpods import read_catalogue
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.options import one_of, together
from bursar.core.model.names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_extended,
    is_hugepages,
)
from bursar.core.model.quantity import ZERO, Quantity, QuantityError
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.names import GPU_RESOURCE, RUNTIME_CLASS, VM_RESOURCE
from bursar.core.peerpods.settings import Mode, OwnSizes, PeerPodSettings

EXAMPLE: Final = "examples/peerpods/catalogue.yaml"
EFFECTIVE_ONLY: Final = (
    *("gpu_resource", "headroom_cpu", "headroom_memory", "floor_vcpus", "floor_memory"),
    *("own_sizes", "keep"),
)
"""Options that have no effect in upstream's mode."""

Chosen = Mapping[str, Any]
"""Values of options by name, as click passes them."""


def amount(_context: click.Context, _parameter: click.Parameter, text: str) -> Quantity:
    """Callback of an option whose value is a quantity of at least 0."""
    try:
        read = Quantity.parse(text)
    except QuantityError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    if read.is_negative:
        raise click.BadParameter(f"{text!r} is negative")
    return read


COUNT: Final = click.IntRange(min=0)

sizing_options: Final = together(
    click.option(
        "--runtime-class",
        multiple=True,
        help=f"Runtime class of peer pods. Repeatable. Default: {RUNTIME_CLASS}.",
    ),
    click.option(
        "--gpu-resource",
        multiple=True,
        help=f"Resource name that counts as a GPU. Repeatable. Default: {GPU_RESOURCE}.",
    ),
    click.option(
        "--headroom-cpu", callback=amount, default="0", help="CPU added for the guest system."
    ),
    click.option(
        "--headroom-memory", callback=amount, default="0", help="Memory added for the guest system."
    ),
    click.option("--floor-vcpus", type=COUNT, default=0, help="Fewest vCPUs of a VM."),
    click.option("--floor-memory", callback=amount, default="0", help="Least memory of a VM."),
    one_of(
        "--own-sizes",
        OwnSizes.AT_LEAST,
        "at-least: a size annotation on the pod can only raise the computed size; "
        "override: the computed size replaces it.",
    ),
)
catalogue_options: Final = together(
    click.option(
        "--catalogue",
        type=click.Path(dir_okay=False),
        help="File with the instance types to choose from.",
    ),
    click.option("--provider", default="", help="Use only instance types of this provider."),
    click.option("--arch", default="", help="Use only instance types of this architecture."),
)


def settings_from(
    chosen: Chosen, mode: Mode, *, catalogue: tuple[InstanceType, ...] | None = None
) -> PeerPodSettings:
    """Settings of the rewrite; an option that the verb does not have keeps its default.

    `catalogue` is None for a verb that does not write instance types to pods, and empty for
    a verb that could but was given no catalogue.
    """
    if mode is Mode.UPSTREAM:
        ignored = (*EFFECTIVE_ONLY, *(() if catalogue is None else ("catalogue",)))
        refuse_ignored(chosen, ignored, "with --mode upstream")
    if catalogue == ():
        refuse_ignored(chosen, ("provider", "arch"), "without --catalogue")
    vm_resource = chosen.get("vm_resource", VM_RESOURCE)
    gpu_resources = tuple(dict.fromkeys(chosen["gpu_resource"])) or (GPU_RESOURCE,)
    _require_gpu_names(gpu_resources, vm_resource)
    _require_names_to_keep(chosen.get("keep", ()))
    try:
        return PeerPodSettings(
            mode=mode,
            runtime_classes=frozenset(chosen["runtime_class"] or (RUNTIME_CLASS,)),
            vm_resource=vm_resource,
            gpu_resources=gpu_resources,
            headroom_cpu=chosen["headroom_cpu"],
            headroom_memory=chosen["headroom_memory"],
            floor_vcpus=chosen["floor_vcpus"],
            floor_memory=chosen["floor_memory"],
            own_sizes=OwnSizes(chosen["own_sizes"]),
            kept=frozenset(chosen.get("keep", ())),
            writes_memory_alias=chosen.get("default_mem", False),
            catalogue=catalogue or (),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def refuse_ignored(chosen: Chosen, names: Iterable[str], when: str) -> None:
    """Refuse an option that was given but has no effect: its user relies on it."""
    for name in names:
        given = chosen.get(name)
        if given and given not in {ZERO, OwnSizes.AT_LEAST.value}:
            raise click.UsageError(f"--{name.replace('_', '-')} has no effect {when}")


def _require_gpu_names(names: Iterable[str], vm_resource: str) -> None:
    for name in names:
        if not is_extended(name):
            raise click.UsageError(
                f"--gpu-resource: {name!r} is not the name of an extended resource"
            )
        if name in {vm_resource, VM_RESOURCE}:
            raise click.UsageError(f"{name} cannot stand for a GPU and for a VM")


def _require_names_to_keep(names: Iterable[str]) -> None:
    """Refuse names that are no resource. `PeerPodSettings` refuses those that cannot be kept."""
    for name in names:
        is_known = name in {CPU, MEMORY, EPHEMERAL_STORAGE} or is_hugepages(name)
        if not is_known and not is_extended(name):
            raise click.UsageError(
                f"--keep: {name!r} is not a resource that can stay; {EPHEMERAL_STORAGE} can, and "
                "extended resources such as example.com/foo"
            )


def types_from(chosen: Chosen) -> tuple[InstanceType, ...]:
    """The instance types to choose from; without --catalogue those of the example catalogue."""
    path = chosen["catalogue"] or packaged(EXAMPLE)
    kept = tuple(
        each
        for each in read_catalogue(path)
        if chosen["provider"] in {"", each.provider} and chosen["arch"] in {"", each.arch}
    )
    if not kept:
        raise BadInputError(f"{path}: no instance type of that provider and architecture")
    return kept
