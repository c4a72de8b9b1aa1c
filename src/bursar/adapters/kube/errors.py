"""Translation of every failed request into one of the typed errors of the ports.

A load balancer, a proxy or a webhook can answer in place of the API server. The status code alone
is therefore not believed: that an object does not exist, has changed or may not be written is true
only if a Kubernetes `Status` says so, with the same code. Without one the request is unanswered,
and only its status code is shown, because a page of a proxy may hold anything.
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

UNKNOWN_RESOURCE: Final = "the server could not find the requested resource"
"""The API server's message for a resource or subresource that it does not have."""

_BELIEVED: Final = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Codes that the API server sends without a `Status`, too. They say nothing about an object."""

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
    subject: Subject,
    code: int,
    body: bytes,
    *,
    retry_after: float | None,
    is_json_patch: bool,
    is_audited: bool = False,
) -> ClusterError:
    """The error for a response that is not a success.

    `is_audited`: the response has an `Audit-Id` header, which every API server adds.
    """
    status = find_status(body)
    if status is None or status.code != code:
        error = _error_without_status(subject, code, is_audited=is_audited)
        error.retry_after = retry_after
        return error
    error = error_of_status(subject, status)
    if retry_after is not None:
        error.retry_after = retry_after
    if is_json_patch and _is_unappliable(status):
        message = "the patch does not apply to the object as it is now"
        return ConflictError(
            message, code=error.code, reason=error.reason, resource=error.resource, key=error.key
        )
    return error


def _error_without_status(subject: Subject, code: int, *, is_audited: bool) -> ClusterError:
    kind = _kind("", code)
    # For a path of an unknown group or resource, the API server answers with a line of text.
    is_unknown_path = code == HTTPStatus.NOT_FOUND and is_audited
    if code in _BY_CODE and code not in _BELIEVED and not is_unknown_path:
        kind = UnavailableError
    return subject.fault(kind, _default_message(code), code=code)


def error_of_status(subject: Subject, status: Status) -> ClusterError:
    """The error for a `Status`, which in a watch comes without an HTTP response of its own."""
    kind = _kind(status.reason, status.code)
    if kind is NotFoundError and not _is_about(subject, status):
        kind = UnavailableError
    return kind(
        status.message or _default_message(status.code),
        code=status.code,
        reason=status.reason,
        resource=str(subject.resource),
        key=subject.key,
        causes=status.causes,
        retry_after=None if status.retry_after_s is None else float(status.retry_after_s),
    )


def _is_about(subject: Subject, status: Status) -> bool:
    """Whether a `NotFound` is about the object of the request, its namespace or its resource.

    The `Status` of a webhook that denied the request may be about anything. Its message begins
    with the name of the webhook.
    """
    if status.reason != "NotFound":
        return False
    key = subject.key
    if key is None or status.message == UNKNOWN_RESOURCE:
        return True
    plural = _OWNERS.get(subject.resource.plural, subject.resource.plural)
    about = (status.kind, status.name)
    return about in ((plural, key.name), ("namespaces", key.namespace))


_OWNERS: Final = {"bindings": "pods"}
"""Resources whose objects are written into an object of another resource, of the same name."""


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
