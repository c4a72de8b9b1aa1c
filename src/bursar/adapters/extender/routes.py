"""The routes of the scheduler extender: filter, prioritize, preempt and bind.

The scheduler takes only status 200 for an answer. For errors that it should show in an event the
API has a field; other errors are status codes, which the scheduler logs and tries again later.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import JSON, Guard, Request, Response, Route, Routes, refusal
from bursar.adapters.serving.probes import probe_routes, readiness
from bursar.app.extender.binding import BindResult
from bursar.app.extender.extender import NotLeadingError
from bursar.app.extender.names import URL_PATH
from bursar.core.pools.refusal import PoolReason, PoolRefusal
from bursar.core.quota.refusal import explanation
from bursar.wire.extender import (
    BindRequest,
    PreemptRequest,
    Victims,
    decode_bind,
    decode_filter,
    decode_preempt,
    encode_binding,
    encode_filter_error,
    encode_pass,
    encode_refusal,
    encode_scores,
    encode_victims,
)

BODY_BYTES_MAX: Final = 8 * 2**20
"""A request with the names of 5,000 nodes and a large pod has about 3 MiB. Requests of a scheduler
that is not `nodeCacheCapable` have whole nodes, about 10 kB each."""
EXTENDER_LIMITS: Final = ServerLimits(
    connections_max=256,
    connections_spare=16,
    connections_per_address_max=192,
    handshakes_max=128,
    bytes_in_flight_max=64 * 2**20,
)
"""The callers are schedulers, which filter one pod at a time and bind many at a time, the kubelet's
probes and metrics scrapers."""

Answer: TypeAlias = Callable[[bytes], Awaitable[tuple[bytes, str]]]
"""Returns a response and its result. Raises `NotLeadingError`, `ValueError`."""
ALLOWED: Final = "allowed"
REFUSED: Final = "refused"
ERROR: Final = "error"
FILTER, PRIORITIZE, PREEMPT, BIND = "filter", "prioritize", "preempt", "bind"
VERBS: Final = (FILTER, PRIORITIZE, PREEMPT, BIND)


class Decisions(Protocol):
    """What the extender decides. The methods raise `NotLeadingError` and `ValueError`."""

    def filter(self, pod: bytes) -> tuple[PoolRefusal, ...]: ...

    def preempt(self, request: PreemptRequest) -> dict[str, Victims]: ...

    async def bind(self, request: BindRequest) -> BindResult: ...


def request_counts() -> Counter[tuple[str, str]]:
    """Counts of requests by verb and result, for /metrics."""
    return Counter({(verb, end): 0 for verb in VERBS for end in (ALLOWED, REFUSED, ERROR)})


def extender_routes(  # noqa: PLR0913 - the parts of a server
    decisions: Decisions,
    *,
    counts: Counter[tuple[str, str]],
    metrics: Callable[[], bytes],
    problem: Callable[[], str],
    metrics_guard: Guard | None,
    scheduler_guard: Guard | None,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Routes:
    """`problem` returns why the process is not ready, or an empty string."""

    async def ready() -> Response:
        return readiness(problem())

    answers: dict[str, Answer] = {
        FILTER: _Filter(decisions),
        PRIORITIZE: _prioritize,
        PREEMPT: _Preempt(decisions),
        BIND: _Bind(decisions),
    }
    routes = {
        ("POST", f"{URL_PATH}/{verb}"): Route(
            _Verb(verb, answer, counts), body_bytes_max, scheduler_guard
        )
        for verb, answer in answers.items()
    }
    return {**probe_routes(metrics, ready, metrics_guard=metrics_guard), **routes}


class _Verb:
    """The handler of one verb: counts, and turns errors into responses."""

    def __init__(self, verb: str, answer: Answer, counts: Counter[tuple[str, str]]) -> None:
        self._verb, self._answer, self._counts = verb, answer, counts

    async def __call__(self, request: Request) -> Response:
        try:
            body, end = await self._answer(request.body)
        except NotLeadingError as error:
            # The connection may be to a former leader: with a new one the Service finds the leader.
            text = PoolRefusal(reason=PoolReason.NOT_LEADING, detail=str(error)).message()
            response, end = (
                refusal(HTTPStatus.SERVICE_UNAVAILABLE, text, ("Connection", "close")),
                ERROR,
            )
        except ValueError as error:
            response, end = refusal(HTTPStatus.BAD_REQUEST, str(error)), ERROR
        else:
            response = Response(body, content_type=JSON)
        self._counts[self._verb, end] += 1
        return response


class _Filter:
    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def __call__(self, body: bytes) -> tuple[bytes, str]:
        request = decode_filter(body)
        try:
            refusals = self._decisions.filter(request.pod)
        except NotLeadingError as error:
            text = PoolRefusal(reason=PoolReason.NOT_LEADING, detail=str(error)).message()
            return encode_filter_error(text), ERROR
        if refusals:
            return encode_refusal(request, explanation(refusals)), REFUSED
        return encode_pass(request), ALLOWED


async def _prioritize(body: bytes) -> tuple[bytes, str]:
    return encode_scores(decode_filter(body).names()), ALLOWED


class _Preempt:
    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def __call__(self, body: bytes) -> tuple[bytes, str]:
        useful = self._decisions.preempt(decode_preempt(body))
        return encode_victims(useful), ALLOWED if useful else REFUSED


class _Bind:
    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def __call__(self, body: bytes) -> tuple[bytes, str]:
        result = await self._decisions.bind(decode_bind(body))
        return encode_binding(result.message), REFUSED if result.message else ALLOWED
