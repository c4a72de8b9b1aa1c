"""Metrics of the agent about local ephemeral storage. No label names a pod."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import AGENT, BYTES, Metric, Section, metric


def _disk(name: str, help: str, *labels: str, unit: str = "") -> Metric:
    return metric(f"bursar_disk_{name}", help, *labels, unit=unit, processes=AGENT)


DISK: Final = Section(
    "disk",
    (
        _disk("pods", "Pods whose local storage is accounted for."),
        _disk(
            "used_bytes",
            "Local storage that pods use, by kind: volumes, logs, writable or other, in bytes.",
            "kind",
            unit=BYTES,
        ),
        _disk("requested_bytes", "Sum of the pods' ephemeral-storage requests.", unit=BYTES),
        _disk("allocatable_bytes", "The node's allocatable ephemeral-storage.", unit=BYTES),
        _disk(
            "pods_over_limit",
            "Pods that exceed a limit, so that the kubelet evicts them, by limit.",
            "limit",
        ),
        _disk(
            "eviction_seconds",
            "Time until the first pod exceeds a limit at the present rate, in seconds. "
            "Absent if no pod does.",
        ),
        _disk(
            "signal_available",
            "Available amount of an eviction signal, in bytes or inodes.",
            "signal",
        ),
        _disk(
            "signal_threshold",
            "The kubelet evicts pods while less than this is available, in bytes or inodes.",
            "signal",
        ),
        _disk("volumes", "Volumes that are measured, by way: scan, quota or kubelet.", "way"),
        _disk("volumes_incomplete", "Volumes that could not be measured completely."),
        _disk(
            "age_seconds",
            "Maximum time after which a change of a file is seen, over all volumes, in seconds.",
        ),
        _disk("rounds_total", "Rounds of measuring."),
        _disk("failures_total", "Rounds without one of the sources: disk or summary.", "source"),
        _disk("looks_total", "Files and folders that scans looked at."),
        _disk("scan_seconds_total", "Processor time of scans, in seconds."),
        _disk("folders", "Folders that scans remember."),
        _disk("scans_unfinished", "Scans that did not end in the last round."),
    ),
)
