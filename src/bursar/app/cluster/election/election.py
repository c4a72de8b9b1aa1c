"""Leader election by Lease: one candidate works, and its work ends before another's begins.

The protocol is client-go's, so candidates of other programs can compete for the same Lease. Three
rules are stricter. A term is measured from when its last renewal was sent, not from the response.
A record counts as own only if this process wrote it, so two processes with the same identity do
not both lead. Every term has its own token, so in-flight work of an earlier term can be recognised.

A Lease does not protect against a process that is paused between a check and a write. The leader
must also fence its writes and check `is_leader` before each of them.
`docs/explanation/leader-election.md` lists the guarantees.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeVar

from bursar.app.cluster.election.lease import (
    NO_HOLDER,
    LeaseRecord,
    StoredLease,
    decode_lease,
    fenced_change,
    new_lease,
)
from bursar.app.cluster.election.timing import DEFAULT_TIMING, JITTER, Timing
from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.micro_time import format_micro_time
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    ConflictError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Reader,
    Writer,
)
from bursar.app.cluster.time_limit import end, within
from bursar.app.log import Log

T = TypeVar("T")

LOG: Final = Log("election")

RELEASED_SECONDS: Final = 1
"""Duration of a released Lease, for candidates that do not understand an empty holder."""
RELEASE_TRIES: Final = 3
RETRY_AFTER_SECONDS_MAX: Final = 30.0
"""The longest `retry_after` that a candidate honours. A proxy may ask for days, in which no replica
would lead."""
UNANSWERED_MAX: Final = 32
"""Number of unanswered writes that are recognised later. Older ones are fenced off."""
TICK_SECONDS: Final = 0.001
"""Tolerance for a clock that wakes a sleep slightly early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """The Lease and the identity of a candidate. The identity must be unique to the process."""

    lease: Key
    identity: str
    timing: Timing = DEFAULT_TIMING

    def __post_init__(self) -> None:
        if not self.identity or not self.lease.namespace or not self.lease.name:
            raise ValueError("a candidacy needs an identity, and a Lease with a namespace")


@dataclass(frozen=True, slots=True, order=True)
class FencingToken:
    """Identifies a term. Tokens are unique; of one Lease, later tokens are greater."""

    lease_uid: str
    transitions: int


class Loss(Enum):
    """The reason why a term ended before its work."""

    LATE = "renewal was not confirmed before the deadline"
    TAKEN = "another process holds the Lease"
    DELETED = "the Lease was deleted"


@dataclass(slots=True, kw_only=True)
class _Term:
    lease: StoredLease
    """The Lease after the last acknowledged write."""
    stop_at: float
    """Deadline on the monotonic clock at which the work is cancelled. A renewal moves it."""
    is_uncertain: bool = False
    """Whether a write had no response. The Lease must then be read before the next write."""
    loss: Loss | None = None

    @property
    def token(self) -> FencingToken:
        return FencingToken(self.lease.uid, self.lease.record.transitions)


