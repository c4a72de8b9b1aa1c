"""Drift: whether the ledger still says what counting all pods anew says.

The two are kept by different code from the same watch, so a difference is a fault of
ours. Changes reach the ledger a moment after the informer's cache; what differs at one
look and not at the next was only on its way. Counting takes time in which nothing else
is done, so it is done for at most one hundredth of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from bursar.app.cluster.ports import Clock
from bursar.app.quota.desk import Desk, Sources
from bursar.core.model.quantity import Format, Quantity
from bursar.core.quota.account import Account, shown
from bursar.core.quota.counting import Counter
from bursar.core.quota.names import Unit, unit_of
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.recount import Census

PAUSE_SECONDS: Final = 60.0
REST_PER_WORK: Final = 100
"""How much longer to rest than to count."""
LOOKS: Final = 3
LOOK_SECONDS: Final = 1.0
"""Between two looks at what differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What the latest count found."""

    accounts: int
    """How many differ."""
    largest: Mapping[Unit, Quantity]
    """By how much at most, whichever way; amounts of one unit can be compared."""
    count_seconds: float
    """How long one count took."""


class _Difference(NamedTuple):
    account: Account
    nanos: int


class DriftWatch:
    """Compares from time to time. `run` it beside the desk, for as long as that runs."""

    def __init__(self, desk: Desk, sources: Sources, counter: Counter, clock: Clock) -> None:
        self._desk, self._sources = desk, sources
        self._counter, self._clock = counter, clock
        self._count_seconds = 0.0
        self._latest: Drift | None = None
        self.counts: int = 0
        """How often everything was counted."""

    @property
    def latest(self) -> Drift | None:
        """None until there has been a first count."""
        return self._latest

    async def run(self) -> NoReturn:
        while True:
            await self._clock.sleep(max(PAUSE_SECONDS, REST_PER_WORK * self._count_seconds))
            if self._desk.is_open:
                await self.look()

    async def look(self) -> None:
        """Compare now, and again if something differs."""
        differing = self._timed_differences()
        for _ in range(LOOKS - 1):
            if not differing:
                break
            await self._clock.sleep(LOOK_SECONDS)
            again = self._timed_differences()
            differing = {account: again[account] for account in differing if account in again}
        self._latest = Drift(
            accounts=len(differing),
            largest=_largest(differing),
            count_seconds=self._count_seconds,
        )

    def _timed_differences(self) -> dict[Account, int]:
        began = self._clock.monotonic()
        differing = {each.account: each.nanos for each in self._differences() if each.nanos}
        self.counts += 1
        self._count_seconds = self._clock.monotonic() - began
        return differing

    def _differences(self) -> Iterator[_Difference]:
        sources = self._sources
        now_s = int(self._clock.now().timestamp())
        census = Census(sources.pods.snapshot().objects(), now_s, counter=self._counter)
        namespaces = [
            sources.targeting.namespace(seen.item)
            for seen in sources.namespaces.snapshot().objects()
        ]
        for covered in self._desk.books.coverage.quotas():
            if covered.quota.key.kind is QuotaKind.NATIVE:
                continue  # It counts pods at the gate as well, which the ledger does not.
            counted = census.used(covered.quota, namespaces)
            for name, account in covered.accounts.items():
                amount = counted.get(name)
                yield _Difference(account, account.charged - (amount.nanos if amount else 0))


def _largest(differing: Mapping[Account, int]) -> dict[Unit, Quantity]:
    largest = dict.fromkeys(Unit, 0)
    for account, nanos in differing.items():
        unit = unit_of(account.resource)
        largest[unit] = max(largest[unit], abs(nanos))
    return {unit: shown(nanos, Format.DECIMAL_SI) for unit, nanos in largest.items()}
