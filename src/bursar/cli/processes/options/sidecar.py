"""Options of counting by sidecars."""

from collections.abc import Mapping
from typing import Any, Final

import click

from bursar.app.counting.sidecars.settings import (
    SOCKETS_FOLDER,
    TIMEOUT_SECONDS,
    SidecarFallback,
    SidecarScope,
    SidecarSettings,
    SidecarTrust,
)
from bursar.cli.options import duration, one_of, shown, together

SIDECARS_MAX: Final = 32

sidecar_number_option: Final = shown(
    "--sidecars --evaluators-sidecars sidecars",
    0,
    "Number of sidecars that count pods. Pods wait until all of them are connected.",
    type=click.IntRange(0, SIDECARS_MAX),
)
sidecar_options: Final = together(
    sidecar_number_option,
    shown(
        "--sidecar-sockets",
        SOCKETS_FOLDER,
        "Folder in which the sidecars make their sockets.",
        metavar="FOLDER",
    ),
    one_of(
        "--sidecar-scope",
        SidecarScope.NAMESPACE,
        "namespace: sidecars receive all pods of the namespace with each pod; pod: only the pod.",
    ),
    one_of(
        "--sidecar-failure",
        SidecarFallback.HOLD,
        "What to do without a good answer of a sidecar. hold: the pod waits; native: count it "
        "without the sidecar.",
    ),
    duration(
        "--sidecar-timeout",
        f"{TIMEOUT_SECONDS:g}s",
        "How long a sidecar may take to answer about one pod.",
    ),
    one_of(
        "--sidecar-trust",
        SidecarTrust.FOLDER,
        "folder: use every socket there; owner: only those of root or of this process's user.",
    ),
)


def sidecars_from(chosen: Mapping[str, Any]) -> SidecarSettings | None:
    """Settings of counting by sidecars; None without sidecars."""
    if not chosen["sidecars"]:
        return None
    if "sidecar_sockets" not in chosen:
        return SidecarSettings(expected=chosen["sidecars"])
    if not chosen["sidecar_timeout"]:
        raise click.UsageError("--sidecar-timeout: more than 0 s is expected")
    return SidecarSettings(
        expected=chosen["sidecars"],
        folder=chosen["sidecar_sockets"],
        scope=SidecarScope(chosen["sidecar_scope"]),
        fallback=SidecarFallback(chosen["sidecar_failure"]),
        trust=SidecarTrust(chosen["sidecar_trust"]),
        timeout_s=chosen["sidecar_timeout"],
    )
