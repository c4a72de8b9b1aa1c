"""Metrics of the scheduler extender."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import (
    EXTENDER,
    FLAG,
    Metric,
    Section,
    metric,
)


def _pool(name: str, help: str, unit: str = "") -> Metric:
    return metric(
        f"bursar_cluster_resource_{name}",
        help,
        *("cluster_resource", "resource"),
        unit=unit,
        processes=EXTENDER,
    )


def _extender(name: str, help: str, *labels: str) -> Metric:
    return metric(f"bursar_extender_{name}", help, *labels, processes=EXTENDER)


POOLS: Final = Section(
    "extender",
    (
        _pool("capacity", "Capacity of a ClusterResource."),
        _pool("used", "What bound pods hold of a ClusterResource."),
        _pool("reserved", "What pods that are being bound hold of a ClusterResource."),
        _pool("overdrawn", "What pods hold beyond the capacity of a ClusterResource."),
        _pool("waiting_pods", "Pods that request a ClusterResource and hold nothing of it."),
        _pool(
            "in_use",
            "1 if the ClusterResource is valid and the oldest one of its resource, else 0.",
            unit=FLAG,
        ),
        _extender(
            "requests_total",
            "Requests of schedulers, by verb and by how they ended: allowed, refused or error.",
            *("verb", "end"),
        ),
        _extender("refusals_total", "Pods that filter or bind refused, by the reason.", "reason"),
        _extender("holds", "Holds of pods that the watch does not show bound, by state.", "state"),
        _extender("lapsed_holds_total", "Holds that ended without a bound pod."),
        _extender("scheduler_signals_total", "Signals to the scheduler to try refused pods again."),
    ),
)
