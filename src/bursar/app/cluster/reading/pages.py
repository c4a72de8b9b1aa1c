"""The pages of a list, each of a bounded size in memory.

Tenants decide how large objects are: five hundred pods can take half a gigabyte. The size of the
page before tells how many objects to ask for, and a page that is too large is asked for again with
fewer objects.
"""

from typing import Final

from bursar.app.cluster.ports import Page, Query, Reader, Resource, TooLargeError

PAGE_BYTES: Final = 16 << 20
"""Objects are asked for so that a page has about this many bytes at most."""
FEWER: Final = 8
"""A page that was too large is asked for again with this part of its objects."""


class Pages:
    """One list. The resourceVersion is that of any page."""

    def __init__(self, reader: Reader, resource: Resource, query: Query, limit_max: int) -> None:
        """`limit_max` is the number of objects of a page if they are small."""
        self._reader, self._resource, self._query = reader, resource, query
        self._limit = self._limit_max = limit_max
        self._token: str | None = ""

    async def next(self) -> Page | None:
        """The next page; None after the last. Raises `ExpiredError` as `Reader.list` does."""
        if self._token is None:
            return None
        while True:
            try:
                page = await self._reader.list(
                    self._resource, self._query, limit=self._limit, page=self._token
                )
            except TooLargeError:
                if self._limit == 1:
                    raise
                self._limit = max(1, self._limit // FEWER)
            else:
                break
        self._token = page.next_page or None
        average = sum(map(len, page.items)) // (len(page.items) or 1)
        self._limit = min(self._limit_max, PAGE_BYTES // (average or 1) or 1)
        return page
