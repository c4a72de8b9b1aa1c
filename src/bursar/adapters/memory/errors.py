"""Errors of the embedded cluster, with the code, reason and text of the API server."""

from collections.abc import Iterable, Sequence
from typing import Final

from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Resource,
    UnavailableError,
)
from bursar.core.model.problem import Problem, quoted, render_invalid
from bursar.wire.cluster.status import MESSAGE_LENGTH_MAX
from bursar.wire.structs.fields import printable

_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_PAGE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_FORBIDDEN: Final = 403


def group_kind(resource: Resource) -> str:
    """A kind as the API server's messages name it: `Pod`, `Deployment.apps`."""
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _on_one_line(text: str) -> str:
    """The text as `adapters/kube` passes on messages of a real API server."""
    return printable(text, MESSAGE_LENGTH_MAX)


def unknown_kind(resource: Resource) -> NotFoundError:
    message = "the server could not find the requested resource"
    return NotFoundError(message, code=404, reason="NotFound", resource=str(resource))


def not_found(resource: Resource, key: Key) -> NotFoundError:
    message = f"{resource} {quoted(key.name)} not found"
    return NotFoundError(message, code=404, reason="NotFound", resource=str(resource), key=key)


def namespace_not_found(resource: Resource, key: Key) -> NotFoundError:
    message = f"namespaces {quoted(key.namespace)} not found"
    return NotFoundError(message, code=404, reason="NotFound", resource=str(resource), key=key)


def already_exists(
    resource: Resource, key: Key, *, is_being_deleted: bool = False
) -> AlreadyExistsError:
    message = f"{resource} {quoted(key.name)} already exists"
    if is_being_deleted:
        message = f"object is being deleted: {message}"
    return AlreadyExistsError(
        message, code=409, reason="AlreadyExists", resource=str(resource), key=key
    )


def conflict(subject: str, resource: Resource, key: Key, detail: str = _MODIFIED) -> ConflictError:
    message = f"Operation cannot be fulfilled on {subject} {quoted(key.name)}: {detail}"
    return ConflictError(message, code=409, reason="Conflict", resource=str(resource), key=key)


def apply_conflict(
    resource: Resource, key: Key, conflicts: Sequence[tuple[str, str]]
) -> ConflictError:
    """The error for fields of other managers, given as sorted pairs of manager and path."""
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        text = f"1 conflict: conflict with {manager}: {path}"
    else:
        lines = []
        for manager in dict.fromkeys(manager for manager, _ in conflicts):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for holder, path in conflicts if holder == manager]
        text = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return ConflictError(
        _on_one_line(f"Apply failed with {text}"),
        code=409,
        reason="Conflict",
        resource=str(resource),
        key=key,
        causes=tuple(f"{path}: conflict with {manager}" for manager, path in conflicts),
    )


def invalid(resource: Resource, key: Key, problems: Iterable[Problem]) -> InvalidError:
    found = tuple(problems)
    return InvalidError(
        _on_one_line(render_invalid(group_kind(resource), key.name, found)),
        code=422,
        reason="Invalid",
        resource=str(resource),
        key=key,
        causes=tuple(_on_one_line(str(problem)) for problem in found),
    )


def invalid_text(
    resource: Resource, key: Key, message: str, causes: Sequence[str] = ()
) -> InvalidError:
    return InvalidError(
        message, code=422, reason="Invalid", resource=str(resource), key=key, causes=causes
    )


def patch_rejected(resource: Resource, key: Key) -> ConflictError:
    """The error for a JSON patch that does not apply, such as one with a failed `test`.

    The API server answers 422 without a cause. Both implementations raise `ConflictError`.
    """
    message = "the patch does not apply to the object as it is now"
    return ConflictError(message, code=422, reason="Invalid", resource=str(resource), key=key)


def bad_request(resource: Resource, key: Key | None, message: str) -> InvalidError:
    message = _on_one_line(message)
    return InvalidError(message, code=400, reason="BadRequest", resource=str(resource), key=key)


def undecodable(resource: Resource, key: Key | None, detail: str) -> InvalidError:
    kind, version = resource.kind, resource.api_version
    return bad_request(
        resource,
        key,
        f"{kind} in version {quoted(version)} cannot be handled as a {kind}: {detail}",
    )


def server_fault(resource: Resource, key: Key | None, message: str) -> UnavailableError:
    return UnavailableError(message, code=500, resource=str(resource), key=key)


def forbidden(resource: Resource, key: Key, detail: str) -> ForbiddenError:
    message = f"{resource} {quoted(key.name)} is forbidden: {detail}"
    return ForbiddenError(
        message, code=_FORBIDDEN, reason="Forbidden", resource=str(resource), key=key
    )


def page_expired(resource: Resource) -> ExpiredError:
    return ExpiredError(_PAGE_EXPIRED, code=410, reason="Expired", resource=str(resource))


def resource_version_expired(resource: Resource, revision: int, oldest: int) -> ExpiredError:
    return ExpiredError(
        f"too old resource version: {revision} ({oldest})",
        code=410,
        reason="Expired",
        resource=str(resource),
    )
