"""Drift: whether the ledger equals a recount of all pods.

A difference is a defect of the books. Changes reach the ledger shortly after the informer's
cache, so a difference counts only if it is still there in several counts in a row. Other tasks
run while all pods are counted, and at most one hundredth of the time is spent on it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from bursar.app.cluster.ports import Clock
from bursar.app.quota.quota_loop import QuotaLoop
from bursar.app.quota.sources import QuotaSources
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import Format, Quantity
from bursar.core.quota.account import Account, Charge, to_quantity
from bursar.core.quota.counting import Count, NotReady
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.names import Unit, unit_of
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.views.recount import Recount

PAUSE_SECONDS: Final = 60.0
"""Shortest pause between two checks."""
PAUSE_PER_WORK: Final = 100
"""How many times longer the pause is than the count before it."""
COUNTS: Final = 3
"""How many counts in a row a difference must be found in."""
COUNT_SECONDS: Final = 1.0
"""Pause between these counts."""
TURN: Final = 256
"""Pods that are counted before other tasks run. They run between any two quotas as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The result of the latest check."""

    accounts: int
    """Number of accounts that differ."""
    largest: Mapping[Unit, Quantity]
    """The largest difference by unit, without its sign."""
    count_seconds: float
    """How long one count took."""


class DriftCheck:
    """Compares the ledger with a recount from time to time. Run it beside the quota loop."""

    def __init__(self, loop: QuotaLoop, sources: QuotaSources, count: Count, clock: Clock) -> None:
        self._loop, self._sources = loop, sources
        self._count, self._clock = count, clock
        self._count_seconds = 0.0
        self.latest: Drift | None = None
        """None before the first check."""
        self.counts: int = 0
        """How many times all pods were counted."""

    async def run(self) -> NoReturn:
        while True:
            await self._clock.sleep(max(PAUSE_SECONDS, PAUSE_PER_WORK * self._count_seconds))
            if self._loop.is_synced:
                await self.check()

    async def check(self) -> None:
        """Compare now, and again while something differs."""
        differing = await self._timed_differences()
        for _ in range(COUNTS - 1):
            if not differing:
                break
            await self._clock.sleep(COUNT_SECONDS)
            again = await self._timed_differences()
            differing = {account: again[account] for account in differing if account in again}
        self.latest = Drift(
            accounts=len(differing),
            largest=_largest(differing),
            count_seconds=self._count_seconds,
        )

    async def _timed_differences(self) -> dict[Account, int]:
        began = self._clock.monotonic()
        differing = {account: nanos for account, nanos in await self._differences() if nanos}
        self.counts += 1
        self._count_seconds = self._clock.monotonic() - began
        return differing

    async def _differences(self) -> list[tuple[Account, int]]:
        """Compare what the ledger holds now with the pods that are known now."""
        sources, found = self._sources, list[tuple[Account, int]]()
        now_s = int(self._clock.now().timestamp())
        rows = sources.pods.snapshot().objects()
        namespaces = [seen.item for seen in sources.namespaces.snapshot().objects()]
        # A ResourceQuota also counts gated pods, which the ledger does not.
        quotas = [
            (covered.quota, [(each, each.charged) for each in covered.accounts.values()])
            for covered in self._loop.books.coverage.quotas()
            if covered.quota.key.kind is not QuotaKind.NATIVE
        ]
        recount = Recount((), now_s, self._charge_of)
        for number, row in enumerate(rows, 1):
            recount.add(row)
            if number % TURN == 0:
                await asyncio.sleep(0)
        for quota, charges in quotas:
            counted = recount.used(quota, namespaces)
            for account, charged in charges:
                amount = counted.get(account.resource)
                found.append((account, charged - (amount.nanos if amount else 0)))
            await asyncio.sleep(0)
        return found

    def _charge_of(self, row: PodRow) -> Charge:
        """What the counter says; if it is not ready, what the ledger holds for the pod."""
        counted = self._count(row)
        if not isinstance(counted, NotReady):
            return counted
        held = self._loop.books.ledger.bill_of(PodKey(row.namespace, row.name))
        return counted.provisional if held is None else held.charge


def _largest(differing: Mapping[Account, int]) -> dict[Unit, Quantity]:
    largest = dict.fromkeys(Unit, 0)
    for account, nanos in differing.items():
        unit = unit_of(account.resource)
        largest[unit] = max(largest[unit], abs(nanos))
    return {unit: to_quantity(nanos, Format.DECIMAL_SI) for unit, nanos in largest.items()}
