"""Effects: the decisions of a controller as data, and the function that applies them.

A deletion has the uid as precondition, a patch the resourceVersion. A decision that was made on a
stale object changes nothing.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Preconditions,
    Resource,
    Writer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    resource: Resource
    namespace: str
    body: Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A merge patch of an object, valid for the resourceVersion of `target`."""

    resource: Resource
    target: Raw
    patch: Raw
    subresource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    resource: Resource
    target: Raw
    grace_seconds: int | None = None


Effect: TypeAlias = Create | Change | Delete

OVERTAKEN: Final = (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
"""Errors of one effect that do not prevent the next one."""


def status_change(resource: Resource, target: Raw, status: Raw) -> list[Effect]:
    """The patch of a status, or no effect if it is the same. Fields that are not given stay."""
    current = target.get("status") or {}
    news = {name: value for name, value in status.items() if current.get(name) != value}
    if not news:
        return []
    return [Change(resource=resource, target=target, patch={"status": news}, subresource="status")]


def key_of(raw: Raw) -> Key:
    meta = raw["metadata"]
    return Key(meta.get("namespace", ""), meta["name"])


async def apply(effect: Effect, writer: Writer) -> bytes | None:
    """Apply an effect and return the stored object, if there is one. Raises `ClusterError`."""
    match effect:
        case Create(resource=resource, namespace=namespace, body=body):
            return await writer.create(resource, body, namespace=namespace)
        case Change(resource=resource, target=target, patch=patch):
            meta = target["metadata"]
            fence = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
            return await writer.patch(
                resource,
                key_of(target),
                Patch(kind=PatchKind.MERGE, body={"metadata": fence} | patch),
                subresource=effect.subresource,
            )
        case Delete(resource=resource, target=target, grace_seconds=grace):
            await writer.delete(
                resource,
                key_of(target),
                preconditions=Preconditions(uid=target["metadata"]["uid"]),
                grace_seconds=grace,
            )
            return None
