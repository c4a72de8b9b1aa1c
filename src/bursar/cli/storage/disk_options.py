"""The options of `bursar agent` for the accounting of the node's disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import click

from bursar.app.devices.defaults import KUBELET_FOLDER
from bursar.cli.options import duration, flag, one_of, path, shown, together
from bursar.cli.processes.options.process import given_options

if TYPE_CHECKING:
    # Only an agent with --disk loads it.
    from bursar.core.storage.pressure import Threshold

DEFAULT_THRESHOLDS: Final = (
    "nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"
)
"""The kubelet's defaults on Linux, without memory."""
LOGS_FOLDER: Final = "/var/log/pods"
INTERVAL_LEAST_S: Final = 1
ONLY_WITH_DISK: Final = ("disk_interval", "disk_quota", "pod_logs_folder", "eviction_hard")


class ProjectQuotaUse(Enum):
    """What the agent does with project quotas."""

    OFF = "off"
    READ = "read"
    ASSIGN = "assign"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSettings:
    kubelet_folder: str
    logs_folder: str
    interval_s: float
    quota: ProjectQuotaUse
    thresholds: "tuple[Threshold, ...]"


def thresholds_from(text: str) -> "tuple[Threshold, ...]":
    """The value of `--eviction-hard`. Raises `click.BadParameter`."""
    from bursar.core.storage.pressure import ThresholdError, parse_thresholds  # noqa: PLC0415

    try:
        return parse_thresholds(text)
    except ThresholdError as error:
        raise click.BadParameter(str(error), param_hint="'--eviction-hard'") from None


def _interval(_: click.Context, __: click.Parameter, seconds: float) -> float:
    if seconds < INTERVAL_LEAST_S:
        raise click.BadParameter("at least 1s is expected")
    return seconds


disk_options: Final = together(
    flag("--disk", "Account for the local ephemeral storage of this node's pods."),
    duration("--disk-interval", "10s", "How often pods' folders are measured.", callback=_interval),
    one_of(
        "--disk-quota",
        ProjectQuotaUse.OFF,
        "Measure emptyDir volumes by project quotas: read existing ids, or assign ids too.",
    ),
    path(
        "--kubelet-folder",
        f"Kubelet's folder, which has the volumes of pods. Default: {KUBELET_FOLDER}.",
        KUBELET_FOLDER,
    ),
    path("--pod-logs-folder", f"Folder of the logs of pods. Default: {LOGS_FOLDER}.", LOGS_FOLDER),
    shown(
        "--eviction-hard",
        DEFAULT_THRESHOLDS,
        "Kubelet's hard eviction thresholds, as in its own option of this name.",
    ),
)


def disk_from(chosen: Mapping[str, Any]) -> DiskSettings | None:
    """Settings of the accounting; None without --disk.

    Raises `click.UsageError` for options that have no effect without --disk, and
    `click.BadParameter` for an option that cannot be read.
    """
    if not chosen["disk"]:
        if given := given_options(*ONLY_WITH_DISK):
            raise click.UsageError(f"{given[0]}: has no effect without --disk")
        return None
    return DiskSettings(
        kubelet_folder=chosen["kubelet_folder"],
        logs_folder=chosen["pod_logs_folder"],
        interval_s=chosen["disk_interval"],
        quota=ProjectQuotaUse(chosen["disk_quota"]),
        thresholds=thresholds_from(chosen["eviction_hard"]),
    )
