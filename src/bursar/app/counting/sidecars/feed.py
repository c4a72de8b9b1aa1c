"""Finds sidecars, asks them about pods, and tells the books of answers that change a count.

A sidecar that restarts makes a socket with a new name. So the folder is read again and again;
a socket that no longer answers is dropped, and a new one takes its place. Calls are bounded in
time and in number. A question without a good answer is retried with back-off, and its pod waits.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bursar.app.cluster.ports import Clock
from bursar.app.cluster.time_limit import end, wait_at_most
from bursar.app.counting.sidecars.ports import (
    Sidecar,
    SidecarCounters,
    SidecarError,
    SidecarFailure,
    SidecarSockets,
)
from bursar.app.log import Log
from bursar.core.counting.sidecar_questions import Question
from bursar.core.counting.sidecars import SidecarCounter, Slot
from bursar.core.model.resources import ResourceList
from bursar.core.quota.counting import RecountPods
from bursar.core.quota.ledger import PodKey
from bursar.wire.counting.pod_usage import (
    NAMESPACE_BYTES_MAX,
    BadAnswerError,
    PodUsageRequests,
    SidecarSaysError,
    decode_answer,
)

LOG: Final = Log("sidecars")
DISCOVERY_SECONDS: Final = 1.0
"""How often the folder of sockets is read."""
HEALTH_SECONDS: Final = 5.0
"""How often a connected sidecar is asked whether it is healthy."""
SILENT_SECONDS: Final = 30.0
"""Longest pause between two tries of a socket that does not answer."""
SETTLE_SECONDS: Final = 10.0
"""How long sidecars may take to connect after a start before a missing one is a failure."""
CALLS_MAX: Final = 4
"""Concurrent calls of one sidecar."""
SPENT_PER_SWEEP: Final = 1
"""After a question of a sweep, a worker pauses for this many times as long as the call took."""
_TRANSPORT: Final = frozenset({SidecarFailure.UNREACHABLE, SidecarFailure.TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    namespace_bytes_max: int = NAMESPACE_BYTES_MAX
    large_bytes: int = 4 * 2**20
    """Requests with more are sent one at a time, which bounds the memory."""


@dataclass(slots=True)
class _Link:
    identity: Hashable
    slot: Slot
    sidecar: Sidecar
    workers: list[asyncio.Task[None]]
    checked_s: float
    is_slow: bool = False


class _Silent(NamedTuple):
    """A socket that did not answer."""

    identity: Hashable
    retry_s: float
    pause_s: float


class SidecarFeed:
    """A `CounterFeed`. It has one connection for each sidecar."""

    def __init__(
        self,
        counter: SidecarCounter,
        sockets: SidecarSockets,
        clock: Clock,
        *,
        sends_namespace: bool = True,
        limits: RequestLimits | None = None,
    ) -> None:
        self.counter: Final = counter
        self.counters: Final = SidecarCounters()
        self._sockets, self._clock = sockets, clock
        self._sends_namespace = sends_namespace
        self._limits = limits or RequestLimits()
        self._requests = PodUsageRequests(namespace_bytes_max=self._limits.namespace_bytes_max)
        self._then = "counted without it" if counter.falls_back else "its pods wait"
        self._links: dict[str, _Link] = {}
        self._silent: dict[str, _Silent] = {}
        self._is_due = asyncio.Event()
        self._large = asyncio.Lock()
        self._recount: RecountPods = lambda _: None

    @property
    def connected(self) -> int:
        return len(self._links)

    async def run(self, recount: RecountPods) -> None:
        self._recount = recount
        self.counter.on_due = self._is_due.set
        began = self._clock.monotonic()
        try:
            while True:
                await self._discover()
                is_late = self._clock.monotonic() - began >= SETTLE_SECONDS
                if is_late and not self.counter.is_settled:
                    self.counter.is_settled = True
                    self._recount(self.counter.pods())
                self.counter.start_sweeps(self._now_ms())
                await self._clock.sleep(DISCOVERY_SECONDS)
        finally:
            for name in list(self._links):
                await self._drop(name)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    # ------------------------------------------------------------------ connections

    async def _discover(self) -> None:
        found = self._sockets.find()
        self._silent = {name: each for name, each in self._silent.items() if name in found}
        is_new = any(name not in self._links and name not in self._silent for name in found)
        for name, link in list(self._links.items()):
            gone = "" if found.get(name) == link.identity else "its socket was removed"
            gone = gone or _defect(link.workers) or await self._health_problem(link, is_new=is_new)
            if gone:
                LOG.warning("a sidecar is gone", socket=name, error=gone, then=self._then)
                await self._drop(name)
                self._recount(self.counter.pods())
        excess = 0
        for name, identity in found.items():
            if name not in self._links and self._is_worth_a_try(name, identity):
                excess += await self._try(name, identity)
        if excess != self.counter.excess:
            if excess:
                LOG.warning("more sidecars answer than are expected; pods wait", excess=excess)
            self.counter.excess = excess
            self._recount(self.counter.pods())

    async def _health_problem(self, link: _Link, *, is_new: bool) -> str:
        """Why the sidecar must be dropped; empty if it is well.

        A new socket may be its successor's, so then it is checked at once.
        """
        if not is_new and self._clock.monotonic() - link.checked_s < HEALTH_SECONDS:
            return ""
        link.checked_s = self._clock.monotonic()
        problem = await _unhealthy(link.sidecar)
        # One slow answer is no reason to ask about every pod again.
        was_slow, link.is_slow = link.is_slow, problem is not None
        if problem is None or (problem.failure is SidecarFailure.TIMEOUT and not was_slow):
            return ""
        return str(problem)

    def _is_worth_a_try(self, name: str, identity: Hashable) -> bool:
        """Sockets of ended sidecars stay in the folder, and are tried less and less often."""
        silent = self._silent.get(name)
        return (
            silent is None
            or silent.identity != identity
            or self._clock.monotonic() >= silent.retry_s
        )

    async def _try(self, name: str, identity: Hashable) -> bool:
        """Connect to a new socket. Returns true if it answers but the counter has no slot left."""
        sidecar = self._sockets.connect(name)
        problem = await _unhealthy(sidecar)
        if problem is not None:
            await sidecar.close()
            LOG.debug("a socket does not answer", socket=name, error=problem)
            before = self._silent.get(name)
            pause_s = (
                DISCOVERY_SECONDS if before is None else min(2 * before.pause_s, SILENT_SECONDS)
            )
            retry_s = self._clock.monotonic() + pause_s
            self._silent[name] = _Silent(identity, retry_s, pause_s)
            return False
        self._silent.pop(name, None)
        slot = self.counter.connect(name)
        if slot is None:
            await sidecar.close()
            return True
        LOG.info("a sidecar is connected", socket=name)
        link = _Link(identity, slot, sidecar, [], self._clock.monotonic())
        # One worker sweeps, so that new pods never wait for more than one question of a sweep.
        work = (self._work(link, may_sweep=number == 0) for number in range(CALLS_MAX))
        link.workers += [asyncio.create_task(each) for each in work]
        self._links[name] = link
        self._recount(self.counter.pods())
        return False

    async def _drop(self, name: str) -> None:
        link = self._links.pop(name)
        await end(*link.workers)
        self.counter.disconnect(link.slot)
        await link.sidecar.close()

    # ------------------------------------------------------------------ questions

    async def _work(self, link: _Link, *, may_sweep: bool) -> None:
        counter, slot = self.counter, link.slot
        while True:
            found = counter.next_question(slot, self._now_ms(), may_sweep=may_sweep)
            if found is None:
                self._is_due.clear()
                await wait_at_most(self._clock, DISCOVERY_SECONDS, self._is_due)
                continue
            question, is_sweep = found
            began = self._clock.monotonic()
            failure = await self._ask(link, question)
            if failure in _TRANSPORT:
                await self._clock.sleep(DISCOVERY_SECONDS)
            elif is_sweep:
                self.counters.swept += 1
                spent = self._clock.monotonic() - began
                await self._clock.sleep(SPENT_PER_SWEEP * spent)

    async def _ask(self, link: _Link, question: Question) -> SidecarFailure | None:
        """Ask once, and record what came of it."""
        slot, generation = link.slot, 0
        try:
            generation, amounts = await self._evaluate(link.sidecar, question)
        except SidecarError as error:
            self.counters.failures[error.failure] += 1
            LOG.warning(
                "a sidecar has no good answer",
                socket=slot.name,
                failure=error.failure.value,
                error=str(error),
                then=self._then,
            )
            is_news = self.counter.fail(slot, question, str(error), self._now_ms())
            if error.failure in _TRANSPORT and slot.problem != str(error):
                slot.problem = str(error)
                self._recount(self.counter.unanswered(slot))
            elif is_news:
                self._recount([PodKey(question.row.namespace, question.row.name)])
            return error.failure
        changed = self.counter.answer(slot, question, generation, amounts)
        if changed:
            self._recount(changed)
        return None

    async def _evaluate(
        self, sidecar: Sidecar, question: Question
    ) -> tuple[int, ResourceList | None]:
        namespace = question.row.namespace if self._sends_namespace else ""
        generation, size = self._prepare(question, namespace)
        if size <= self._limits.large_bytes:
            body = await self._call(sidecar, self._requests.encode(question.body, namespace))
        else:
            async with self._large:
                # The pods may have changed while this call waited for its turn.
                generation, _ = self._prepare(question, namespace)
                body = await self._call(sidecar, self._requests.encode(question.body, namespace))
        try:
            return generation, decode_answer(body)
        except SidecarSaysError as error:
            raise SidecarError(SidecarFailure.SAYS_ERROR, f"it reports: {error}") from None
        except BadAnswerError as error:
            raise SidecarError(SidecarFailure.BAD_ANSWER, str(error)) from None

    def _prepare(self, question: Question, namespace: str) -> tuple[int, int]:
        """Encode the pods of the namespace. Returns its generation and how many bytes they are."""
        generation, pods = self.counter.namespace_of(question)
        size = self._requests.prepare(namespace, generation, pods) if namespace else 0
        if size > self._limits.namespace_bytes_max:
            raise SidecarError(
                SidecarFailure.TOO_LARGE,
                f"the pods of the namespace are {size} bytes as JSON, more than a message may "
                f"have ({self._limits.namespace_bytes_max}); use --sidecar-scope pod",
            )
        return generation, size

    async def _call(self, sidecar: Sidecar, request: bytes) -> bytes:
        began = self._clock.monotonic()
        self.counters.calls += 1
        self.counters.bytes_sent += len(request)
        try:
            return await sidecar.evaluate(request)
        finally:
            self.counters.call_seconds += self._clock.monotonic() - began


def _defect(workers: list[asyncio.Task[None]]) -> str:
    """Why a worker has ended, which is a defect; empty if all of them work."""
    return "; ".join(f"{task.exception()!r}" for task in workers if task.done())


async def _unhealthy(sidecar: Sidecar) -> SidecarError | None:
    """Why the sidecar is not healthy; None if it is."""
    try:
        if await sidecar.is_healthy():
            return None
        return SidecarError(SidecarFailure.SAYS_ERROR, "it says that it is not healthy")
    except SidecarError as error:
        return error
