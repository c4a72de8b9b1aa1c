"""Lifting the gate of a pod: one fenced write, asked again until there is a plain answer.

The write says which pod it means, by uid, and in which state, by resourceVersion: what
was reserved for it is what it asks for. A pod that has changed, or another one under the
same name, keeps its gate.

A write whose answer was lost may have been carried out. It is sent again, unchanged; but
from then on a "no" only says that the pod is not what it was, and the watch has to show
whether that was our doing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Writer,
)
from bursar.app.cluster.time_limit import end
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import Answer

RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Lifted:
    """How a try to lift a gate ended."""

    answer: Answer
    detail: str = ""


@dataclass(slots=True)
class LiftCounters:
    """How often what happened; only ever growing."""

    writes: int = 0
    retries: int = 0
    lifted: int = 0
    changed: int = 0
    gone: int = 0
    refused: int = 0


class GateLifter:
    """Lifts gates, as long as we may."""

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
        """In order, since every write has the same time."""
        self._watch: asyncio.Future[None] | None = None
        self.counters: Final = LiftCounters()

    async def lift(self, row: PodRow) -> Lifted | None:
        """Lift the gate of a pod in the state given; None if we may no longer write."""
        pause = RETRY_SECONDS
        is_uncertain = False
        while self._may_write():
            self.counters.writes += 1
            try:
                await self._write(row)
            except ClusterError as error:
                answer = _answer_to(error, is_uncertain=is_uncertain)
                if answer is not None:
                    return self._counted(Lifted(answer, error.message))
                is_uncertain = is_uncertain or not isinstance(error, BusyError)
                wait = error.retry_after or 0.0
            except TimeoutError:
                is_uncertain, wait = True, 0.0
            else:
                return self._counted(Lifted(Answer.LIFTED))
            self.counters.retries += 1
            # Spread out, so that those who failed together do not come back together.
            await self._clock.sleep(max(wait, pause * (0.5 + self._random.random())))
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        return None

    async def close(self) -> None:
        """Leave nothing running. Nobody may be lifting any more."""
        if self._watch is not None:
            await end(self._watch)

    async def _write(self, row: PodRow) -> None:
        """One write. When we are cancelled it is waited for, since it cannot be called back."""
        writing = asyncio.ensure_future(self._send(row))
        self._deadlines.append((self._clock.monotonic() + self._write_seconds, writing))
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._end_overdue())
        try:
            await asyncio.wait((writing,))
        except asyncio.CancelledError:
            await asyncio.wait((writing,))
            raise
        if writing.cancelled():
            raise TimeoutError
        writing.result()

    async def _send(self, row: PodRow) -> bytes:
        # A process may be stopped at any moment: the time that the write may take counts from
        # before we look whether we may.
        send_by = self._clock.monotonic() + self._write_seconds
        if not self._may_write():
            raise TimeoutError
        patch = Patch(kind=PatchKind.JSON, body=_fenced_lift(row), send_by=send_by)
        return await self._writer.patch(PODS, Key(row.namespace, row.name), patch)

    async def _end_overdue(self) -> None:
        """End writes that take too long. One task does it for all: there are many of them."""
        try:
            while self._deadlines:
                deadline, writing = self._deadlines.popleft()
                if not writing.done():
                    await self._clock.sleep(max(0.0, deadline - self._clock.monotonic()))
                    writing.cancel()
        finally:
            self._watch = None

    def _counted(self, lifted: Lifted) -> Lifted:
        match lifted.answer:
            case Answer.LIFTED:
                self.counters.lifted += 1
            case Answer.CHANGED:
                self.counters.changed += 1
            case Answer.GONE:
                self.counters.gone += 1
            case Answer.REFUSED:
                self.counters.refused += 1
        return lifted


def _fenced_lift(row: PodRow) -> Json:
    stamp = row.stamp
    return [
        {"op": "test", "path": "/metadata/uid", "value": stamp.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": stamp.resource_version},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]


def _answer_to(error: ClusterError, *, is_uncertain: bool) -> Answer | None:
    """What an error says about the pod; None if it says nothing."""
    match error:
        case NotFoundError():
            return Answer.GONE
        case ConflictError():
            return Answer.CHANGED
        case ForbiddenError() | InvalidError():
            return Answer.CHANGED if is_uncertain else Answer.REFUSED
        case _:
            return None
