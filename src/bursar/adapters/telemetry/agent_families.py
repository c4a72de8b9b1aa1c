"""Metrics of the agent: calls of clients, calls to kubelet, and how answers were made.

No label names a pod, container or device: a cluster has thousands of nodes with hundreds of
pods each. Clients of the socket read the devices of a pod.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.adapters.telemetry.agent_upstream import BOUNDS_S, UpstreamCounts
from bursar.adapters.telemetry.exposition import Family, Sample, counter, gauge, histogram
from bursar.app.devices.counters import CallCounts, ProxyCounts
from bursar.app.devices.node_pods import FreshnessCounts
from bursar.app.devices.ports import Method, Version
from bursar.core.devices.allocation import ProblemKind
from bursar.core.devices.inventory import Inventory

CODES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""Names of gRPC status codes, by number."""

_DEGRADED: Final = {
    "bare": "kubelet's own answer, because no pods were known",
    "aged": "made from stale pods, because reading them again failed or took too long",
    "refused": "refused, because no pods were known and --when-unknown=refuse",
    "unreadable": "kubelet's own answer, because it could not be decoded",
    "trimmed": "without pods that hold no devices, because of --trim-above",
}
"""Fields of `ProxyCounts`, with their meaning."""
_DEGRADED_HELP: Final = "Answers that are not complete. " + " ".join(
    f"{how}: {text}." for how, text in _DEGRADED.items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """What metrics read of an agent, gathered for each scrape."""

    is_serving: bool
    calls: CallCounts
    rate_limited: int
    upstream: UpstreamCounts
    proxy: ProxyCounts
    pods: FreshnessCounts
    pods_age_s: float | None
    """None before the first read."""
    failing_s: float
    """Seconds since reading the pods began to fail; 0 while it works."""
    inventory: Inventory | None


def agent_families(view: AgentView) -> Iterator[Family]:
    yield gauge(
        "bursar_pod_resources_serving",
        "1 while the agent serves its socket.",
        Sample(view.is_serving),
    )
    yield from _client_families(view.calls, view.rate_limited)
    yield from _kubelet_families(view.upstream)
    yield from _answer_families(view.proxy)
    yield from _source_families(view)
    yield from _inventory_families(view.inventory)


# ------------------------------------------------------------------ calls


def _client_families(calls: CallCounts, rate_limited: int) -> Iterator[Family]:
    yield counter(
        "bursar_pod_resources_requests_total",
        "Calls of clients, by outcome.",
        *_ended(calls.ended),
    )
    yield counter(
        "bursar_pod_resources_request_seconds_total",
        "Total duration of clients' calls, in seconds.",
        *(
            Sample(nanos / 1e9, _method(version, method))
            for (version, method), nanos in calls.nanos.items()
        ),
    )
    yield gauge(
        "bursar_pod_resources_requests_under_way",
        "Calls of clients in progress.",
        Sample(calls.under_way),
    )
    yield counter(
        "bursar_pod_resources_rate_limited_total",
        "Calls refused by the rate limit.",
        Sample(rate_limited),
    )
    yield gauge(
        "bursar_pod_resources_reply_bytes_max",
        "Size of the largest answer, in bytes. Many clients accept at most 4 MiB.",
        Sample(calls.reply_bytes_max),
    )
    yield counter(
        "bursar_pod_resources_long_replies_total",
        "Answers larger than 4 MiB.",
        Sample(calls.long_replies),
    )


def _kubelet_families(counts: UpstreamCounts) -> Iterator[Family]:
    yield counter(
        "bursar_kubelet_calls_total",
        "Calls to kubelet's socket, by outcome.",
        *_ended(counts.ended),
    )
    yield histogram(
        "bursar_kubelet_call_seconds",
        "Duration of calls to kubelet's socket, in seconds.",
        bounds=BOUNDS_S,
        counts=counts.by_duration,
        total=counts.seconds,
    )


def _ended(counts: Counter[tuple[Version, Method, int]]) -> Iterator[Sample]:
    for (version, method, code), count in counts.items():
        named = CODES[code] if 0 <= code < len(CODES) else str(code)
        yield Sample(count, {**_method(version, method), "code": named})


def _method(version: Version, method: Method) -> Mapping[str, str]:
    return {"version": version.value, "method": method.value}


# ------------------------------------------------------------------ answers


def _answer_families(counts: ProxyCounts) -> Iterator[Family]:
    yield counter(
        "bursar_pod_resources_degraded_total",
        _DEGRADED_HELP,
        *(Sample(getattr(counts, how), {"how": how}) for how in _DEGRADED),
    )
    yield counter(
        "bursar_pod_resources_devices_added_total",
        "Devices added to kubelet's answers.",
        Sample(counts.filled),
    )
    yield counter(
        "bursar_device_problems_total",
        "Problems found in device annotations, by kind.",
        *(Sample(counts.problems[kind], {"kind": kind.value}) for kind in ProblemKind),
    )
    yield gauge(
        "bursar_device_problems",
        "Problems in device annotations of the current pods, by kind.",
        *(Sample(counts.standing[kind], {"kind": kind.value}) for kind in ProblemKind),
    )


def _source_families(view: AgentView) -> Iterator[Family]:
    counts = view.pods
    yield counter(
        "bursar_pod_source_reads_total", "Reads of the node's pods.", Sample(counts.reads)
    )
    yield counter(
        "bursar_pod_source_failures_total",
        "Failed reads of the node's pods.",
        Sample(counts.failures),
    )
    yield counter(
        "bursar_pod_source_misses_total",
        "Reads caused by a pod in kubelet's answer that was not known.",
        Sample(counts.misses),
    )
    yield counter(
        "bursar_pod_source_read_seconds_total",
        "Total duration of reads of the node's pods, in seconds.",
        Sample(counts.read_seconds),
    )
    if view.pods_age_s is not None:
        yield gauge(
            "bursar_pod_source_age_seconds",
            "Age of the pods that answers are made from, in seconds.",
            Sample(view.pods_age_s),
        )
    yield gauge(
        "bursar_pod_source_failing_seconds",
        "Seconds since reading the pods began to fail; 0 while it works.",
        Sample(view.failing_s),
    )


def _inventory_families(inventory: Inventory | None) -> Iterator[Family]:
    known = () if inventory is None else inventory.devices
    found = Counter((each.kind, each.is_healthy) for each in known)
    yield gauge(
        "bursar_inventory_known",
        "1 if a Device object lists the node's devices.",
        Sample(inventory is not None),
    )
    yield gauge(
        "bursar_inventory_devices",
        "Devices in the node's Device object, by kind and health.",
        *(
            Sample(count, {"kind": kind, "health": "healthy" if is_healthy else "unhealthy"})
            for (kind, is_healthy), count in sorted(found.items())
        ),
    )
