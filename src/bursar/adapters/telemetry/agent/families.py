"""Metrics of the agent: calls of clients, calls to kubelet, and how answers were made.

No label names a pod, container or device: a cluster has thousands of nodes with hundreds of
pods each. Clients of the socket read the devices of a pod.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bursar.adapters.telemetry.agent.upstream import BOUNDS_S, UpstreamCounts
from bursar.adapters.telemetry.catalogue.agent import DEGRADED
from bursar.adapters.telemetry.exposition import Family, Sample, by, histogram, table
from bursar.app.devices.counters import CallCounts, ProxyCounts
from bursar.app.devices.node_pods import FreshnessCounts
from bursar.app.devices.ports import Method, Version
from bursar.core.devices.allocation import ProblemKind
from bursar.core.devices.inventory import Inventory


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
        serving=view.is_serving,
        requests_total=_ended(calls.ended, view.code_names),
        request_seconds_total=(
            Sample(nanos / 1e9, _method(*called)) for called, nanos in calls.nanos.items()
        ),
        requests_under_way=calls.under_way,
        rate_limited_total=view.rate_limited,
        reply_bytes_max=calls.reply_bytes_max,
        long_replies_total=calls.long_replies,
    )


def _kubelet_families(view: AgentView) -> Iterator[Family]:
    counts = view.upstream
    ended = _ended(counts.ended, view.code_names)
    yield from table("bursar_kubelet_", calls_total=ended)
    yield histogram(
        "bursar_kubelet_call_seconds",
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
            Sample(getattr(counts, how), {"how": how}) for how in DEGRADED
        ),
        pod_resources_devices_added_total=counts.filled,
        device_problems_total=each(counts.problems),
        device_problems=each(counts.standing),
    )


def _source_families(view: AgentView) -> Iterator[Family]:
    counts = view.pods
    age: Iterable[Sample] = () if view.pods_age_s is None else (Sample(view.pods_age_s),)
    return table(
        "bursar_pod_source_",
        reads_total=counts.reads,
        failures_total=counts.failures,
        misses_total=counts.misses,
        read_seconds_total=counts.read_seconds,
        age_seconds=age,
        failing_seconds=view.failing_s,
    )


def _inventory_families(inventory: Inventory | None) -> Iterator[Family]:
    known = () if inventory is None else inventory.devices
    found = Counter((each.kind, each.is_healthy) for each in known)
    return table(
        "bursar_inventory_",
        known=inventory is not None,
        devices=(
            Sample(count, {"kind": kind, "health": "healthy" if is_healthy else "unhealthy"})
            for (kind, is_healthy), count in sorted(found.items())
        ),
    )
