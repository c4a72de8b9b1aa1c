"""Effects: what a controller decided to do, as data, and the one place where it is done.

Every change is fenced: by the uid of what is deleted, by the resource version of what
is patched. A decision that the world has overtaken changes nothing.
"""

from collections.abc import Callable
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
    """A new object. With `generateName` and no name it gets a name of its own."""

    resource: Resource
    namespace: str
    body: Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A merge patch of an object in the state it was last seen in."""

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
"""Answers to one effect that say nothing about the next one."""


def status_change(resource: Resource, target: Raw, status: Raw) -> list[Effect]:
    """The change of status that is needed, if any; fields that are not given stay."""
    current = target.get("status") or {}
    news = {name: value for name, value in status.items() if current.get(name) != value}
    if not news:
        return []
    return [Change(resource=resource, target=target, patch={"status": news}, subresource="status")]


def key_of(raw: Raw) -> Key:
    meta = raw["metadata"]
    return Key(meta.get("namespace", ""), meta["name"])


async def apply(effect: Effect, writer: Writer, suffix: Callable[[], str]) -> bytes | None:
    """Do it; the object as stored, where there is one. Raises what the cluster answers."""
    match effect:
        case Create(resource=resource, namespace=namespace, body=body):
            named = _named(body, suffix)
            return await writer.create(resource, named, namespace=namespace)
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


def _named(body: Raw, suffix: Callable[[], str]) -> Raw:
    meta = dict(body["metadata"])
    if "name" not in meta:
        meta["name"] = meta.pop("generateName") + suffix()
    return body | {"metadata": meta}
