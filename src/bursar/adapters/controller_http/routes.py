"""The paths of the controller that anybody may ask, as AAQ's are."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from bursar.adapters.serving.server import JSON, READY_PATH, Incoming, Outgoing, Route

LEADER_PATH: Final = "/leader"
METRICS_PATH: Final = "/metrics"
RESIZES_PATH: Final = "/v1/resizes"
READING: Final = ("GET", "HEAD")


def controller_routes(
    *,
    is_leader: Callable[[], bool],
    problem: Callable[[], str],
    metrics: Callable[[], bytes],
    metrics_type: str,
    resizes: Route,
) -> Mapping[str, Route]:
    """`problem` says what keeps the controller from being ready; empty if nothing does."""

    async def leader(_: Incoming) -> Outgoing:
        # To the letter what AAQ answers, where the truth is a text.
        return Outgoing(_LEADER[is_leader()], content_type=JSON)

    async def health(_: Incoming) -> Outgoing:
        return Outgoing(b"OK")

    async def readiness(_: Incoming) -> Outgoing:
        text = problem()
        if text:
            return Outgoing(text.encode(), HTTPStatus.SERVICE_UNAVAILABLE)
        return Outgoing(b"OK")

    async def exposition(_: Incoming) -> Outgoing:
        return Outgoing(metrics(), content_type=metrics_type)

    return {
        LEADER_PATH: _reading(leader),
        "/healthz": _reading(health),
        READY_PATH: _reading(readiness),
        METRICS_PATH: _reading(exposition),
        RESIZES_PATH: resizes,
    }


_LEADER: Final = {
    True: b'{"apiserver":{"leader":"true"}}',
    False: b'{"apiserver":{"leader":"false"}}',
}


def _reading(route: Route) -> Route:
    async def only_reading(incoming: Incoming) -> Outgoing:
        if incoming.method not in READING:
            return Outgoing(b"only GET is answered here", HTTPStatus.METHOD_NOT_ALLOWED)
        return await route(incoming)

    return only_reading
