"""Authorization of callers, with SubjectAccessReviews of the API server.

Only authenticated users are reviewed. Results are cached for a short time, and both the cache and
the reviews in flight are bounded. A tenant can have any number of valid tokens, and each of them is
another user to the API server, so the reviews that one client address can wait for are bounded too.
"""

import hashlib
from typing import Final

import msgspec

from bursar.adapters.kube.token_review import (
    PLACES_MAX,
    PLACES_PER_ADDRESS_MAX,
    Lane,
    User,
)
from bursar.app.cluster.kinds import ACCESS_REVIEWS
from bursar.app.cluster.ports import BusyError, Clock, Json, UnavailableError, Writer
from bursar.app.cluster.time_limit import within
from bursar.wire.structs.body import UNREADABLE

ALLOWED_SECONDS: Final = 60.0
DENIED_SECONDS: Final = 10.0
"""Shorter than `ALLOWED_SECONDS`: the role may be bound now."""
REVIEW_SECONDS: Final = 3.0
REVIEWS_MAX: Final = 4
RESULTS_MAX: Final = 512


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _Status | None = None


_REVIEWS: Final = msgspec.json.Decoder(_AccessReview)


class PathAccess:
    """Whether users may read a path that is not a resource, such as `/metrics`."""

    def __init__(self, writer: Writer, clock: Clock, path: str, verb: str = "get") -> None:
        self._writer, self._clock = writer, clock
        self._path, self._verb = path, verb
        self._results: dict[bytes, tuple[bool, float]] = {}
        self._lane = Lane(REVIEWS_MAX, PLACES_MAX, PLACES_PER_ADDRESS_MAX)

    async def problem_of(self, user: User, address: str = "") -> str:
        """Why the user may not read the path from an address; empty if the user may.

        Raises `ClusterError`: `BusyError` if too many users are being reviewed.
        """
        digest = hashlib.sha256(msgspec.json.encode(user, order="deterministic")).digest()
        now = self._clock.monotonic()
        is_allowed, until = self._results.get(digest, (False, now))
        if until <= now:
            is_allowed = await self._ask(user, address)
            self._remember(digest, is_allowed=is_allowed)
        return "" if is_allowed else f"{user.username} may not {self._verb} {self._path}"

    async def _ask(self, user: User, address: str) -> bool:
        if not self._lane.enter(address):
            raise BusyError("too many users are being reviewed")
        try:
            return await within(self._clock, REVIEW_SECONDS, self._review(user))
        except TimeoutError:
            raise UnavailableError(
                f"the API server did not answer an access review within {REVIEW_SECONDS:g} s"
            ) from None
        finally:
            self._lane.leave(address)

    async def _review(self, user: User) -> bool:
        spec: dict[str, Json] = {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra.items()},
            "nonResourceAttributes": {"path": self._path, "verb": self._verb},
        }
        async with self._lane.turns:
            answer = await self._writer.create(
                ACCESS_REVIEWS,
                {
                    "apiVersion": ACCESS_REVIEWS.api_version,
                    "kind": ACCESS_REVIEWS.kind,
                    "spec": spec,
                },
            )
        try:
            status = _REVIEWS.decode(answer).status
        except UNREADABLE:
            raise UnavailableError("the answer to an access review cannot be read") from None
        return status is not None and status.allowed and not status.denied

    def _remember(self, digest: bytes, *, is_allowed: bool) -> None:
        self._results.pop(digest, None)
        if len(self._results) >= RESULTS_MAX:
            del self._results[next(iter(self._results))]
        seconds = ALLOWED_SECONDS if is_allowed else DENIED_SECONDS
        self._results[digest] = (is_allowed, self._clock.monotonic() + seconds)
