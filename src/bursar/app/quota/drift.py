"""Drift: whether the ledger equals a recount of all pods.

A difference is a defect of the books. Changes reach the ledger shortly after the informer's
cache, so a difference counts only if it is still there in several counts in a row. A count
blocks the event loop, so at most one hundredth of the time is spent on counting.
"""

from collections.abc import Iterator, Mapping
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
        differing = self._timed_differences()
        for _ in range(COUNTS - 1):
            if not differing:
                break
            await self._clock.sleep(COUNT_SECONDS)
            again = self._timed_differences()
            differing = {account: again[account] for account in differing if account in again}
        self.latest = Drift(
            accounts=len(differing),
            largest=_largest(differing),
            count_seconds=self._count_seconds,
        )

    def _timed_differences(self) -> dict[Account, int]:
        began = self._clock.monotonic()
        differing = {account: nanos for account, nanos in self._differences() if nanos}
        self.counts += 1
        self._count_seconds = self._clock.monotonic() - began
        return differing

    def _differences(self) -> Iterator[tuple[Account, int]]:
        sources = self._sources
        now_s = int(self._clock.now().timestamp())
        recount = Recount(sources.pods.snapshot().objects(), now_s, self._charge_of)
        namespaces = [seen.item for seen in sources.namespaces.snapshot().objects()]
        for covered in self._loop.books.coverage.quotas():
            if covered.quota.key.kind is QuotaKind.NATIVE:
                continue  # A ResourceQuota also counts gated pods, which the ledger does not.
            counted = recount.used(covered.quota, namespaces)
            for name, account in covered.accounts.items():
                amount = counted.get(name)
                yield account, account.charged - (amount.nanos if amount else 0)

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
