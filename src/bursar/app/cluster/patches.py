"""JSON patches that apply only to the object, and optionally the state of it, that was read.

A patch without a fence would also change an object that was deleted and created again under
the same name. `test` operations on uid and resourceVersion make the API server answer with a
conflict instead.
"""

from collections.abc import Iterable

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Json, Patch, PatchKind


def fenced_patch(
    identity: Identity,
    operations: Iterable[Json],
    *,
    is_exact: bool = False,
    send_by: float | None = None,
    timeout_seconds: float | None = None,
) -> Patch:
    """A JSON patch of the object with this uid; with `is_exact`, of this resourceVersion."""
    fence = [check("/metadata/uid", identity.uid)]
    if is_exact:
        fence.append(check("/metadata/resourceVersion", identity.resource_version))
    return Patch(
        kind=PatchKind.JSON,
        body=[*fence, *operations],
        send_by=send_by,
        timeout_seconds=timeout_seconds,
    )


def check(path: str, value: Json) -> Json:
    """The operation that fails the patch unless the value is stored at the path."""
    return {"op": "test", "path": path, "value": value}


def put(path: str, value: Json) -> Json:
    """The operation that adds a value, or replaces the value that is there."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Json:
    """The operation that removes a value. The patch fails if there is none."""
    return {"op": "remove", "path": path}


def pointer(parent: str, key: str) -> str:
    """The JSON pointer to a member of the object at `parent`.

    >>> pointer("/status/capacity", "kata.peerpods.io/vm")
    '/status/capacity/kata.peerpods.io~1vm'
    """
    return f"{parent}/{key.replace('~', '~0').replace('/', '~1')}"
