"""Admission: functions of ours that see every write before it is stored.

First all that may change the object, in the order they were given; then, on the
result, all that may only refuse. The first refusal ends it. They are called again
if the object changed in the meantime, so they must be able to run twice.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.ports import ClusterError, ForbiddenError, InvalidError, Key, Resource

_FORBIDDEN = 403
_INVALID = 422


class Operation(Enum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A write that wants to be admitted. The objects are not to be changed in place."""

    operation: Operation
    resource: Resource
    subresource: str
    key: Key
    old: JsonObject | None
    new: JsonObject | None
    """None when the object is deleted. Without a uid while it is created and may be changed."""
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    body: JsonObject | None = None
    """The object to store instead, from those who may change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    message: str
    code: int = _FORBIDDEN
    reason: str = "Forbidden"


Admission: TypeAlias = Callable[[Request], Awaitable[Admitted | Refused]]


async def asked(chain: tuple[Admission, ...], request: Request) -> Request:
    """Ask everybody; the request as it is after them. Raises for the first refusal."""
    for admission in chain:
        verdict = await admission(request)
        if isinstance(verdict, Refused):
            raise _refusal(request, verdict)
        if verdict.body is not None:
            request = Request(
                operation=request.operation,
                resource=request.resource,
                subresource=request.subresource,
                key=request.key,
                old=request.old,
                new=verdict.body,
                is_dry_run=request.is_dry_run,
            )
    return request


def _refusal(request: Request, refused: Refused) -> ClusterError:
    errors = {_FORBIDDEN: ForbiddenError, _INVALID: InvalidError}
    return errors.get(refused.code, ClusterError)(
        refused.message,
        code=refused.code,
        reason=refused.reason,
        resource=str(request.resource),
        key=request.key,
    )
