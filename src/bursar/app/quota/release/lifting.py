"""Lift the scheduling gate of a pod: one fenced patch, retried a few times.

The patch is fenced by uid and resourceVersion, because the reservation was made for what the
pod requested in that state. A pod that has changed, or another pod under the same name, keeps
its gate.

If the answer to a patch is lost, the patch may have been applied. It is sent again unchanged.
A refusal of the second patch then only says that the pod has changed, and the watch has to
show whether the first patch changed it.

An attempt takes a bounded time. Another team's webhook that fails or hangs must not keep the
worker that another pod needs: after some errors, or one patch without an answer, the outcome is
`UNANSWERED`. The books then keep the reservation and retry the release later.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final, NamedTuple

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
    UnavailableError,
    Writer,
)
from bursar.app.cluster.time_limit import end
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.releases import ReleaseOutcome

RETRY_SECONDS: Final = 0.2
"""Pause before the first retry; it doubles with each further one."""
TRIES_MAX: Final = 4
"""Patches of one attempt."""
SEND_SECONDS: Final = 1.0
"""How long a patch with a longer timeout may wait to be sent."""


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


class _Timing(NamedTuple):
    """Time limits of one patch, in seconds from the decision to send it."""

    seconds: float
    """When this process no longer waits for the answer."""
    send_seconds: float
    """When it is too late to send it."""
    timeout_seconds: float | None
    """Timeout for the server, from sending. None: that of the client."""


def _timing(write_seconds: float, remaining: float, *, is_patient: bool) -> _Timing:
    """Time limits by which the patch ends before another leader can start.

    Another leader can start `write_seconds` after this process stops leading. While the Lease is
    fresh, a patch may take longer. Then it can outlast another team's webhook that hangs.
    The server counts from sending, so such a patch has to be sent early.
    """
    patient = remaining + write_seconds - SEND_SECONDS
    if is_patient and patient > write_seconds:
        return _Timing(remaining + write_seconds, SEND_SECONDS, patient)
    return _Timing(write_seconds, min(write_seconds, remaining), None)


@dataclass(slots=True)
class _InFlight:
    """A patch that was sent."""

    writing: asyncio.Future[None] | None
    """The task that sends the patch; None when it is answered: a failed task would keep its error
    and everything that was sent in memory."""


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
        remaining_seconds: Callable[[], float],
    ) -> None:
        """`write_seconds` is how long a patch may last after `may_write` became false.

        `remaining_seconds` is for how long `may_write` is known to stay true.
        """
        self._writer, self._clock, self._random = writer, clock, random
        self._may_write = may_write
        self._write_seconds = write_seconds
        self._remaining_seconds = remaining_seconds
        self._deadlines: list[tuple[float, int, _InFlight]] = []
        """A heap, by time. An entry stays until its deadline."""
        self._overdue_task: asyncio.Future[None] | None = None
        self.counters: Final = LiftCounters()

    async def lift(self, row: PodRow, *, is_patient: bool = False) -> LiftResult | None:
        """Lift the gate of the pod in this state; None if `may_write` became false.

        With `is_patient`, one patch is sent that may take as long as this process is sure to lead.
        """
        pause = RETRY_SECONDS
        is_uncertain = False
        tries_left = 1 if is_patient else TRIES_MAX
        while self._may_write():
            self.counters.writes += 1
            tries_left -= 1
            try:
                await self._write(row, is_patient=is_patient)
            except ClusterError as error:
                outcome = _outcome_of(error, is_uncertain=is_uncertain)
                if outcome is not None:
                    return self._ended(outcome, error.message)
                is_uncertain = is_uncertain or not isinstance(error, BusyError)
                wait = error.retry_after or 0.0
                if not tries_left or wait > self._write_seconds:
                    return self._ended(ReleaseOutcome.UNANSWERED, error.message)
            except TimeoutError:
                return self._unanswered()
            else:
                return self._ended(ReleaseOutcome.LIFTED)
            self.counters.retries += 1
            # Jitter, so that patches that failed together are not retried together.
            await self._clock.sleep(max(wait, pause * (0.5 + self._random.random())))
            pause *= 2
        return None

    def _unanswered(self) -> LiftResult | None:
        """The result of a patch that exceeded its time limit, or was not sent at all."""
        if not self._may_write():
            return None
        message = "the API server, or a webhook that it calls, did not answer in time"
        return self._ended(ReleaseOutcome.UNANSWERED, message)

    async def close(self) -> None:
        """Stop the task that ends overdue patches. Call only after all workers have stopped."""
        if self._overdue_task is not None:
            await end(self._overdue_task)

    async def _write(self, row: PodRow, *, is_patient: bool) -> None:
        """Send one patch. If the caller is cancelled, wait for it: it cannot be taken back."""
        # The deadline is taken before `may_write` is asked, because the process may be stopped
        # between the two.
        asked_at, remaining = self._clock.monotonic(), self._remaining_seconds()
        timing = _timing(self._write_seconds, remaining, is_patient=is_patient)
        writing = asyncio.ensure_future(self._send(row, asked_at, timing))
        in_flight = _InFlight(writing)
        deadline = asked_at + timing.seconds
        heappush(self._deadlines, (deadline, self.counters.writes, in_flight))
        if self._overdue_task is None:
            self._overdue_task = asyncio.ensure_future(self._end_overdue())
        try:
            await asyncio.wait((writing,))
        except asyncio.CancelledError:
            await asyncio.wait((writing,))
            if not writing.cancelled():
                writing.exception()  # Else asyncio logs that the exception was never retrieved.
            raise
        finally:
            in_flight.writing = None
        try:
            if writing.cancelled():
                raise TimeoutError
            writing.result()
        finally:
            # The error of a failed task holds this frame, which would hold the task: a cycle.
            del writing

    async def _send(self, row: PodRow, asked_at: float, timing: _Timing) -> None:
        if not self._may_write():
            raise TimeoutError
        identity, operations = identify_pod(row), [remove("/spec/schedulingGates")]
        patch = fenced_patch(
            identity,
            operations,
            is_exact=True,
            send_by=asked_at + timing.send_seconds,
            timeout_seconds=timing.timeout_seconds,
        )
        body = await self._writer.patch(PODS, identity.key, patch)
        if row.stamp.uid.encode() not in body:
            # A proxy in between may answer with any JSON.
            raise UnavailableError("the answer to the patch is not the pod")

    async def _end_overdue(self) -> None:
        """Cancel patches that exceed their time limit. One task does it for all patches."""
        try:
            while self._deadlines:
                deadline, _, in_flight = self._deadlines[0]
                rest = deadline - self._clock.monotonic()
                if in_flight.writing is None:
                    heappop(self._deadlines)
                elif rest > 0:
                    # A patch that is sent meanwhile may have an earlier deadline.
                    await self._clock.sleep(min(rest, self._write_seconds))
                else:
                    heappop(self._deadlines)
                    in_flight.writing.cancel()
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
