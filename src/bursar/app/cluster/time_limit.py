"""A limit on how long to wait for an answer, measured by the Clock port like all other time."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from bursar.app.cluster.ports import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, work: Coroutine[object, object, T]) -> T:
    """What `work` returns or raises; `TimeoutError` if it does neither in time.

    Work that is late or whose caller is cancelled has ended, too, when this returns. A
    request that was cancelled may still have been carried out by the server.
    """
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        await end(task, alarm)


async def end(*tasks: asyncio.Future[T] | asyncio.Future[None]) -> None:
    """Cancel what still runs and wait until it has ended, whichever way."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
