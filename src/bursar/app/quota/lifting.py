"""Lift the scheduling gate of a pod: one fenced patch, retried until the answer is definite.

The patch is fenced by uid and resourceVersion, because the reservation was made for what the
pod requested in that state. A pod that has changed, or another pod under the same name, keeps
its gate.

If the answer to a patch is lost, the patch may have been applied. It is sent again unchanged.
A refusal of the second patch then only says that the pod has changed, and the watch has to
show whether the first patch changed it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.patches import fenced_patch, remove
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    Writer,
)
from bursar.app.cluster.time_limit import end
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.releases import ReleaseOutcome

RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class LiftResult:
    """How the attempt to lift a gate ended."""

    outcome: ReleaseOutcome
    detail: str = ""
    """The API server's message, if it refused."""


@dataclass(slots=True)
class LiftCounters:
    """Totals since the lifter was made."""

    writes: int = 0
    """Patches sent, retries included."""
    retries: int = 0
    outcomes: dict[ReleaseOutcome, int] = field(
        default_factory=lambda: dict.fromkeys(ReleaseOutcome, 0)
    )
    """Attempts that ended with a definite answer, by that answer."""


class GateLifter:
    """Lifts gates while `may_write` returns true."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        *,
        random: Random,
        may_write: Callable[[], bool],
        write_seconds: float,
    ) -> None:
        self._writer, self._clock, self._random = writer, clock, random
        self._may_write = may_write
        self._write_seconds = write_seconds
        self._deadlines: deque[tuple[float, asyncio.Future[bytes]]] = deque()
        """In order of time, because every patch has the same time limit."""
        self._overdue_task: asyncio.Future[None] | None = None
        self.counters: Final = LiftCounters()

    async def lift(self, row: PodRow) -> LiftResult | None:
        """Lift the gate of the pod in this state; None if `may_write` became false."""
        pause = RETRY_SECONDS
        is_uncertain = False
        while self._may_write():
            self.counters.writes += 1
            try:
                await self._write(row)
            except ClusterError as error:
                outcome = _outcome_of(error, is_uncertain=is_uncertain)
                if outcome is not None:
                    return self._ended(outcome, error.message)
                is_uncertain = is_uncertain or not isinstance(error, BusyError)
                wait = error.retry_after or 0.0
            except TimeoutError:
                is_uncertain, wait = True, 0.0
            else:
                return self._ended(ReleaseOutcome.LIFTED)
            self.counters.retries += 1
            # Jitter, so that patches that failed together are not retried together.
            await self._clock.sleep(max(wait, pause * (0.5 + self._random.random())))
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        return None

    async def close(self) -> None:
        """Stop the task that ends overdue patches. Call only after all workers have stopped."""
        if self._overdue_task is not None:
            await end(self._overdue_task)

    async def _write(self, row: PodRow) -> None:
        """Send one patch. If the caller is cancelled, wait for it: it cannot be taken back."""
        writing = asyncio.ensure_future(self._send(row))
        self._deadlines.append((self._clock.monotonic() + self._write_seconds, writing))
        if self._overdue_task is None:
            self._overdue_task = asyncio.ensure_future(self._end_overdue())
        try:
            await asyncio.wait((writing,))
        except asyncio.CancelledError:
            await asyncio.wait((writing,))
            if not writing.cancelled():
                writing.exception()  # Else asyncio logs that the exception was never retrieved.
            raise
        if writing.cancelled():
            raise TimeoutError
        writing.result()

    async def _send(self, row: PodRow) -> bytes:
        # The deadline is taken before `may_write` is asked, because the process may be stopped
        # between the two.
        send_by = self._clock.monotonic() + self._write_seconds
        if not self._may_write():
            raise TimeoutError
        identity, operations = identify_pod(row), [remove("/spec/schedulingGates")]
        patch = fenced_patch(identity, operations, is_exact=True, send_by=send_by)
        return await self._writer.patch(PODS, identity.key, patch)

    async def _end_overdue(self) -> None:
        """Cancel patches that exceed their time limit. One task does it for all patches."""
        try:
            while self._deadlines:
                deadline, writing = self._deadlines.popleft()
                if not writing.done():
                    await self._clock.sleep(max(0.0, deadline - self._clock.monotonic()))
                    writing.cancel()
        finally:
            self._overdue_task = None

    def _ended(self, outcome: ReleaseOutcome, detail: str = "") -> LiftResult:
        self.counters.outcomes[outcome] += 1
        return LiftResult(outcome, detail)


def _outcome_of(error: ClusterError, *, is_uncertain: bool) -> ReleaseOutcome | None:
    """What an error says about the pod; None if the patch has to be retried."""
    match error:
        case NotFoundError():
            return ReleaseOutcome.GONE
        case ConflictError():
            return ReleaseOutcome.CHANGED
        case ForbiddenError() | InvalidError():
            return ReleaseOutcome.CHANGED if is_uncertain else ReleaseOutcome.REFUSED
        case _:
            return None
