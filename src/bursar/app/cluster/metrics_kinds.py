"""The kinds of metrics.k8s.io, which a metrics server adds to a cluster."""

from typing import Final

from bursar.app.cluster.ports import Resource
from bursar.app.cluster.reading.wanted import Wanted

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"

NODE_METRICS: Final = Resource(GROUP, VERSION, "nodes", "NodeMetrics", is_namespaced=False)
POD_METRICS: Final = Resource(GROUP, VERSION, "pods", "PodMetrics")

POLL_SECONDS: Final = 15.0
"""The usual resolution of a metrics server, whose objects cannot be watched."""


def wanted_metrics(resource: Resource, namespace: str = "") -> Wanted:
    """Read the metrics if there are any."""
    return Wanted(
        resource=resource,
        namespace=namespace,
        is_required=False,
        may_be_absent=True,
        poll_seconds=POLL_SECONDS,
    )
