"""The routes that every Bursar process has: liveness, readiness and metrics."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from bursar.adapters.serving.connection import READY_PATH
from bursar.adapters.serving.message import Guard, Request, Response, Route, Routes, fixed
from bursar.app.names import METRICS_PATH

HEALTH_PATH: Final = "/healthz"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type of Prometheus' text format."""

OK: Final = Response(b"OK")


async def always_ready() -> Response:
    return OK


def readiness(problem: str) -> Response:
    """The response to a readiness probe: OK, or 503 with the problem as its text."""
    return Response(problem.encode(), HTTPStatus.SERVICE_UNAVAILABLE) if problem else OK


def probe_routes(
    metrics: Callable[[], bytes],
    ready: Callable[[], Awaitable[Response]] = always_ready,
    *,
    metrics_guard: Guard | None,
) -> Routes:
    """Routes for probes and metrics. Probes have no guard: the kubelet sends no credentials."""

    async def readyz(_: Request) -> Response:
        return await ready()

    async def exposition(_: Request) -> Response:
        return Response(metrics(), content_type=METRICS_TYPE)

    return {
        ("GET", HEALTH_PATH): Route(fixed(OK)),
        ("GET", READY_PATH): Route(readyz),
        ("GET", METRICS_PATH): Route(exposition, guard=metrics_guard),
    }
