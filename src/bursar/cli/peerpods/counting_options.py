"""Options that say how quotas count peer pods, and their settings."""

from collections.abc import Mapping
from typing import Any, Final

import click

from bursar.cli.options import one_of, path, together
from bursar.core.counting.peer_pods import PeerPodCounting, PeerPodMode
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.names import GPU_RESOURCE, RUNTIME_CLASS

peer_pod_counting_options: Final = together(
    one_of(
        "--peerpod-mode",
        PeerPodMode.VIRTUAL,
        "Charge the VM of a peer pod as cpu, memory and GPUs; as cpu/peerpod and other names of "
        "its own; or not at all.",
    ),
    click.option(
        "--peerpod-runtime-class",
        multiple=True,
        metavar="NAME",
        help=f"Runtime class of peer pods. Repeatable. Default: {RUNTIME_CLASS}.",
    ),
    click.option(
        "--peerpod-gpu-resource",
        multiple=True,
        metavar="NAME",
        help=f"Resource name that counts as a GPU. Repeatable. Default: {GPU_RESOURCE}.",
    ),
    path(
        "--peerpod-catalogue",
        "File with the sizes of instance types. A pod that names another type waits.",
        "",
    ),
    click.option(
        "--peerpod-default-type",
        default="",
        metavar="NAME",
        help="Instance type of the catalogue that peer pods without a full size get.",
    ),
)


def peer_pod_counting_from(chosen: Mapping[str, Any]) -> PeerPodCounting:
    """Settings of what the command receives. Raises `UsageError` or `BadInputError`."""
    file = chosen["peerpod_catalogue"]
    try:
        return PeerPodCounting(
            mode=PeerPodMode(chosen["peerpod_mode"]),
            runtime_classes=frozenset(chosen["peerpod_runtime_class"] or (RUNTIME_CLASS,)),
            gpu_resources=tuple(dict.fromkeys(chosen["peerpod_gpu_resource"])) or (GPU_RESOURCE,),
            catalogue=_catalogue(file) if file else (),
            default_type=chosen["peerpod_default_type"],
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _catalogue(file: str) -> tuple[InstanceType, ...]:
    from bursar.adapters.files.peerpods import read_catalogue  # noqa: PLC0415 - rarely needed

    return read_catalogue(file)
