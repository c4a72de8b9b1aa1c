"""JSON patches that apply only to the object, and optionally the state of it, that was read.

A patch without a fence would also change an object that was deleted and created again under
the same name. `test` operations on uid and resourceVersion make the API server answer with a
conflict instead.
"""

from collections.abc import Container, Iterable

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Json, Key, Patch, PatchKind, Resource, Writer


def fenced_patch(
    identity: Identity,
    operations: Iterable[Json],
    *,
    is_exact: bool = False,
    send_by: float | None = None,
    timeout_seconds: float | None = None,
) -> Patch:
    """A JSON patch of the object with this uid; with `is_exact`, of this resourceVersion."""
    fence = [_check("/metadata/uid", identity.uid)]
    if is_exact:
        fence.append(_check("/metadata/resourceVersion", identity.resource_version))
    return Patch(
        kind=PatchKind.JSON,
        body=[*fence, *operations],
        send_by=send_by,
        timeout_seconds=timeout_seconds,
    )


def _check(path: str, value: Json) -> Json:
    """The operation that fails the patch unless the value is stored at the path."""
    return {"op": "test", "path": path, "value": value}


def put(path: str, value: Json) -> Json:
    """The operation that adds a value, or replaces the value that is there."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Json:
    """The operation that removes a value. The patch fails if there is none."""
    return {"op": "remove", "path": path}


class StatusWrites:
    """Writes the status of cluster-wide objects, and remembers the latest one of each object.

    It is for statuses that Bursar reports and does not read back.
    """

    def __init__(self, writer: Writer, resource: Resource) -> None:
        self._writer, self._resource = writer, resource
        self._latest: dict[str, tuple[str, dict[str, Json]]] = {}

    def latest(self, name: str, uid: str) -> dict[str, Json]:
        """The status that was written last; empty if none was written to the object."""
        known_uid, status = self._latest.get(name, ("", {}))
        return status if known_uid == uid else {}

    async def write(self, name: str, uid: str, status: dict[str, Json]) -> None:
        """Replace the whole status: a merge would keep fields that it no longer has."""
        body = [_check("/metadata/uid", uid), put("/status", status)]
        patch = Patch(kind=PatchKind.JSON, body=body)
        await self._writer.patch(self._resource, Key("", name), patch, subresource="status")
        self._latest[name] = (uid, status)

    def keep_only(self, names: Container[str]) -> None:
        """Forget the objects that do not exist any more."""
        self._latest = {name: was for name, was in self._latest.items() if name in names}
