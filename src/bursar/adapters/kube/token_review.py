"""Who is asking: a bearer token, shown to the API server that issued it.

Answers are remembered for a short while, under a hash, so that a token is neither kept
nor asked about at every request. Strangers can make us ask, so few questions are under
way at once, and what is remembered is bounded.
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
"""A token that is refused may be one that is not valid yet."""
REVIEW_SECONDS: Final = 3.0
REVIEWS_MAX: Final = 4
ANSWERS_MAX: Final = 1024
TOKEN_LENGTH_MAX: Final = 16 * 1024


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct):
    status: _Status | None = None


class _Answer(NamedTuple):
    username: str | None
    until: float


_REVIEWS: Final = msgspec.json.Decoder(_TokenReview)


class TokenReviewer:
    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        # Apart, so that strangers with many tokens do not make us forget those we know.
        self._known: dict[bytes, _Answer] = {}
        self._refused: dict[bytes, _Answer] = {}
        self._turns = asyncio.Semaphore(REVIEWS_MAX)

    async def find_username(self, token: str) -> str | None:
        """Whose token it is; None if nobody's. Raises `ClusterError` if that cannot be told."""
        if not token or len(token) > TOKEN_LENGTH_MAX:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        answer = self._known.get(digest) or self._refused.get(digest)
        if answer is not None and answer.until > self._clock.monotonic():
            return answer.username
        try:
            username = await within(self._clock, REVIEW_SECONDS, self._review(token))
        except TimeoutError:
            raise UnavailableError(
                f"the API server did not tell within {REVIEW_SECONDS:g} s whose token it is"
            ) from None
        self._remember(digest, username)
        return username

    async def _review(self, token: str) -> str | None:
        async with self._turns:
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
            # Without its text, which may repeat what was sent.
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
        if len(table) >= ANSWERS_MAX:
            del table[next(iter(table))]
        table[digest] = _Answer(username, self._clock.monotonic() + seconds)
