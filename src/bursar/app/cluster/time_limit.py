"""Timeouts that are measured by the `Clock` port, so that they work in virtual time."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

from bursar.app.cluster.ports import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, work: Coroutine[object, object, T]) -> T:
    """The result of `work`. Raises `TimeoutError` if it takes longer than `seconds`.

    After a timeout or a cancellation, `work` is cancelled and has ended when this returns. The
    server may still have executed a request that was cancelled.
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


async def wait_at_most(clock: Clock, seconds: float | None, event: asyncio.Event) -> None:
    """Wait until the event is set or `seconds` have passed; None waits for the event alone."""
    if seconds is None:
        await event.wait()
    else:
        with suppress(TimeoutError):
            await within(clock, seconds, event.wait())


async def end(*tasks: asyncio.Future[T] | asyncio.Future[None]) -> None:
    """Cancel the tasks and wait until all of them have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
