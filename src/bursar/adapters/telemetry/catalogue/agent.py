"""Metrics of the agent: calls of clients, calls to kubelet, and how answers were made."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import (
    AGENT,
    BYTES,
    FLAG,
    Kind,
    Metric,
    Section,
    metric,
)

DEGRADED: Final = {
    "bare": "kubelet's own answer, because no pods were known",
    "aged": "made from stale pods, because reading them again failed or took too long",
    "refused": "refused, because no pods were known and --when-unknown=refuse",
    "unreadable": "kubelet's own answer, because it could not be decoded",
    "trimmed": "without pods that hold no devices, because of --trim-above",
}
"""Values of the label `how`, which are fields of `ProxyCounts`, with their meaning."""


def _agent(name: str, help: str, *labels: str, unit: str = "", kind: Kind | None = None) -> Metric:
    return metric(f"bursar_{name}", help, *labels, unit=unit, kind=kind, processes=AGENT)


CALLS: Final = (
    _agent("pod_resources_serving", "1 while the agent serves its socket.", unit=FLAG),
    _agent(
        "pod_resources_requests_total",
        "Calls of clients, by outcome.",
        *("version", "method", "code"),
    ),
    _agent(
        "pod_resources_request_seconds_total",
        "Total duration of clients' calls, in seconds.",
        *("version", "method"),
    ),
    _agent("pod_resources_requests_under_way", "Calls of clients in progress."),
    _agent("pod_resources_rate_limited_total", "Calls refused by the rate limit."),
    _agent(
        "pod_resources_reply_bytes_max",
        "Size of the largest answer, in bytes. Many clients accept at most 4 MiB.",
        unit=BYTES,
    ),
    _agent("pod_resources_long_replies_total", "Answers larger than 4 MiB."),
    _agent(
        "kubelet_calls_total",
        "Calls to kubelet's socket, by outcome.",
        *("version", "method", "code"),
    ),
    _agent(
        "kubelet_call_seconds",
        "Duration of calls to kubelet's socket, in seconds.",
        kind=Kind.HISTOGRAM,
    ),
)

ANSWERS: Final = (
    _agent(
        "pod_resources_degraded_total",
        "Answers that are not complete. "
        + " ".join(f"{how}: {text}." for how, text in DEGRADED.items()),
        "how",
    ),
    _agent(
        "pod_resources_devices_added_total",
        "Devices added to kubelet's answers. An answer that clients share counts once.",
    ),
    _agent("device_problems_total", "Problems found in device annotations, by kind.", "kind"),
    _agent(
        "device_problems", "Problems in device annotations of the current pods, by kind.", "kind"
    ),
)

SOURCE: Final = (
    _agent("pod_source_reads_total", "Reads of the node's pods."),
    _agent("pod_source_failures_total", "Failed reads of the node's pods."),
    _agent(
        "pod_source_misses_total",
        "Reads caused by a pod in kubelet's answer that was not known.",
    ),
    _agent(
        "pod_source_read_seconds_total", "Total duration of reads of the node's pods, in seconds."
    ),
    _agent("pod_source_age_seconds", "Age of the pods that answers are made from, in seconds."),
    _agent(
        "pod_source_failing_seconds",
        "Seconds since reading the pods began to fail; 0 while it works.",
    ),
    _agent("inventory_known", "1 if a Device object lists the node's devices.", unit=FLAG),
    _agent(
        "inventory_devices",
        "Devices in the node's Device object, by kind and health.",
        *("kind", "health"),
    ),
)

NODE: Final = Section("agent", (*CALLS, *ANSWERS, *SOURCE))
