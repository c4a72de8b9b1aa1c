"""All objects of a kind, read once: for views and for work that does not follow a cluster."""

from collections.abc import Callable
from typing import Final, TypeVar

from bursar.adapters.identity import locate
from bursar.app.cluster.ports import ExpiredError, Query, Reader, Resource

PAGE_SIZE: Final = 500
ATTEMPTS_MAX: Final = 3

T = TypeVar("T")


async def read_all(
    reader: Reader,
    resource: Resource,
    query: Query,
    decode: Callable[[bytes], T],
    *,
    problems: list[str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[T]:
    """All pages, as of one moment.

    What `decode` refuses with `ValueError` is left out and told in `problems`; without such a
    list the error is raised. `progress` is told after each page how many there are by now.
    """
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await _all_pages(reader, resource, query, decode, problems, progress)
        except ExpiredError:
            # It took longer than the server remembers the moment of the first page.
            continue
    return await _all_pages(reader, resource, query, decode, problems, progress)


async def _all_pages(
    reader: Reader,
    resource: Resource,
    query: Query,
    decode: Callable[[bytes], T],
    problems: list[str] | None,
    progress: Callable[[int], None],
) -> list[T]:
    found: list[T] = []
    left_out: list[str] = []
    page = ""
    while True:
        answer = await reader.list(resource, query, limit=PAGE_SIZE, page=page)
        for body in answer.items:
            try:
                found.append(decode(body))
            except ValueError as error:
                if problems is None:
                    raise
                left_out.append(f"left out: {resource} {_name(body)}: {error}")
        progress(len(found))
        page = answer.next_page
        if not page:
            if problems is not None:
                problems.extend(left_out)
            return found


def _name(body: bytes) -> str:
    identity = locate(body)
    return "(without a name)" if identity is None else str(identity.key)
