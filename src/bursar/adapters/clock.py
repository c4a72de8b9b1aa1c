"""`Clock` for the real time of the machine."""

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
        import asyncio  # noqa: PLC0415 - commands that read files do not wait

        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Final[Clock] = RealClock()
