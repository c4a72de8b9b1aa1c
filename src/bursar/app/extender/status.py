"""The status of ClusterResources, and the events on them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.patches import StatusWrites
from bursar.app.cluster.ports import Clock, ClusterError, Json, Writer
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.app.log import Log
from bursar.core.model.quantity import Format
from bursar.core.pools.accounts import PoolState
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.pool import Pool
from bursar.core.quota.account import Account, to_quantity
from bursar.wire.structs.fields import timestamp

LOG: Final = Log("extender")
REPORT_SECONDS: Final = 1.0
"""Shortest time between two comparisons of the statuses with the books."""
PODS_PER_SLICE: Final = 1_000
"""Pods that are counted before other tasks get their turn."""
SHARES_SHOWN_MAX: Final = 50
"""Accounts of shares that a status lists, those with least free first."""
ACTION: Final = "Account"


class PoolEventReason(Enum):
    """The reason of an event about a ClusterResource; also of its conditions."""

    IN_USE = "InUse"
    OVERDRAWN = "Overdrawn"
    """Bound pods hold more than the capacity. Nothing more is given until pods end."""
    COVERED = "Covered"
    """The capacity covers what bound pods hold."""
    DUPLICATE = "DuplicateResource"
    """An older ClusterResource has the same resource, and is in use instead."""
    INVALID = "Invalid"
    """The spec cannot be used. Pods that request the resource wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """A pool with its accounts, and the pods that wait for it: the input of its status."""

    state: PoolState
    waiting_pods: int
    waiting_nanos: int


async def reports(books: PoolBooks) -> list[PoolReport]:
    """Report on every pool. Other tasks run after every `PODS_PER_SLICE` pods."""
    waiting: dict[str, list[int]] = {}
    for number, key in enumerate(books.pod_keys(), 1):
        for name, nanos in books.waited_for(key):
            waiting.setdefault(name, []).append(nanos)
        if number % PODS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return [
        PoolReport(
            state=state,
            waiting_pods=len(waiting.get(state.pool.name, ())),
            waiting_nanos=sum(waiting.get(state.pool.name, ())),
        )
        for state in books.states
    ]


class PoolStatuses:
    """Writes the status of pools when it differs, at a bounded rate."""

    def __init__(
        self,
        books: PoolBooks,
        clock: Clock,
        writer: Writer,
        *,
        is_leader: Callable[[], bool],
        recorder: EventRecorder[PoolEventReason],
    ) -> None:
        self._books, self._clock = books, clock
        self._is_leader, self._recorder = is_leader, recorder
        self._statuses = StatusWrites(writer, CLUSTER_RESOURCES)
        self.latest: list[PoolReport] = []
        """The reports of the last comparison."""

    async def run(self) -> None:
        while True:
            found = self.latest = await reports(self._books)
            for report in found:
                await self._write(report)
            self._statuses.keep_only({report.state.pool.name for report in found})
            await self._clock.sleep(REPORT_SECONDS)

    async def _write(self, report: PoolReport) -> None:
        pool = report.state.pool
        before = self._statuses.latest(pool.name, pool.uid)
        status = wanted_status(report, self._clock.now(), before)
        if status == before or not self._is_leader():
            return
        try:
            await self._statuses.write(pool.name, pool.uid, status)
        except ClusterError as error:
            LOG.warning("the status was not written", cluster_resource=pool.name, error=error)
            return
        self._record(report, before, status)

    def _record(
        self, report: PoolReport, before: Mapping[str, Json], status: Mapping[str, Json]
    ) -> None:
        pool = report.state.pool
        for reason, text in _warnings(report.state):
            if _reason_of(before, reason) == _reason_of(status, reason):
                continue
            self._recorder.record(
                ObjectReference(
                    api_version=CLUSTER_RESOURCES.api_version,
                    kind=CLUSTER_RESOURCES.kind,
                    name=pool.name,
                    uid=pool.uid,
                ),
                reason,
                text,
                action=ACTION,
                type=EventType.WARNING,
            )


