"""The paths of the webhook, and what goes wrong on them before a review is judged."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from bursar.adapters.admission.reviewing import UnanswerableError
from bursar.adapters.serving.server import (
    BODY_BYTES_MAX,
    JSON,
    READY_PATH,
    Bounded,
    Incoming,
    Outgoing,
    Route,
)
from bursar.app.admission.pods import Verdict
from bursar.wire.admission import ReviewError

REVIEW_PATHS: Final = ("/serve-path", "/gate", "/validate")
"""One behaviour under three names: AAQ's, and one for each kind of webhook configuration."""
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Answer = Callable[[bytes], Awaitable[tuple[bytes, Verdict]]]


class ReviewCounts:
    """How many reviews ended how, for /metrics."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter(allowed=0, denied=0, error=0)

    def add(self, end: str) -> None:
        self._ends[end] += 1

    def exposition(self) -> bytes:
        name = "bursar_admission_reviews_total"
        lines = [
            f"# HELP {name} Admission reviews by how they ended.",
            f"# TYPE {name} counter",
            *(f'{name}{{end="{end}"}} {count}' for end, count in sorted(self._ends.items())),
        ]
        return ("\n".join(lines) + "\n").encode()


def webhook_routes(
    answer: Answer,
    *,
    counts: ReviewCounts,
    metrics: Callable[[], bytes],
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Mapping[str, Route]:
    async def review(incoming: Incoming) -> Outgoing:
        outgoing, end = await _reviewed(incoming, answer)
        counts.add(end)
        return outgoing

    async def health(_: Incoming) -> Outgoing:
        return Outgoing(b"OK")

    async def exposition(_: Incoming) -> Outgoing:
        return Outgoing(metrics(), content_type=METRICS_TYPE)

    return {
        **dict.fromkeys(REVIEW_PATHS, Bounded(review, body_bytes_max)),
        "/healthz": health,
        READY_PATH: health,
        "/metrics": exposition,
    }


async def _reviewed(incoming: Incoming, answer: Answer) -> tuple[Outgoing, str]:
    media_type = incoming.content_type.partition(";")[0].strip()
    if media_type != JSON:
        problem = f'Content-Type: "{incoming.content_type}" should be "{JSON}"'
        return Outgoing(problem.encode(), HTTPStatus.BAD_REQUEST), "error"
    try:
        body, verdict = await answer(incoming.body)
    except ReviewError as error:
        return Outgoing(str(error).encode(), HTTPStatus.BAD_REQUEST), "error"
    except UnanswerableError as error:
        return Outgoing(str(error).encode(), HTTPStatus.INTERNAL_SERVER_ERROR), "error"
    return Outgoing(body, content_type=JSON), "allowed" if verdict.is_allowed else "denied"
