"""Guards that ask for a bearer token: who sends the request, and whether that user may."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeAlias, TypeVar

from bursar.adapters.serving.message import Guard, Request, Response, refusal
from bursar.app.cluster.ports import BusyError, ClusterError

UserT = TypeVar("UserT")

FindUser: TypeAlias = Callable[[str, str], Awaitable[UserT | None]]
"""Returns the user of a token that came from an address; None for an invalid token. Raises
`ClusterError`: `BusyError` if too many callers ask."""
Judge: TypeAlias = Callable[[UserT, str], Awaitable[str]]
"""Returns why the user may not send the request from an address; empty if the user may. Raises
`ClusterError`: `BusyError` if too many callers ask."""

_CHALLENGE: Final = ("WWW-Authenticate", "Bearer")
_NO_TOKEN: Final = refusal(HTTPStatus.UNAUTHORIZED, "a bearer token is required", _CHALLENGE)
_INVALID: Final = refusal(HTTPStatus.UNAUTHORIZED, "the token is not valid", _CHALLENGE)
_BUSY: Final = refusal(
    HTTPStatus.TOO_MANY_REQUESTS, "too many tokens are being checked", ("Retry-After", "1")
)
_UNCHECKED: Final = refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the token could not be checked")


def bearer_guard(find_user: FindUser[UserT], judge: Judge[UserT]) -> Guard:
    async def guard(request: Request) -> Response | None:
        token = request.bearer_token
        if not token:
            return _NO_TOKEN
        try:
            user = await find_user(token, request.peer.address)
            if user is None:
                return _INVALID
            problem = await judge(user, request.peer.address)
        except BusyError:
            return _BUSY
        except ClusterError:
            return _UNCHECKED
        return refusal(HTTPStatus.FORBIDDEN, problem) if problem else None

    return guard


def only(user: str) -> Judge[str]:
    """Lets one user pass, given by name."""

    async def judge(found: str, _: str) -> str:
        return "" if found == user else f"only {user} may ask"

    return judge
