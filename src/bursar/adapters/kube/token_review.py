"""Authentication of callers by bearer token, with TokenReviews of the API server.

Results are cached for a short time under a hash, so tokens are not stored and not every request
needs a review. Unauthenticated callers can cause reviews, and a tenant can have any number of
valid tokens. So reviews have lanes, each of which is bounded, and callers of one lane never wait
for those of another: tokens of the expected caller that were valid before, other tokens that were
valid before, tokens that claim to be those of the expected caller, and all others.
"""

import asyncio
import base64
import hashlib
from collections import Counter
from typing import Final, NamedTuple

import msgspec

from bursar.app.cluster.kinds import TOKEN_REVIEWS
from bursar.app.cluster.ports import BusyError, Clock, UnavailableError, Writer
from bursar.app.cluster.time_limit import within
from bursar.wire.structs.body import UNREADABLE

KNOWN_SECONDS: Final = 60.0
UNKNOWN_SECONDS: Final = 5.0
"""Shorter than `KNOWN_SECONDS`: a refused token may become valid."""
FAMILIAR_SECONDS: Final = 3600.0
"""How long a token that was valid keeps its lane. The kubelet renews tokens every hour."""
REVIEW_SECONDS: Final = 3.0
RESULTS_MAX: Final = 1024
TOKEN_LENGTH_MAX: Final = 16 * 1024
REVIEWS_MAX: Final = 2
"""Reviews at a time of each other lane."""
PROVEN_REVIEWS_MAX: Final = 4
"""Reviews at a time of tokens of the expected caller that were valid before."""
PLACES_MAX: Final = 64
"""Callers that are reviewed or wait in a lane; further ones are refused at once. A review takes a
few milliseconds, so that the last of them does not wait for `REVIEW_SECONDS`."""
PLACES_PER_ADDRESS_MAX: Final = 2
"""Places of one client address. One client cannot fill a lane."""


