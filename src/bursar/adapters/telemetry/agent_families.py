"""The agent in numbers: what clients asked, what kubelet was asked, and how answers came about.

No pod, container or device is a label: a node has hundreds of them, a cluster has thousands of
nodes, and what a pod has is for clients of the socket to ask.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.adapters.telemetry.agent_upstream import BOUNDS_S, UpstreamCounts
from bursar.adapters.telemetry.exposition import Family, Sample, counter, gauge, histogram
from bursar.app.devices.counters import CallCounts, Method, ProxyCounts
from bursar.app.devices.freshness import FreshnessCounts
from bursar.app.devices.ports import Version
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
"""gRPC's, by their numbers."""

_DEGRADED: Final = {
    "bare": "kubelet's own words, as nothing was known of the pods",
    "aged": "from pods that could not be read again in time",
    "refused": "not given, for the same reason and by choice",
    "unreadable": "passed on without having been understood",
    "trimmed": "without pods that have no devices, for their length",
}
"""Fields of `ProxyCounts`, and what each means."""
_DEGRADED_HELP: Final = "Answers that are not whole. " + " ".join(
    f"{how}: {text}." for how, text in _DEGRADED.items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """What there is to be shown, as it is at the moment."""

    is_serving: bool
    calls: CallCounts
    rate_limited: int
    upstream: UpstreamCounts
    proxy: ProxyCounts
    pods: FreshnessCounts
    pods_age_s: float | None
    """None before the first read."""
    failing_s: float
    """For how long the pods could not be read; 0 while they can."""
    inventory: Inventory | None


def agent_families(view: AgentView) -> Iterator[Family]:
    yield gauge(
        "bursar_pod_resources_serving", "1 while the socket is served.", Sample(view.is_serving)
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
        "Calls of clients that ended, by how.",
        *_ended(calls.ended),
    )
    yield counter(
        "bursar_pod_resources_request_seconds_total",
        "Time spent on them.",
        *(
            Sample(nanos / 1e9, _method(version, method))
            for (version, method), nanos in calls.nanos.items()
        ),
    )
    yield gauge(
        "bursar_pod_resources_requests_under_way",
        "Calls that are being answered.",
        Sample(calls.under_way),
    )
    yield counter(
        "bursar_pod_resources_rate_limited_total",
        "Calls refused because there were too many of them.",
        Sample(rate_limited),
    )
    yield gauge(
        "bursar_pod_resources_reply_bytes_max",
        "The longest answer so far. Many clients take no more than 4 MiB.",
        Sample(calls.reply_bytes_max),
    )
    yield counter(
        "bursar_pod_resources_long_replies_total",
        "Answers of more than 4 MiB.",
        Sample(calls.long_replies),
    )


def _kubelet_families(counts: UpstreamCounts) -> Iterator[Family]:
    yield counter(
        "bursar_kubelet_calls_total",
        "Calls to kubelet's socket that ended, by how.",
        *_ended(counts.ended),
    )
    yield histogram(
        "bursar_kubelet_call_seconds",
        "How long they took.",
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


# ------------------------------------------------------------------ what answers are made of


def _answer_families(counts: ProxyCounts) -> Iterator[Family]:
    yield counter(
        "bursar_pod_resources_degraded_total",
        _DEGRADED_HELP,
        *(Sample(getattr(counts, how), {"how": how}) for how in _DEGRADED),
    )
    yield counter(
        "bursar_pod_resources_devices_added_total",
        "Devices in all answers that kubelet did not name.",
        Sample(counts.filled),
    )
    yield counter(
        "bursar_device_problems_total",
        "Things said in annotations that were not taken over or are doubted, by why.",
        *(Sample(counts.problems[kind], {"kind": kind.value}) for kind in ProblemKind),
    )
    yield gauge(
        "bursar_device_problems",
        "Those that there are now.",
        *(Sample(counts.standing[kind], {"kind": kind.value}) for kind in ProblemKind),
    )


def _source_families(view: AgentView) -> Iterator[Family]:
    counts = view.pods
    yield counter(
        "bursar_pod_source_reads_total", "Times that the pods were read.", Sample(counts.reads)
    )
    yield counter(
        "bursar_pod_source_failures_total", "Times that this failed.", Sample(counts.failures)
    )
    yield counter(
        "bursar_pod_source_misses_total",
        "Times that it was for a pod that kubelet named and we did not know.",
        Sample(counts.misses),
    )
    yield counter(
        "bursar_pod_source_read_seconds_total",
        "Time spent on reading them.",
        Sample(counts.read_seconds),
    )
    if view.pods_age_s is not None:
        yield gauge(
            "bursar_pod_source_age_seconds",
            "How old the pods are of which answers are made.",
            Sample(view.pods_age_s),
        )
    yield gauge(
        "bursar_pod_source_failing_seconds",
        "For how long the pods could not be read; 0 while they can.",
        Sample(view.failing_s),
    )


def _inventory_families(inventory: Inventory | None) -> Iterator[Family]:
    known = () if inventory is None else inventory.devices
    found = Counter((each.kind, each.is_healthy) for each in known)
    yield gauge(
        "bursar_inventory_known",
        "1 if somebody keeps a list of the node's devices.",
        Sample(inventory is not None),
    )
    yield gauge(
        "bursar_inventory_devices",
        "Devices on that list.",
        *(
            Sample(count, {"kind": kind, "health": "healthy" if is_healthy else "unhealthy"})
            for (kind, is_healthy), count in sorted(found.items())
        ),
    )
