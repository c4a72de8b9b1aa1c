"""Every way a request can fail, as one of the typed errors of the ports.

What the API server says is passed on. What anybody else says is not: the body of a
proxy's error page, or of a half-read answer, may hold anything, so only its code is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from bursar.app.cluster.ports import (
    AlreadyExistsError,
    BusyError,
    ClusterError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Resource,
    UnauthorizedError,
    UnavailableError,
)
from bursar.wire.cluster.status import Status, find_status

_BY_REASON: Final[Mapping[str, type[ClusterError]]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": ExpiredError,
    "Gone": ExpiredError,
}
"""Reasons that say more than their code, or that may come without one."""

_BY_CODE: Final[Mapping[int, type[ClusterError]]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    410: ExpiredError,
    413: InvalidError,
    422: InvalidError,
    429: BusyError,
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about; every error says so."""

    resource: Resource
    key: Key | None = None

    def fault(self, kind: type[ClusterError], message: str, *, code: int = 0) -> ClusterError:
        return kind(message, code=code, resource=str(self.resource), key=self.key)

    def unavailable(self, message: str) -> ClusterError:
        return self.fault(UnavailableError, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is not a success."""

    code: int
    body: bytes = b""
    retry_after: float | None = None


def error_of_refusal(
    subject: Subject, refusal: Refusal, *, is_json_patch: bool = False
) -> ClusterError:
    status = find_status(refusal.body)
    if status is None:
        error = subject.fault(
            _kind("", refusal.code), _plain_message(refusal.code), code=refusal.code
        )
        error.retry_after = refusal.retry_after
        return error
    error = error_of_status(subject, status, code=refusal.code)
    if refusal.retry_after is not None:
        error.retry_after = refusal.retry_after
    if is_json_patch and _is_unappliable(status):
        message = "the patch does not apply to the object as it is now"
        return ConflictError(
            message, code=error.code, reason=error.reason, resource=error.resource, key=error.key
        )
    return error


def error_of_status(subject: Subject, status: Status, *, code: int = 0) -> ClusterError:
    """An error from a Status, which may come without an HTTP answer of its own."""
    code = code or status.code
    return _kind(status.reason, code)(
        status.message or _plain_message(code),
        code=code,
        reason=status.reason,
        resource=str(subject.resource),
        key=subject.key,
        causes=status.causes,
        retry_after=None if status.retry_after_s is None else float(status.retry_after_s),
    )


def _is_unappliable(status: Status) -> bool:
    """Whether a JSON patch could not be applied, most often because a `test` in it failed.

    The API server answers 422 Invalid and keeps the cause to itself. An object that the
    patch would make invalid gives 422 too, but that answer names the kind and the fields.
    """
    return status.code == HTTPStatus.UNPROCESSABLE_ENTITY and not status.kind and not status.causes


def _kind(reason: str, code: int) -> type[ClusterError]:
    by_code = _BY_CODE.get(code)
    if by_code is None:
        is_refusal = 300 <= code < 500
        by_code = ClusterError if is_refusal else UnavailableError
    return _BY_REASON.get(reason, by_code)


def _plain_message(code: int) -> str:
    try:
        return f"the answer was {code} {HTTPStatus(code).phrase}, without an explanation"
    except ValueError:
        return f"the answer was {code}, without an explanation"


# ------------------------------------------------------------------ no answer


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Seconds to wait according to a `Retry-After` header: a number or a date.

    >>> retry_after_seconds("5", datetime(2026, 1, 1))
    5.0
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return max((moment - now).total_seconds(), 0.0) if moment.tzinfo else None
