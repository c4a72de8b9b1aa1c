"""What both verbs of `bursar peerpod` can be told: which pods, how to size them, what there is."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

import bursar
from bursar.adapters.peerpod_files import ManifestError, read_catalogue
from bursar.cli.ending import BadInputError
from bursar.core.model.quantity import Quantity, QuantityError
from bursar.core.peerpods.capacity import VM_RESOURCE
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.settings import (
    GPU_RESOURCE,
    RUNTIME_CLASS,
    Mode,
    OwnSizes,
    PeerPodSettings,
)

EXAMPLE: Final = "examples/peerpods/catalogue.yaml"

Chosen = Mapping[str, Any]
"""Values of options by name, as click hands them over."""


def amount(_context: click.Context, _parameter: click.Parameter, text: str) -> Quantity:
    """What an option makes of its text; for use as its callback."""
    try:
        read = Quantity.parse(text)
    except QuantityError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    if read.is_negative:
        raise click.BadParameter(f"{text!r} is negative")
    return read


COUNT: Final = click.IntRange(min=0)

_SIZING: Final = (
    click.option(
        "--runtime-class", multiple=True, help=f"Whose pods. Repeatable. Default: {RUNTIME_CLASS}"
    ),
    click.option(
        "--gpu-resource",
        multiple=True,
        help=f"What counts as a GPU. Repeatable. Default: {GPU_RESOURCE}",
    ),
    click.option("--headroom-cpu", callback=amount, default="0", help="Added for the guest."),
    click.option("--headroom-memory", callback=amount, default="0", help="Added for the guest."),
    click.option("--floor-vcpus", type=COUNT, default=0, help="The least a VM gets."),
    click.option("--floor-memory", callback=amount, default="0", help="The least a VM gets."),
    click.option(
        "--own-sizes",
        type=click.Choice([rule.value for rule in OwnSizes]),
        default=OwnSizes.AT_LEAST.value,
        show_default=True,
        help="What becomes of sizes that pods are annotated with.",
    ),
)
_CATALOGUE: Final = (
    click.option(
        "--catalogue", type=click.Path(dir_okay=False), help="A file with instance types."
    ),
    click.option("--provider", default="", help="Only types of this provider."),
    click.option("--arch", default="", help="Only types of this architecture."),
)


def sizing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return _with(command, _SIZING)


def catalogue_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return _with(command, _CATALOGUE)


def _with(
    command: Callable[..., Any], options: tuple[Callable[..., Any], ...]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def settings_from(
    chosen: Chosen, mode: Mode, *, catalogue: tuple[InstanceType, ...] = ()
) -> PeerPodSettings:
    """Settings for a rewrite; what a verb has no option for is as usual."""
    try:
        return PeerPodSettings(
            mode=mode,
            runtime_classes=frozenset(chosen["runtime_class"] or (RUNTIME_CLASS,)),
            vm_resource=chosen.get("vm_resource", VM_RESOURCE),
            gpu_resources=tuple(dict.fromkeys(chosen["gpu_resource"])) or (GPU_RESOURCE,),
            headroom_cpu=chosen["headroom_cpu"],
            headroom_memory=chosen["headroom_memory"],
            floor_vcpus=chosen["floor_vcpus"],
            floor_memory=chosen["floor_memory"],
            own_sizes=OwnSizes(chosen["own_sizes"]),
            kept=frozenset(chosen.get("keep", ())),
            writes_memory_alias=chosen.get("default_mem", False),
            catalogue=catalogue,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def types_from(chosen: Chosen) -> tuple[InstanceType, ...]:
    """The instance types to choose from; of the example's, if no catalogue is named."""
    path = chosen["catalogue"] or _example()
    try:
        types = read_catalogue(path)
    except ManifestError as error:
        raise BadInputError(str(error)) from None
    kept = tuple(
        each
        for each in types
        if chosen["provider"] in {"", each.provider} and chosen["arch"] in {"", each.arch}
    )
    if not kept:
        raise BadInputError(f"{path}: no instance type of that provider and architecture")
    return kept


def _example() -> str:
    """Beside the package in a checkout, inside it where it was installed."""
    package = Path(bursar.__file__).parent
    for root in (package.parents[1], package):
        if (root / EXAMPLE).is_file():
            return str(root / EXAMPLE)
    raise BadInputError("the example catalogue is not installed; name one with --catalogue")
