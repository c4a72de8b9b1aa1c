"""Translation of every failed request into one of the typed errors of the ports.

The message of a Kubernetes `Status` is passed on. Any other body, such as a proxy's error page,
may hold anything, so only its status code is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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

HTTP_DATE: Final = "%a, %d %b %Y %H:%M:%S GMT"
"""The form that RFC 9110 demands of every sender."""

_BY_REASON: Final[Mapping[str, type[ClusterError]]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": ExpiredError,
    "Gone": ExpiredError,
}
"""Reasons that are more specific than their code, or that may come without a code."""

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
    """The resource and object of a request, for its errors."""

    resource: Resource
    key: Key | None = None

    def fault(self, kind: type[ClusterError], message: str, *, code: int = 0) -> ClusterError:
        return kind(message, code=code, resource=str(self.resource), key=self.key)

    def unavailable(self, message: str) -> ClusterError:
        return self.fault(UnavailableError, message)


def error_of_response(
    subject: Subject, code: int, body: bytes, *, retry_after: float | None, is_json_patch: bool
) -> ClusterError:
    """The error for a response that is not a success."""
    status = find_status(body)
    if status is None:
        error = subject.fault(_kind("", code), _default_message(code), code=code)
        error.retry_after = retry_after
        return error
    error = error_of_status(subject, status, code=code)
    if retry_after is not None:
        error.retry_after = retry_after
    if is_json_patch and _is_unappliable(status):
        message = "the patch does not apply to the object as it is now"
        return ConflictError(
            message, code=error.code, reason=error.reason, resource=error.resource, key=error.key
        )
    return error


def error_of_status(subject: Subject, status: Status, *, code: int = 0) -> ClusterError:
    """The error for a `Status`, which in a watch comes without an HTTP response of its own."""
    code = code or status.code
    return _kind(status.reason, code)(
        status.message or _default_message(code),
        code=code,
        reason=status.reason,
        resource=str(subject.resource),
        key=subject.key,
        causes=status.causes,
        retry_after=None if status.retry_after_s is None else float(status.retry_after_s),
    )


def _is_unappliable(status: Status) -> bool:
    """Whether a JSON patch could not be applied, most often because its `test` failed.

    The API server then answers 422 Invalid without a cause. A patch that would make the object
    invalid is also answered with 422, but that response names the kind and the fields.
    """
    return status.code == HTTPStatus.UNPROCESSABLE_ENTITY and not status.kind and not status.causes


def _kind(reason: str, code: int) -> type[ClusterError]:
    by_code = _BY_CODE.get(code)
    if by_code is None:
        is_refusal = 300 <= code < 500
        by_code = ClusterError if is_refusal else UnavailableError
    return _BY_REASON.get(reason, by_code)


def _default_message(code: int) -> str:
    try:
        return f"the answer was {code} {HTTPStatus(code).phrase}, without an explanation"
    except ValueError:
        return f"the answer was {code}, without an explanation"


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Seconds to wait according to a `Retry-After` header, which is a number or a date.

    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> retry_after_seconds("5", now)
    5.0
    >>> retry_after_seconds("Thu, 01 Jan 2026 00:01:30 GMT", now)
    90.0
    >>> retry_after_seconds("in a while", now)
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        time = datetime.strptime(header.strip(), HTTP_DATE).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return max((time - now).total_seconds(), 0.0)
