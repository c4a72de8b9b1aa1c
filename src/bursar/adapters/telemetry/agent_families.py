"""Metrics of the agent: calls of clients, calls to kubelet, and how answers were made.

No label names a pod, container or device: a cluster has thousands of nodes with hundreds of
pods each. Clients of the socket read the devices of a pod.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.adapters.telemetry.agent_upstream import BOUNDS_S, UpstreamCounts
from bursar.adapters.telemetry.exposition import Family, Sample, by, histogram, table
from bursar.app.devices.counters import CallCounts, ProxyCounts
from bursar.app.devices.node_pods import FreshnessCounts
from bursar.app.devices.ports import Method, Version
from bursar.core.devices.allocation import ProblemKind
from bursar.core.devices.inventory import Inventory

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
    code_names: Mapping[int, str]
    """Names of gRPC status codes."""
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
    yield from _client_families(view)
    yield from _kubelet_families(view)
    yield from _answer_families(view.proxy)
    yield from _source_families(view)
    yield from _inventory_families(view.inventory)


# ------------------------------------------------------------------ calls


def _client_families(view: AgentView) -> Iterator[Family]:
    calls = view.calls
    return table(
        "bursar_pod_resources_",
        serving=("1 while the agent serves its socket.", view.is_serving),
        requests_total=("Calls of clients, by outcome.", _ended(calls.ended, view.code_names)),
        request_seconds_total=(
            "Total duration of clients' calls, in seconds.",
            (Sample(nanos / 1e9, _method(*called)) for called, nanos in calls.nanos.items()),
        ),
        requests_under_way=("Calls of clients in progress.", calls.under_way),
        rate_limited_total=("Calls refused by the rate limit.", view.rate_limited),
        reply_bytes_max=(
            "Size of the largest answer, in bytes. Many clients accept at most 4 MiB.",
            calls.reply_bytes_max,
        ),
        long_replies_total=("Answers larger than 4 MiB.", calls.long_replies),
    )


def _kubelet_families(view: AgentView) -> Iterator[Family]:
    counts = view.upstream
    ended = _ended(counts.ended, view.code_names)
    yield from table(
        "bursar_kubelet_", calls_total=("Calls to kubelet's socket, by outcome.", ended)
    )
    yield histogram(
        "bursar_kubelet_call_seconds",
        "Duration of calls to kubelet's socket, in seconds.",
        bounds=BOUNDS_S,
        counts=counts.by_duration,
        total=counts.seconds,
    )


def _ended(
    counts: Counter[tuple[Version, Method, int]], names: Mapping[int, str]
) -> Iterator[Sample]:
    for (version, method, code), count in counts.items():
        yield Sample(count, {**_method(version, method), "code": names.get(code, str(code))})


def _method(version: Version, method: Method) -> Mapping[str, str]:
    return {"version": version.value, "method": method.value}


# ------------------------------------------------------------------ answers


def _answer_families(counts: ProxyCounts) -> Iterator[Family]:
    def each(problems: Counter[ProblemKind]) -> Iterator[Sample]:
        return by("kind", {kind: problems[kind] for kind in ProblemKind})

    return table(
        "bursar_",
        pod_resources_degraded_total=(
            _DEGRADED_HELP,
            (Sample(getattr(counts, how), {"how": how}) for how in _DEGRADED),
        ),
        pod_resources_devices_added_total=("Devices added to kubelet's answers.", counts.filled),
        device_problems_total=(
            "Problems found in device annotations, by kind.",
            each(counts.problems),
        ),
        device_problems=(
            "Problems in device annotations of the current pods, by kind.",
            each(counts.standing),
        ),
    )


def _source_families(view: AgentView) -> Iterator[Family]:
    counts = view.pods
    age: Iterable[Sample] = () if view.pods_age_s is None else (Sample(view.pods_age_s),)
    return table(
        "bursar_pod_source_",
        reads_total=("Reads of the node's pods.", counts.reads),
        failures_total=("Failed reads of the node's pods.", counts.failures),
        misses_total=(
            "Reads caused by a pod in kubelet's answer that was not known.",
            counts.misses,
        ),
        read_seconds_total=(
            "Total duration of reads of the node's pods, in seconds.",
            counts.read_seconds,
        ),
        age_seconds=("Age of the pods that answers are made from, in seconds.", age),
        failing_seconds=(
            "Seconds since reading the pods began to fail; 0 while it works.",
            view.failing_s,
        ),
    )


def _inventory_families(inventory: Inventory | None) -> Iterator[Family]:
    known = () if inventory is None else inventory.devices
    found = Counter((each.kind, each.is_healthy) for each in known)
    return table(
        "bursar_inventory_",
        known=("1 if a Device object lists the node's devices.", inventory is not None),
        devices=(
            "Devices in the node's Device object, by kind and health.",
            (
                Sample(count, {"kind": kind, "health": "healthy" if is_healthy else "unhealthy"})
                for (kind, is_healthy), count in sorted(found.items())
            ),
        ),
    )