class User(msgspec.Struct, frozen=True):
    """A user as a TokenReview describes it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: User | None = None


class _TokenReview(msgspec.Struct):
    status: _Status | None = None


class _Claims(msgspec.Struct):
    sub: str = ""


class _Result(NamedTuple):
    user: User | None
    until: float


_REVIEWS: Final = msgspec.json.Decoder(_TokenReview)
_CLAIMS: Final = msgspec.json.Decoder(_Claims)


class Lane:
    """A bounded number of reviews at a time, and a bounded number of callers that wait."""

    def __init__(self, reviews_max: int, places_max: int, per_address_max: int) -> None:
        self.turns: Final = asyncio.Semaphore(reviews_max)
        self._places_max, self._per_address_max = places_max, per_address_max
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Take a place, unless there is none. An empty address has no bound of its own."""
        taken = self._by_address
        is_crowded = address and taken[address] >= self._per_address_max
        if is_crowded or taken.total() >= self._places_max:
            return False
        taken[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class TokenReviewer:
    """`expected` is the user name of a caller who must not wait for strangers."""

    def __init__(self, writer: Writer, clock: Clock, expected: str = "") -> None:
        self._writer, self._clock, self._expected = writer, clock, expected
        # Separate, so that callers with many invalid tokens cannot evict the valid ones.
        self._known: dict[bytes, _Result] = {}
        self._refused: dict[bytes, _Result] = {}
        self._familiar: dict[bytes, _Result] = {}
        """Tokens that were valid, and until when they keep their lane."""
        self._reviewing: dict[bytes, asyncio.Task[User | None]] = {}
        self._proven_lane = Lane(PROVEN_REVIEWS_MAX, RESULTS_MAX, RESULTS_MAX)
        self._familiar_lane = Lane(REVIEWS_MAX, PLACES_MAX, PLACES_PER_ADDRESS_MAX)
        self._expected_lane = Lane(REVIEWS_MAX, PLACES_MAX, PLACES_PER_ADDRESS_MAX)
        self._other_lane = Lane(REVIEWS_MAX, PLACES_MAX, PLACES_PER_ADDRESS_MAX)

    async def find_username(self, token: str, address: str = "") -> str | None:
        """The name of a token's user; None for an invalid token. Raises `ClusterError`."""
        user = await self.find_user(token, address)
        return None if user is None else user.username

    async def find_user(self, token: str, address: str = "") -> User | None:
        """The user of a token that came from an address; None for an invalid token.

        Raises `ClusterError`: `BusyError` if too many tokens of strangers are being reviewed.
        """
        if not token or len(token) > TOKEN_LENGTH_MAX:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        result = self._known.get(digest) or self._refused.get(digest)
        if result is not None and result.until > self._clock.monotonic():
            return result.user
        reviewing = self._reviewing.get(digest)
        if reviewing is None:
            reviewing = await self._begin(digest, token, address)
        return await asyncio.shield(reviewing)

    async def _begin(self, digest: bytes, token: str, address: str) -> asyncio.Task[User | None]:
        """Start a review, which outlives its callers: all with the same token share it."""
        lane = self._lane(digest, token)
        if not lane.enter(address):
            # A caller that asks again at once must not keep the event loop for itself.
            await asyncio.sleep(0)
            raise BusyError("too many tokens are being reviewed")

        def has_ended(done: asyncio.Task[User | None]) -> None:
            lane.leave(address)
            del self._reviewing[digest]
            if not done.cancelled():
                # If all callers have left, nothing else takes the exception.
                done.exception()

        reviewing = asyncio.create_task(self._reviewed(lane, digest, token))
        self._reviewing[digest] = reviewing
        reviewing.add_done_callback(has_ended)
        return reviewing

    async def _reviewed(self, lane: Lane, digest: bytes, token: str) -> User | None:
        try:
            user = await within(self._clock, REVIEW_SECONDS, self._review(lane, token))
        except TimeoutError:
            raise UnavailableError(
                f"the API server did not answer a token review within {REVIEW_SECONDS:g} s"
            ) from None
        self._remember(digest, user)
        return user

    async def _review(self, lane: Lane, token: str) -> User | None:
        async with lane.turns:
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
        except UNREADABLE:
            # The decoder's text is left out: it may repeat the token.
            raise UnavailableError("the answer to a token review cannot be read") from None
        if status is None or not status.authenticated or status.user is None:
            return None
        return status.user if status.user.username else None

    def _lane(self, digest: bytes, token: str) -> Lane:
        familiar = self._familiar.get(digest)
        if familiar is not None and familiar.until > self._clock.monotonic():
            return self._proven_lane if self._is_expected(familiar) else self._familiar_lane
        is_expected = self._expected and claimed_user(token) == self._expected
        return self._expected_lane if is_expected else self._other_lane

    def _remember(self, digest: bytes, user: User | None) -> None:
        now = self._clock.monotonic()
        for table in (self._known, self._refused, self._familiar):
            table.pop(digest, None)
        if user is None:
            self._put(self._refused, digest, _Result(None, now + UNKNOWN_SECONDS))
        else:
            self._put(self._known, digest, _Result(user, now + KNOWN_SECONDS))
            self._put(self._familiar, digest, _Result(user, now + FAMILIAR_SECONDS))

    def _put(self, table: dict[bytes, _Result], digest: bytes, result: _Result) -> None:
        """Add a result. The oldest of another user than the expected one makes room."""
        if len(table) >= RESULTS_MAX:
            others = (each for each, found in table.items() if not self._is_expected(found))
            del table[next(others, next(iter(table)))]
        table[digest] = result

    def _is_expected(self, result: _Result) -> bool:
        return result.user is not None and result.user.username == self._expected


def claimed_user(token: str) -> str:
    """The user that a JSON Web Token claims to be of. Its signature is not verified.

    Empty for any other token. Use it only to choose a lane: anybody can claim anything.
    """
    header, _, rest = token.partition(".")
    payload, _, signature = rest.partition(".")
    if not header or not signature:
        return ""
    try:
        claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return _CLAIMS.decode(claims).sub
    except (ValueError, *UNREADABLE):
        return ""
