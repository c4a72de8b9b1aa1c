"""The routes of the controller. Probes and /leader answer any caller, as AAQ's do."""

from collections.abc import Callable
from typing import Final

from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import (
    JSON,
    Guard,
    Handler,
    Request,
    Response,
    Route,
    Routes,
)
from bursar.adapters.serving.probes import probe_routes, readiness
from bursar.app.names import RESIZES_PATH

CONTROLLER_LIMITS: Final = ServerLimits(
    connections_max=128,
    connections_spare=16,
    connections_per_address_max=16,
    handshakes_max=64,
    bytes_in_flight_max=16 * 2**20,
    bytes_spare=4 * 2**20,
)
"""The callers are the kubelet's probes, metrics scrapers and the webhook's replicas, which send at
most 8 requests at a time. Each connection costs about 65 kB, also that of a stranger."""
LEADER_PATH: Final = "/leader"
RESIZE_BODY_BYTES_MAX: Final = 3 * 2**20
"""A resize request holds one pod. An API server stores no object above 1.5 MiB by default."""

_LEADER: Final = {
    True: Response(b'{"apiserver":{"leader":"true"}}', content_type=JSON),
    False: Response(b'{"apiserver":{"leader":"false"}}', content_type=JSON),
}
"""AAQ's answers, byte for byte: the value is a string, not a boolean."""


def controller_routes(
    *,
    is_leader: Callable[[], bool],
    problem: Callable[[], str],
    metrics: Callable[[], bytes],
    resizes: Handler,
    metrics_guard: Guard | None,
    resizes_guard: Guard | None,
) -> Routes:
    """`problem` returns why the controller is not ready, or an empty string."""

    async def leader(_: Request) -> Response:
        return _LEADER[is_leader()]

    async def ready() -> Response:
        return readiness(problem())

    return {
        **probe_routes(metrics, ready, metrics_guard=metrics_guard),
        ("GET", LEADER_PATH): Route(leader),
        ("POST", RESIZES_PATH): Route(resizes, RESIZE_BODY_BYTES_MAX, resizes_guard),
    }