def _reason_of(status: Mapping[str, Json], reason: PoolEventReason) -> bool:
    conditions = status.get("conditions")
    return isinstance(conditions, list) and any(
        isinstance(each, dict) and each["reason"] == reason.value for each in conditions
    )


def _warnings(state: PoolState) -> list[tuple[PoolEventReason, str]]:
    """What is wrong with a pool, in words for its administrator."""
    found = []
    if state.pool.problem:
        found.append((PoolEventReason.INVALID, state.pool.problem))
    if state.rival:
        text = f"ClusterResource {state.rival} is older and has the same resourceName"
        found.append((PoolEventReason.DUPLICATE, text))
    if state.account.debt:
        held, debt = _text(state.account.charged, state.account), _text(state.account.debt)
        text = f"pods hold {held} of {state.pool.capacity}: {debt} more than the capacity"
        found.append((PoolEventReason.OVERDRAWN, text))
    return found


def wanted_status(report: PoolReport, now: datetime, before: Mapping[str, Json]) -> dict[str, Json]:
    """The whole status of a pool. `before` is the one that was written last."""
    state = report.state
    pool, account = state.pool, state.account
    problems = dict(_warnings(state))
    unusable = [
        each for each in (PoolEventReason.INVALID, PoolEventReason.DUPLICATE) if each in problems
    ]
    ready = unusable[0] if unusable else PoolEventReason.IN_USE
    overdrawn = PoolEventReason.OVERDRAWN if account.debt else PoolEventReason.COVERED
    since = _since(now, before)
    shares = sorted(state.shares.items(), key=lambda item: (item[1].free, item[0]))
    return {
        "observedGeneration": pool.generation,
        "capacity": str(pool.capacity),
        "used": _text(account.charged, account),
        "reserved": _text(account.promised, account),
        "available": _text(max(0, account.free), account),
        "waitingPods": report.waiting_pods,
        "waiting": _text(report.waiting_nanos, account),
        "shares": [_share(name, place, each) for (name, place), each in shares[:SHARES_SHOWN_MAX]],
        "conditions": [
            _condition("Ready", not unusable, _Cause(ready, problems.get(ready, "")), pool, since),
            _condition(
                "Overdrawn",
                bool(account.debt),
                _Cause(overdrawn, problems.get(overdrawn, "")),
                pool,
                since,
            ),
        ],
    }


def _share(name: str, namespace: str, account: Account) -> Json:
    place: dict[str, Json] = {"namespace": namespace} if namespace else {}
    return {
        "name": name,
        **place,
        "maximum": str(account.hard_quantity),
        "used": _text(account.charged, account),
        "reserved": _text(account.promised, account),
    }


class _Cause(NamedTuple):
    reason: PoolEventReason
    message: str


def _condition(
    type: str,
    is_true: bool,  # noqa: FBT001 - the status of the condition
    cause: _Cause,
    pool: Pool,
    since: Callable[[str, str], str],
) -> Json:
    status = "True" if is_true else "False"
    return {
        "type": type,
        "status": status,
        "reason": cause.reason.value,
        "message": cause.message,
        "observedGeneration": pool.generation,
        "lastTransitionTime": since(type, status),
    }


def _since(now: datetime, before: Mapping[str, Json]) -> Callable[[str, str], str]:
    """Says when a condition got its status."""
    known = before.get("conditions")

    def find(type: str, status: str) -> str:
        for each in known if isinstance(known, list) else ():
            if isinstance(each, dict) and (each["type"], each["status"]) == (type, status):
                return str(each["lastTransitionTime"])
        return timestamp(now)

    return find


def _text(nanos: int, account: Account | None = None) -> str:
    shown = Format.DECIMAL_SI if account is None else account.hard_quantity.format
    return str(to_quantity(nanos, shown))
