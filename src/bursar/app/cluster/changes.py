"""Do work again whenever objects of a cluster change, without keeping the objects.

For commands with `-w` that read a large cluster in a lean form of their own. The watches only say
that something changed; the work then reads again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final

from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    EventKind,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    Query,
)
from bursar.app.cluster.reading.collection import (
    COALESCE_SECONDS,
    PAUSE_SECONDS,
    Followed,
)
from bursar.app.cluster.reading.wanted import Wanted

REST_FACTOR: Final = 4
"""After work, the cluster is left alone for this many times as long as the work took."""


async def repeat_on_changes(
    cluster: Followed, watched: Sequence[Wanted], work: Callable[[], Awaitable[None]], clock: Clock
) -> None:
    """Do the work, and again after each burst of changes, for ever. Raises `ClusterError`.

    Kinds that do not exist or may not be listed are not watched.
    """
    changed = asyncio.Event()
    versions: dict[Wanted, str] = {}
    for each in watched:
        with suppress(ForbiddenError, NotFoundError):
            versions[each] = await _version(cluster, each)
    async with asyncio.TaskGroup() as group:
        for each, version in versions.items():
            group.create_task(_watch(cluster, each, version, changed))
        while True:
            began = clock.monotonic()
            await work()
            rest = (clock.monotonic() - began) * REST_FACTOR
            await changed.wait()
            await clock.sleep(max(COALESCE_SECONDS, rest))
            changed.clear()


async def _version(cluster: Followed, wanted: Wanted) -> str:
    page = await cluster.list(wanted.resource, Query(namespace=wanted.namespace), limit=1)
    return page.resource_version


async def _watch(cluster: Followed, wanted: Wanted, version: str, changed: asyncio.Event) -> None:
    query = Query(namespace=wanted.namespace)
    while True:
        try:
            stream = cluster.watch(wanted.resource, query, resource_version=version)
            async with aclosing(stream) as events:  # type: ignore[type-var] # it is a generator
                async for event in events:
                    version = event.resource_version
                    if event.kind is not EventKind.BOOKMARK:
                        changed.set()
        except ExpiredError:
            # Changes were missed, so there is something to read.
            with suppress(ClusterError):
                version = await _version(cluster, wanted)
                changed.set()
        except ClusterError:
            # The server may be back in a moment; until then the last state is shown.
            pass
        await asyncio.sleep(PAUSE_SECONDS)
