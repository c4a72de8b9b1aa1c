"""Authentication of callers by bearer token, with TokenReviews of the API server.

Results are cached for a short time under a hash, so tokens are not stored and not every request
needs a review. Unauthenticated callers can cause reviews, so the reviews in flight and the cache
are bounded.
"""

import asyncio
import hashlib
from typing import Final, NamedTuple

import msgspec

from bursar.app.cluster.ports import Clock, Resource, UnavailableError, Writer
from bursar.app.cluster.time_limit import within

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", is_namespaced=False
)
KNOWN_SECONDS: Final = 60.0
UNKNOWN_SECONDS: Final = 5.0
"""Shorter than `KNOWN_SECONDS`: a refused token may become valid."""
REVIEW_SECONDS: Final = 3.0
REVIEWS_MAX: Final = 4
RESULTS_MAX: Final = 1024
TOKEN_LENGTH_MAX: Final = 16 * 1024


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct):
    status: _Status | None = None


class _Result(NamedTuple):
    username: str | None
    until: float


_REVIEWS: Final = msgspec.json.Decoder(_TokenReview)


class TokenReviewer:
    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        # Separate, so that callers with many invalid tokens cannot evict the valid ones.
        self._known: dict[bytes, _Result] = {}
        self._refused: dict[bytes, _Result] = {}
        self._reviews_in_flight = asyncio.Semaphore(REVIEWS_MAX)

    async def find_username(self, token: str) -> str | None:
        """The user of a token; None for an invalid token. Raises `ClusterError`."""
        if not token or len(token) > TOKEN_LENGTH_MAX:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        result = self._known.get(digest) or self._refused.get(digest)
        if result is not None and result.until > self._clock.monotonic():
            return result.username
        try:
            username = await within(self._clock, REVIEW_SECONDS, self._review(token))
        except TimeoutError:
            raise UnavailableError(
                f"the API server did not tell within {REVIEW_SECONDS:g} s whose token it is"
            ) from None
        self._remember(digest, username)
        return username

    async def _review(self, token: str) -> str | None:
        async with self._reviews_in_flight:
            answer = await self._writer.create(
                TOKEN_REVIEWS,
                {
                    "apiVersion": TOKEN_REVIEWS.api_version,
                    "kind": TOKEN_REVIEWS.kind,
                    "spec": {"token": token},
                },
            )
        try:
            status = _REVIEWS.decode(answer).status
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # The decoder's text is left out: it may repeat the token.
            raise UnavailableError("the answer to a token review cannot be read") from None
        if status is None or not status.authenticated or status.user is None:
            return None
        return status.user.username or None

    def _remember(self, digest: bytes, username: str | None) -> None:
        self._known.pop(digest, None)
        self._refused.pop(digest, None)
        if username is None:
            table, seconds = self._refused, UNKNOWN_SECONDS
        else:
            table, seconds = self._known, KNOWN_SECONDS
        if len(table) >= RESULTS_MAX:
            del table[next(iter(table))]
        table[digest] = _Result(username, self._clock.monotonic() + seconds)
