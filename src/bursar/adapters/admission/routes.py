"""The routes of the webhook, and what is refused before a review is judged."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from bursar.adapters.admission.reviewer import UnanswerableError
from bursar.adapters.serving.message import (
    JSON,
    Guard,
    Request,
    Response,
    Route,
    Routes,
    refusal,
)
from bursar.adapters.serving.probes import probe_routes
from bursar.app.cluster.ports import Clock
from bursar.app.tracing import Span, Tracer
from bursar.wire.admission import AdmissionDecision, ReviewError

REVIEW_PATHS: Final = ("/serve-path", "/gate", "/validate")
"""AAQ's path, and one for each kind of webhook configuration. All three behave the same."""
BODY_BYTES_MAX: Final = 3 * 2**20
"""A review holds an object twice. An API server stores none above 1.5 MiB by default."""

Answer: TypeAlias = Callable[[bytes], Awaitable[tuple[bytes, AdmissionDecision]]]
"""Returns the response to a review and its decision. Raises `ReviewError`, `UnanswerableError`."""


def review_counts() -> Counter[str]:
    """Counts of reviews by their result, for /metrics."""
    return Counter(allowed=0, denied=0, error=0)


@dataclass(frozen=True, slots=True)
class Tracing:
    """Records a span for each review."""

    tracer: Tracer
    clock: Clock

    def now_s(self) -> float:
        return self.clock.now().timestamp()

    def record_review(self, request: Request, end: str, began_s: float) -> None:
        """Record a span, in the trace of the API server if the request names one."""
        attributes: dict[str, str | int | bool] = {
            "url.path": request.path,
            "http.request.body.size": len(request.body),
            "bursar.end": end,
        }
        self.tracer.record(
            Span(
                name="admission review",
                began_s=began_s,
                ended_s=self.now_s(),
                attributes=attributes,
                problem=end if end == "error" else "",
                parent=request.headers.get("traceparent", ""),
            )
        )


def webhook_routes(  # noqa: PLR0913 - one for each part of the server
    answer: Answer,
    *,
    counts: Counter[str],
    metrics: Callable[[], bytes],
    body_bytes_max: int = BODY_BYTES_MAX,
    metrics_guard: Guard | None,
    review_guard: Guard | None = None,
    tracing: Tracing | None = None,
) -> Routes:
    async def review(request: Request) -> Response:
        response, end = await _review(request, answer)
        counts[end] += 1
        return response

    async def traced(request: Request) -> Response:
        assert tracing is not None
        began_s = tracing.now_s()
        response, end = await _review(request, answer)
        counts[end] += 1
        tracing.record_review(request, end, began_s)
        return response

    route = Route(review if tracing is None else traced, body_bytes_max, review_guard)
    probes = probe_routes(metrics, metrics_guard=metrics_guard)
    return {**probes, **{("POST", path): route for path in REVIEW_PATHS}}


async def _review(request: Request, answer: Answer) -> tuple[Response, str]:
    if request.media_type != JSON:
        problem = f'Content-Type: "{request.content_type}" should be "{JSON}"'
        return refusal(HTTPStatus.BAD_REQUEST, problem), "error"
    try:
        body, decision = await answer(request.body)
    except ReviewError as error:
        return refusal(HTTPStatus.BAD_REQUEST, str(error)), "error"
    except UnanswerableError as error:
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)), "error"
    return Response(body, content_type=JSON), "allowed" if decision.is_allowed else "denied"
