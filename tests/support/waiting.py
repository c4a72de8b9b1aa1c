"""Waiting for a condition, with patience enough for a busy machine."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, Final

PATIENCE_S: Final = 120.0
STEP_S: Final = 0.02


async def until(is_so: Callable[[], Any], what: str = "") -> Any:
    """Wait until `is_so` returns something true, and return that.

    It may be a function that blocks, for it runs in a thread, or return something to await.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = await asyncio.to_thread(is_so)
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"it never happened: {what or inspect.getsource(is_so)}"
        await asyncio.sleep(STEP_S)
