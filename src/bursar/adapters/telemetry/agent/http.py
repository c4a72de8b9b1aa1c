"""Metrics and health of the agent over plain HTTP. They change nothing."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Guard, Response, Routes
from bursar.adapters.serving.probes import probe_routes
from bursar.adapters.telemetry.agent.health import Health

AGENT_LIMITS: Final = ServerLimits(
    connections_max=32,
    connections_spare=8,
    connections_per_address_max=16,
    bytes_in_flight_max=8 * 2**20,
    bytes_spare=2 * 2**20,
    linger_seconds=0,
    finish_seconds=1,
)
"""The callers are the kubelet's probes and a metrics scraper."""


def agent_routes(
    *,
    metrics: Callable[[], bytes],
    health: Callable[[], Awaitable[Health]],
    metrics_guard: Guard | None,
) -> Routes:
    async def ready() -> Response:
        found = await health()
        code = HTTPStatus.OK if found.is_good else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(str(found).encode(), code)

    return probe_routes(metrics, ready, metrics_guard=metrics_guard)
