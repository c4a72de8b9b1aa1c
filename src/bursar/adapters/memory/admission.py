"""Admission plugins of the embedded cluster: functions that see every write before it is stored.

Mutating plugins run first, in the order in which they were given. Validating plugins then see
the result. The first refusal ends the write. If the object changes meanwhile, all plugins run
again, so a plugin must be able to run twice.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
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
    """A write before admission. A plugin must not change the objects in place."""

    operation: Operation
    resource: Resource
    subresource: str
    key: Key
    old: JsonObject | None
    new: JsonObject | None
    """None when the object is deleted. During creation, mutating plugins see it without a uid."""
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    body: JsonObject | None = None
    """The changed object of a mutating plugin; None if it changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    message: str
    code: int = _FORBIDDEN
    reason: str = "Forbidden"


Admission: TypeAlias = Callable[[Request], Awaitable[Admitted | Refused]]


async def admitted(chain: tuple[Admission, ...], request: Request) -> Request:
    """The request after all plugins. Raises `ClusterError` for the first refusal."""
    for admission in chain:
        answer = await admission(request)
        if isinstance(answer, Refused):
            raise _refusal(request, answer)
        if answer.body is not None:
            request = replace(request, new=answer.body)
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
