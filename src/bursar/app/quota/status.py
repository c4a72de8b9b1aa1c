"""Statuses of quotas: what the books say, written where people look for it.

The status is never added to, only stated: whatever was lost, doubled or overwritten on
the way, the next look finds that what is shown is not what is true, and writes it. The
write names the quota by uid, so that one made anew under the same name does not get the
numbers of the old one, and replaces the status whole, so that nothing stays behind in it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final, Generic, NamedTuple, TypeVar

from bursar.app.informer_store import Identity, Sighting
from bursar.app.ports import (
    AlreadyExistsError,
    Clock,
    ClusterError,
    ConflictError,
    Json,
    NotFoundError,
    Patch,
    PatchKind,
    Writer,
)
from bursar.app.quota.status_document import (
    RESOURCES,
    conditions_in,
    fenced,
    shown_status,
    wanted_conditions,
    wanted_status,
)
from bursar.app.time_limit import within
from bursar.core.quota.coverage import Coverage, CoveredQuota
from bursar.core.quota.quota import QuotaKey, QuotaKind
from bursar.core.quota.reported import QuotaObject
from bursar.core.quota.statement import Statement, statement_of, used_in

STATUS_SECONDS: Final = 0.5
"""The status of one quota is written no more often than this."""
IN_FLIGHT_MAX: Final = 8
REQUEST_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 30.0
MANAGED_SUFFIX: Final = "-non-schedulable-resources-managed-rq-x"
"""AAQ's, on the name of the ResourceQuota that counts what pods cannot wait for."""

K = TypeVar("K", bound=Hashable)
FindQuota = Callable[[QuotaKey], Sighting[QuotaObject] | None]
"""What an informer holds of a quota of any kind."""


def managed_key(key: QuotaKey) -> QuotaKey:
    """The ResourceQuota that is kept on behalf of a quota of one namespace."""
    return QuotaKey(QuotaKind.NATIVE, key.namespace, key.name + MANAGED_SUFFIX)


def keeper_key(key: QuotaKey) -> QuotaKey | None:
    """The quota on whose behalf a ResourceQuota is kept; None if it is not one of those."""
    name = key.name.removesuffix(MANAGED_SUFFIX)
    if key.kind is not QuotaKind.NATIVE or name in {key.name, ""}:
        return None
    return QuotaKey(QuotaKind.NAMESPACED, key.namespace, name)


# ------------------------------------------------------------------ looking after things


@dataclass(slots=True)
class UpkeepCounters:
    """How often what happened; only ever growing."""

    looks: int = 0
    writes: int = 0
    failures: int = 0
    """Writes that have to be tried again."""
    gone: int = 0
    """Writes to something that was not there any more."""


class _Case:
    """Something that will be looked at, or is being looked at."""

    __slots__ = ("failures", "is_marked")

    def __init__(self) -> None:
        self.failures = 0
        self.is_marked = False
        """Something has changed since the look began."""


@dataclass(eq=False)
class Upkeep(Generic[K]):
    """Looks at what was marked and sets it right: soon, not too often, several at a time.

    After a write comes a second look, so that a case is closed only when there is nothing
    to do. What fails is tried again, ever more rarely, unless it is gone.
    """

    look: Callable[[K], Coroutine[object, object, bool]]
    """Compares and, if need be, writes. Returns whether something was written."""
    clock: Clock
    _: KW_ONLY
    random: Random
    may_write: Callable[[], bool]
    """Asked before each look. Until it says yes for the first time, nothing is lost."""
    interval_s: float

    counters: UpkeepCounters = field(default_factory=UpkeepCounters, init=False)

    def __post_init__(self) -> None:
        self._cases: dict[K, _Case] = {}
        self._queue: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._news = asyncio.Event()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was marked has been found right."""
        return not self._cases

    def mark(self, keys: Iterable[K]) -> None:
        """Have a look at these, as soon as their time has come."""
        for key in keys:
            case = self._cases.get(key)
            if case is not None:
                case.is_marked = True
            else:
                self._cases[key] = _Case()
                self._enqueue(key, self.clock.monotonic())

    async def run(self) -> None:
        """Look after things until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._slots.acquire()
                key = await self._next_due()
                tasks.create_task(self._attend(key))

    def _enqueue(self, key: K, due: float) -> None:
        self._sequence += 1
        heappush(self._queue, (due, self._sequence, key))
        self._news.set()

    async def _next_due(self) -> K:
        while True:
            pause = self._queue[0][0] - self.clock.monotonic() if self._queue else None
            if pause is not None and pause <= 0:
                if self.may_write():
                    return heappop(self._queue)[2]
                await self.clock.sleep(self.interval_s)
                continue
            self._news.clear()
            if pause is None:
                await self._news.wait()
            else:
                with suppress(TimeoutError):
                    await within(self.clock, pause, self._news.wait())

    async def _attend(self, key: K) -> None:
        case = self._cases[key]
        case.is_marked = False
        self.counters.looks += 1
        try:
            pause = await self._pause_after_look(key, case)
        finally:
            self._slots.release()
        if pause is None and not case.is_marked:
            del self._cases[key]
        else:
            self._enqueue(key, self.clock.monotonic() + (pause or 0.0))

    async def _pause_after_look(self, key: K, case: _Case) -> float | None:
        """Seconds until the next look; None if that can wait until something changes."""
        try:
            has_written = await within(self.clock, REQUEST_SECONDS, self.look(key))
        except NotFoundError:
            # The watch will tell, and if it is made anew, we shall be told of that, too.
            self.counters.gone += 1
            return None
        except (ConflictError, AlreadyExistsError):
            # It is not what we thought, and the watch is about to say so.
            self.counters.failures += 1
            return max(self.interval_s, RETRY_SECONDS)
        except ClusterError as error:
            return self._patience(case, error.retry_after)
        except TimeoutError:
            return self._patience(case, None)
        case.failures = 0
        if not has_written:
            return None
        self.counters.writes += 1
        return self.interval_s

    def _patience(self, case: _Case, retry_after: float | None) -> float:
        self.counters.failures += 1
        pause = min(RETRY_SECONDS * 2.0**case.failures, RETRY_SECONDS_MAX)
        # Beyond the longest pause there is nothing to count.
        case.failures += pause < RETRY_SECONDS_MAX
        # Spread out, so that those who failed together do not come back together.
        return max(retry_after or 0.0, self.interval_s, pause * (0.5 + self.random.random()))