class Election:
    """One candidate. `run` does the work; the properties serve metrics and checks before writes."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        clock: Clock,
        *,
        candidacy: Candidacy,
        random: Callable[[], float],
    ) -> None:
        self._reader, self._writer, self._clock = reader, writer, clock
        self._candidacy, self._timing = candidacy, candidacy.timing
        self._random = random
        self._term: _Term | None = None
        self._observed: StoredLease | None = None
        self._observed_at = 0.0
        self._written: deque[str] = deque(maxlen=UNANSWERED_MAX)

    @property
    def is_leader(self) -> bool:
        """Whether this process leads. False from the deadline on, even if the work still runs."""
        term = self._term
        return term is not None and term.loss is None and self._clock.monotonic() < term.stop_at

    @property
    def remaining_seconds(self) -> float:
        """Time until this process stops leading if no further renewal succeeds; 0 for others."""
        term = self._term
        if term is None or term.loss is not None:
            return 0.0
        return max(0.0, term.stop_at - self._clock.monotonic())

    @property
    def token(self) -> FencingToken | None:
        """The token of the current term; None when no work runs."""
        return None if self._term is None else self._term.token

    @property
    def holder(self) -> str:
        """The identity of the last seen leader; empty if there is none."""
        return NO_HOLDER if self._observed is None else self._observed.record.holder

    @property
    def is_led_by_another(self) -> bool:
        """Whether another candidate was last seen as the leader."""
        return self.holder not in {NO_HOLDER, self._candidacy.identity}

    async def run(self, lead: Callable[[], Awaitable[T]]) -> T:
        """Wait for the election, then call `lead`. The Lease is released when `lead` has ended.

        If the Lease is lost, `lead` is cancelled, and after it has ended this process is a
        candidate again. `lead` can be called many times, but never concurrently. If `lead` returns
        or raises by itself, `run` ends. If `lead` takes longer than `Timing.stop_seconds` to end
        after its cancellation, it can overlap with the next leader.
        """
        assert self._term is None, "a candidate stands once at a time"
        while True:
            term = await self._acquire()
            work = await self._serve(term, lead)
            if term.loss is None or not (work.cancelled() or work.exception() is None):
                return work.result()

    # -------------------------------------------------------------- standing

    async def _acquire(self) -> _Term:
        while True:
            pause = self._timing.retry_seconds * (1 + JITTER * self._random())
            try:
                term = await self._stand()
                if term is not None:
                    return term
            except (ClusterError, TimeoutError) as error:
                LOG.warning(
                    "cannot read or write the Lease; trying again",
                    lease=self._candidacy.lease,
                    error=error if str(error) else "no answer in time",
                )
                if isinstance(error, BusyError) and error.retry_after is not None:
                    pause = max(pause, min(error.retry_after, RETRY_AFTER_SECONDS_MAX))
            await self._clock.sleep(pause)

    async def _stand(self) -> _Term | None:
        """Try to acquire the Lease once. None if another candidate holds it or was faster."""
        lease = await self._read()
        if self._is_held_by_another():
            return None
        now = format_micro_time(self._clock.now())
        record = LeaseRecord(
            holder=self._candidacy.identity,
            duration_seconds=self._timing.lease_seconds,
            acquire_time=now,
            renew_time=now,
            transitions=0 if lease is None else lease.record.transitions + 1,
        )
        sent_at = self._clock.monotonic()
        stored = await self._write(lease, record)
        term = _Term(lease=stored, stop_at=sent_at + self._timing.deadline_seconds)
        # If the process was paused until the response came, the term is over already.
        return term if self._clock.monotonic() < term.stop_at else None

    async def _read(self) -> StoredLease | None:
        """Read the Lease and record when it last changed. None if it does not exist."""
        request = self._reader.get(LEASES, self._candidacy.lease)
        try:
            lease = decode_lease(await within(self._clock, self._timing.request_seconds, request))
        except NotFoundError:
            return None
        self._observe(lease)
        return lease

    def _observe(self, lease: StoredLease) -> None:
        if not lease.is_same_record(self._observed):
            # Taken after the response, so never earlier than the holder's renewal.
            self._observed_at = self._clock.monotonic()
        self._observed = lease

    def _is_held_by_another(self) -> bool:
        """Whether the last seen record is of another holder and not expired.

        This holds even if the Lease was deleted, because its holder may still work.
        """
        if self._observed is None or self._observed.record.holder == NO_HOLDER:
            return False
        if self._is_ours(self._observed.record):
            return False
        seconds = self._observed.record.duration_seconds or self._timing.lease_seconds
        return self._clock.monotonic() - self._observed_at <= seconds

    def _is_ours(self, record: LeaseRecord) -> bool:
        return record.holder == self._candidacy.identity and record.renew_time in self._written

    async def _write(self, lease: StoredLease | None, record: LeaseRecord) -> StoredLease:
        """Write a record over the Lease that was read, or create the Lease."""
        self._written.append(record.renew_time)
        key = self._candidacy.lease
        if lease is None:
            body = new_lease(key, record)
            request = self._writer.create(LEASES, body, namespace=key.namespace)
        else:
            change = Patch(kind=PatchKind.MERGE, body=fenced_change(lease, record))
            request = self._writer.patch(LEASES, key, change)
        stored = decode_lease(await within(self._clock, self._timing.request_seconds, request))
        self._observe(stored)
        return stored

    # -------------------------------------------------------------- leading

    async def _serve(self, term: _Term, lead: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Run `lead` until it ends or the term is lost, and return its finished task."""
        self._term = term
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew(term))
        alarm = asyncio.ensure_future(self._await_deadline(term))
        try:
            await asyncio.wait((work, renewal, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Renewal continues while the work ends, so that a slow shutdown keeps the Lease.
            try:
                await end(work)
            finally:
                await end(renewal, alarm)
                self._term = None
                if term.loss is None:
                    assert work.done()
                    await self._release(term)
        for task in (renewal, alarm):
            if not task.cancelled():
                task.result()  # An error here must not look like a cancellation.
        return work

    async def _await_deadline(self, term: _Term) -> None:
        while (left := term.stop_at - self._clock.monotonic()) > TICK_SECONDS:
            await self._clock.sleep(left)
        term.loss = Loss.LATE

    async def _renew(self, term: _Term) -> None:
        """Renew the term until another process takes the Lease.

        A missed deadline does not stop the renewal: the cancelled work may still be ending, and no
        other leader should start meanwhile.
        """
        tried_at = self._clock.monotonic()
        while True:
            # After a slow attempt the next one follows at once, because of the deadline.
            spent = self._clock.monotonic() - tried_at
            await self._clock.sleep(max(0, self._timing.retry_seconds - spent))
            tried_at = self._clock.monotonic()
            try:
                loss = await self._prolong(term)
            except (ClusterError, TimeoutError) as error:
                LOG.warning(
                    "cannot renew the Lease; trying again",
                    lease=self._candidacy.lease,
                    error=error if str(error) else "no answer in time",
                )
                term.is_uncertain = True
            else:
                if loss is not None:
                    term.loss = loss
                    return

    async def _prolong(self, term: _Term) -> Loss | None:
        lease = term.lease
        if not term.is_uncertain:
            try:
                await self._confirm(term, lease)
            except (ConflictError, NotFoundError):
                term.is_uncertain = True
            else:
                return None
        current = await self._read()
        if current is None:
            return Loss.DELETED
        if not self._is_term(term, current):
            return Loss.TAKEN
        await self._confirm(term, current)
        return None

    def _is_term(self, term: _Term, lease: StoredLease) -> bool:
        token = FencingToken(lease.uid, lease.record.transitions)
        return token == term.token and self._is_ours(lease.record)

    async def _confirm(self, term: _Term, lease: StoredLease) -> None:
        now = format_micro_time(self._clock.now())
        sent_at = self._clock.monotonic()
        term.lease = await self._write(lease, replace(lease.record, renew_time=now))
        term.stop_at = sent_at + self._timing.deadline_seconds
        term.is_uncertain = False

    async def _release(self, term: _Term) -> None:
        """Release the Lease, so that the next leader need not wait. Failure is harmless."""
        with suppress(TimeoutError):
            await within(self._clock, self._timing.request_seconds, self._hand_over(term))

    async def _hand_over(self, term: _Term) -> None:
        lease: StoredLease | None = term.lease
        for _ in range(RELEASE_TRIES):
            try:
                if term.is_uncertain:
                    lease = await self._read()
                if lease is None or not self._is_term(term, lease):
                    return
                now = format_micro_time(self._clock.now())
                released = replace(
                    lease.record,
                    holder=NO_HOLDER,
                    duration_seconds=RELEASED_SECONDS,
                    acquire_time=now,
                    renew_time=now,
                )
                await self._write(lease, released)
            except ClusterError:
                term.is_uncertain = True
            else:
                return
