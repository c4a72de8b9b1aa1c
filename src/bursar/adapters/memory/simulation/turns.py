"""Turns: a part of the simulation with much to do lets the others run in between.

A write to the embedded cluster never waits, so without turns a scheduler with thousands of pods
would keep the event loop until the last one is placed.
"""

import asyncio
from typing import Final

from bursar.app.cluster.ports import Clock

TURN_SECONDS: Final = 0.02


class Turns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    async def pause(self) -> None:
        """Let other tasks run, if the last pause was long ago."""
        if self._clock.monotonic() - self._began >= TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = self._clock.monotonic()
