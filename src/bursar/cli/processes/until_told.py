"""When a process ends: when it is told to."""

import asyncio
import signal
from collections.abc import Coroutine

from bursar.app.cluster.time_limit import end


async def until_told(work: Coroutine[object, object, None]) -> None:
    """Work until SIGTERM or SIGINT, then let it end in order. What it raises is raised."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    waiting, working = asyncio.create_task(told.wait()), asyncio.create_task(work)
    try:
        await asyncio.wait((waiting, working), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        await end(waiting, working)
