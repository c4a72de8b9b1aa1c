"""Binding pods: the write by which a hold becomes a bound pod, or ends.

A binding whose outcome is not known keeps its hold. When the API server cannot be working on it
any more, the pod is read, and the hold ends if the pod has no node.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Binder, Clock, ClusterError, Key, NotFoundError, Reader
from bursar.app.cluster.time_limit import wait_at_most, within
from bursar.app.log import Log
from bursar.core.model.pod_row import PodRow
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.holds import HoldState
from bursar.core.pools.refusal import PoolReason, PoolRefusal
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.refusal import explanation
from bursar.wire.extender import BindRequest

LOG: Final = Log("extender")
RETRY_SECONDS: Final = 1.0
CHECK_SECONDS: Final = 60.0
"""How long a stored binding may stay out of the watch before the pod is read."""


class Cluster(Reader, Binder, Protocol):
    """The cluster as bindings use it."""


@dataclass(frozen=True, slots=True)
class BindResult:
    """An empty message means that the pod is bound."""

    message: str = ""
    row: PodRow | None = None
    """The pod that was refused, if it is known."""
    reason: PoolReason | None = None


BOUND: Final = BindResult()


@dataclass(eq=False)
class PodBinder:
    """Binds pods while `is_leader` returns true."""

    cluster: Cluster
    clock: Clock
    books: PoolBooks
    _: KW_ONLY
    decode: Callable[[bytes], PodRow]
    is_leader: Callable[[], bool]
    write_seconds: float
    """How long a binding may last after this process stops leading."""

    _checks: dict[str, tuple[PodKey, float]] = field(default_factory=dict, init=False)
    """By uid: a pod to read, and when. Until then the API server may still store a binding."""
    _news: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _writing: set[asyncio.Task[BindResult]] = field(default_factory=set, init=False)

    async def bind(self, request: BindRequest) -> BindResult:
        """Bind the pod if its pools have enough free. A lost answer frees nothing."""
        row = self.books.find_pod(request.pod, request.uid)
        if row is None:
            try:
                row = await self._read(request.pod)
            except (ClusterError, ValueError) as error:
                return _failed(f"the pod cannot be read ({error})")
            if row.stamp.uid != request.uid:
                return _failed("the pod was deleted and another one has its name")
        hold = self.books.holds.find(request.uid)
        if hold is not None and hold.state is HoldState.BOUND and hold.node == request.node:
            return BOUND
        refusals = self.books.begin_binding(row, request.node, self._now_s())
        if refusals:
            return BindResult(explanation(refusals), row, refusals[0].reason)
        # If the scheduler hangs up, the binding goes on: it cannot be taken back.
        writing = asyncio.create_task(self._write(request, row))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return await asyncio.shield(writing)

    async def _read(self, pod: PodKey) -> PodRow:
        return self.decode(await self.cluster.get(PODS, Key(pod.namespace, pod.name)))

    async def _write(self, request: BindRequest, row: PodRow) -> BindResult:
        # The deadline is taken before `is_leader` is asked: the process may be paused in between.
        asked_at, seconds = self.clock.monotonic(), self.write_seconds / 2
        if not self.is_leader():
            self.books.binding_failed(request.uid, self._now_s())
            return _failed("this replica does not lead any more", row)
        binding = self.cluster.bind(
            Key(request.pod.namespace, request.pod.name),
            request.uid,
            request.node,
            send_by=asked_at + seconds,
            timeout_seconds=seconds,
        )
        try:
            await within(self.clock, self.write_seconds, binding)
        except (ClusterError, TimeoutError) as error:
            is_judged = isinstance(error, ClusterError) and _is_judged(error)
            since = self.clock.monotonic() if is_judged else asked_at + 2 * self.write_seconds
            self.books.binding_uncertain(request.uid)
            self._check_later(request.uid, request.pod, since)
            return _failed(str(error) or "the API server did not answer in time", row)
        self.books.binding_stored(request.uid)
        self._check_later(request.uid, request.pod, self.clock.monotonic() + CHECK_SECONDS)
        return BOUND

    # ------------------------------------------------------------------ outcomes

    def _check_later(self, uid: str, pod: PodKey, at: float) -> None:
        self._checks[uid] = (pod, at)
        self._news.set()

    async def run(self) -> None:
        """Read the pods of bindings whose outcome the watch does not show, until cancelled.

        A binding that failed may have been stored all the same. If a binding was stored, the watch
        may have missed that the pod was bound and has ended.
        """
        while True:
            now = self.clock.monotonic()
            for uid in [uid for uid, (_, at) in self._checks.items() if at <= now]:
                await self._check(uid)
            later = [at for _, at in self._checks.values()]
            self._news.clear()
            pause = max(0.0, min(later) - self.clock.monotonic()) if later else None
            await wait_at_most(self.clock, pause, self._news)

    async def _check(self, uid: str) -> None:
        pod, _ = self._checks.pop(uid)
        if self.books.holds.find(uid) is None:
            return
        try:
            row: PodRow | None = await self._read(pod)
        except NotFoundError:
            row = None
        except (ClusterError, ValueError) as error:
            LOG.warning("the outcome of a binding is not known; trying again", error=error)
            self._check_later(uid, pod, self.clock.monotonic() + RETRY_SECONDS)
            return
        if row is not None and row.stamp.uid == uid and row.node_name and not row.is_terminated:
            self.books.binding_stored(uid)
            self._check_later(uid, pod, self.clock.monotonic() + CHECK_SECONDS)
        else:
            self.books.binding_failed(uid, self._now_s())

    def _now_s(self) -> int:
        return int(self.clock.monotonic())

    async def close(self) -> None:
        """Wait for the bindings in flight. Each ends within `write_seconds`."""
        if self._writing:
            await asyncio.wait(self._writing)


def _failed(text: str, row: PodRow | None = None) -> BindResult:
    refusal = PoolRefusal(reason=PoolReason.BINDING_FAILED, detail=text)
    return BindResult(refusal.message(), row, PoolReason.BINDING_FAILED)


def _is_judged(error: ClusterError) -> bool:
    """Whether the API server has answered and is not working on the request any more."""
    return (
        HTTPStatus.BAD_REQUEST <= error.code < HTTPStatus.INTERNAL_SERVER_ERROR
        and error.code != HTTPStatus.REQUEST_TIMEOUT
    )