# ------------------------------------------------------------------ statuses


class _Written(NamedTuple):
    """A status we wrote, and which state of the quota it was written over."""

    over: str
    status: dict[str, Json]


@dataclass(eq=False, kw_only=True)
class StatusWriter:
    """Keeps the statuses of AAQ's two kinds equal to the books. `run` it once."""

    writer: Writer
    clock: Clock
    random: Random
    coverage: Coverage
    find: FindQuota
    may_write: Callable[[], bool]
    """Whether we lead, and the books are complete."""
    interval_s: float = STATUS_SECONDS

    def __post_init__(self) -> None:
        self._written: dict[QuotaKey, _Written] = {}
        self.upkeep = Upkeep(
            self._look,
            self.clock,
            random=self.random,
            may_write=self.may_write,
            interval_s=self.interval_s,
        )

    def mark(self, keys: Iterable[QuotaKey]) -> None:
        """The books have changed for these."""
        self.upkeep.mark(key for key in keys if key.kind is not QuotaKind.NATIVE)

    def observe(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind is new or has changed, be it only its status."""
        key = seen.item.quota.key
        keeper = keeper_key(key)
        self.mark([key if keeper is None else keeper])

    def lose(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind is gone."""
        self._written.pop(seen.item.quota.key, None)
        self.observe(seen)

    async def run(self) -> None:
        """Write until cancelled."""
        await self.upkeep.run()

    async def _look(self, key: QuotaKey) -> bool:
        covered, seen = self.coverage.quota(key), self.find(key)
        if covered is None or seen is None or covered.quota != seen.item.quota:
            # One of the two is behind. We are called again when it has caught up.
            return False
        shown = self._shown(key, seen)
        statement = self._statement(covered)
        conditions = wanted_conditions(
            statement,
            order_problem=seen.item.order_problem,
            generation=seen.item.generation,
            before=conditions_in(shown),
            now=self.clock.now(),
        )
        wanted = wanted_status(key.kind, statement, conditions)
        if wanted == shown:
            return False
        await self._write(key, seen.identity, wanted)
        self._written[key] = _Written(seen.identity.resource_version, wanted)
        return True

    def _statement(self, covered: CoveredQuota) -> Statement:
        quota = covered.quota
        if quota.key.kind is QuotaKind.CLUSTER:
            return statement_of(covered)
        managed = self.find(managed_key(quota.key))
        return statement_of(covered, used_in(None if managed is None else managed.item, quota))

    def _shown(self, key: QuotaKey, seen: Sighting[QuotaObject]) -> dict[str, Json]:
        """What is stored now, as far as we know: what we wrote, until something newer is seen."""
        written = self._written.get(key)
        if written is not None and written.over == seen.identity.resource_version:
            return written.status
        return shown_status(seen.item)

    async def _write(self, key: QuotaKey, identity: Identity, status: dict[str, Json]) -> None:
        body = fenced(identity, [{"op": "add", "path": "/status", "value": status}])
        await self.writer.patch(
            RESOURCES[key.kind],
            identity.key,
            Patch(kind=PatchKind.JSON, body=body),
            subresource="status",
        )
