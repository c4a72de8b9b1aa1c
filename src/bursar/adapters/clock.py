"""`Clock` for the real time of the machine."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

from bursar.app.cluster.ports import Clock


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the clock of the process

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Final[Clock] = RealClock()
