"""Options that say where capacity is declared, shared by `capacity`, `controller` and `top`."""

import os
from typing import Final

from bursar.app.capacity.places import PRESET_CONFIG, PRESET_NAMESPACE
from bursar.app.capacity.sources import PRESET_SELECTOR, CapacityPlaces
from bursar.cli.options import shown, together
from bursar.cli.selectors import selector_from
from bursar.core.peerpods.names import VM_RESOURCE

preset_options: Final = together(
    shown(
        "--peerpods-namespace",
        PRESET_NAMESPACE,
        f"Namespace of the ConfigMap {PRESET_CONFIG}, which limits peer pods per node.",
    ),
    shown(
        "--peerpods-nodes",
        str(PRESET_SELECTOR),
        "Label selector of the nodes that get the capacity for peer pods.",
    ),
)


def places_from(namespace: str, *, preset_namespace: str, preset_nodes: str) -> CapacityPlaces:
    return CapacityPlaces(
        namespace=namespace,
        preset_namespace=preset_namespace,
        preset_selector=selector_from(preset_nodes, "--peerpods-nodes"),
        preset_resource=os.environ.get("POD_VM_EXTENDED_RESOURCE") or VM_RESOURCE,
    )
