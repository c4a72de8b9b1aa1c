"""Options that say where capacity is declared, shared by `capacity`, `controller` and `top`."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from bursar.app.capacity.places import PRESET_CONFIG, PRESET_NAMESPACE
from bursar.app.capacity.sources import PRESET_SELECTOR, CapacityPlaces
from bursar.cli.exit_codes import BadInputError
from bursar.cli.output.formats import printable
from bursar.core.model.selector import Selector, SelectorError
from bursar.core.model.selector_text import parse_selector
from bursar.core.peerpods.capacity import VM_RESOURCE

F = TypeVar("F", bound=Callable[..., Any])


def preset_options(command: F) -> F:
    """`--peerpods-namespace` and `--peerpods-nodes`."""
    command = click.option(
        "--peerpods-nodes",
        default=str(PRESET_SELECTOR),
        show_default=True,
        help="Label selector of the nodes that get the capacity for peer pods.",
    )(command)
    return click.option(
        "--peerpods-namespace",
        default=PRESET_NAMESPACE,
        show_default=True,
        help=f"Namespace of the ConfigMap {PRESET_CONFIG}, which limits peer pods per node.",
    )(command)


def places_from(namespace: str, *, preset_namespace: str, preset_nodes: str) -> CapacityPlaces:
    return CapacityPlaces(
        namespace=namespace,
        preset_namespace=preset_namespace,
        preset_selector=selector_from(preset_nodes, "--peerpods-nodes"),
        preset_resource=os.environ.get("POD_VM_EXTENDED_RESOURCE") or VM_RESOURCE,
    )


def selector_from(text: str, option: str) -> Selector:
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise BadInputError(f"{option}: {printable(str(error))}") from None
