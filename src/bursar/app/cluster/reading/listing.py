"""List all objects of a kind once, in pages, for commands that do not watch the cluster."""

from collections.abc import Callable
from typing import Final, TypeVar

from bursar.app.cluster.ports import ExpiredError, Key, Query, Reader, Resource
from bursar.app.cluster.reading.pages import Pages
from bursar.wire.cluster.object_identity import find_identity

PAGE_SIZE: Final = 500
ATTEMPTS_MAX: Final = 3
"""How often a list is begun again whose resourceVersion expired between two pages."""

T = TypeVar("T")


async def list_all(
    reader: Reader,
    resource: Resource,
    query: Query,
    decode: Callable[[bytes], T],
    *,
    problems: list[str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[T]:
    """All objects as of one resourceVersion.

    If `decode` raises `ValueError`, the object is left out and a line is added to `problems`;
    without `problems` the error is raised. `progress` is called after each page with the
    number of objects read so far.
    """
    found, _ = await list_with_version(
        reader, resource, query, decode, problems=problems, progress=progress
    )
    return found


async def list_with_version(
    reader: Reader,
    resource: Resource,
    query: Query,
    decode: Callable[[bytes], T],
    *,
    problems: list[str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[T], str]:
    """The same, with the resourceVersion from which the objects can be watched."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await _all_pages(reader, resource, query, decode, problems, progress)
        except ExpiredError:
            # Reading took longer than the server keeps the resourceVersion of the first page.
            continue
    return await _all_pages(reader, resource, query, decode, problems, progress)


async def _all_pages(
    reader: Reader,
    resource: Resource,
    query: Query,
    decode: Callable[[bytes], T],
    problems: list[str] | None,
    progress: Callable[[int], None],
) -> tuple[list[T], str]:
    found: list[T] = []
    left_out: list[str] = []
    pages, resource_version = Pages(reader, resource, query, PAGE_SIZE), ""
    while (answer := await pages.next()) is not None:
        resource_version = answer.resource_version
        for body in answer.items:
            try:
                found.append(decode(body))
            except ValueError as error:
                if problems is None:
                    raise
                left_out.append(f"left out: {resource} {name_of(body)}: {error}")
        progress(len(found))
    if problems is not None:
        problems.extend(left_out)
    return found, resource_version


def name_of(body: bytes) -> str:
    """Namespace and name of an object, for a message about it."""
    found = find_identity(body)
    return "(without a name)" if found is None else str(Key(found.namespace, found.name))
