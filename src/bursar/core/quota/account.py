"""Accounts: one number per quota and resource, and the bills that say what a pod adds to them.

This is the hot part of the books. Amounts are whole nanos, and a bill holds the accounts
themselves, so that charging a pod is a few additions. Pods that are alike share one bill.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import repeat
from typing import Final, TypeAlias

from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.core.model.pod_row import PodProfile
from bursar.core.model.quantity import NANO, NANOS_PER_UNIT, Format, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Refusal, Shortage, refusals_of
from bursar.core.quota.usage import is_always_counted

FORMATS: Final = (Format.BINARY_SI, Format.DECIMAL_SI, Format.DECIMAL_EXPONENT)
"""If two formats are used by the same number of pods, the first of them is shown."""
BILL_BYTES: Final = 256
ITEM_BYTES: Final = 100
"""Approximate bytes of a bill, and of one item of it."""
ITEMS_PER_STEP: Final = 16
"""Items of a bill that take one step. Most bills have fewer."""
ASKED_MAX: Final = 2048
"""Most names that a charge of very many remembers to have been asked for, beyond one question. A
tenant can write quotas with other names all the time; a pod is charged under 256 of them."""
_NONE: Final = (0, 0)
_FORMAT_INDEX: Final = {each: index for index, each in enumerate(FORMATS)}


AmountsIn: TypeAlias = Callable[[Collection[str]], ResourceList]
"""What a pod costs, with at least these names."""


class Charge:
    """What one pod costs, by resource name. All pods that cost the same share one object.

    Charges are compared by identity, so that bills can be looked up by it.
    """

    __slots__ = ("__weakref__", "_amounts_in", "_asked", "amounts")

    def __init__(self, amounts: ResourceList, amounts_in: AmountsIn | None = None) -> None:
        """`amounts_in` counts names that are not in `amounts`, if the pod has very many."""
        self.amounts: Final = _in_nanos(amounts)
        """Nanos and index of the format of each amount that is not zero.

        If the pod has very many names, only those that `amounts_of` was asked for.
        """
        self._amounts_in: Final = amounts_in
        self._asked: set[str] | None = None if amounts_in is None else set()

    @property
    def is_wide(self) -> bool:
        """Whether the pod has so many names that each is counted only if a quota limits it."""
        return self._amounts_in is not None

    def amounts_of(self, names: Iterable[str]) -> Mapping[str, tuple[int, int]]:
        """`amounts`, with at least these names."""
        if self._amounts_in is not None and self._asked is not None:
            wanted = {name for name in names if not is_always_counted(name)}
            missing = wanted - self._asked
            if missing:
                if len(self._asked) + len(missing) > ASKED_MAX:
                    for name in self._asked - wanted:
                        self.amounts.pop(name, None)
                    self._asked &= wanted
                found = _in_nanos(self._amounts_in(missing))
                self.amounts.update({name: found[name] for name in missing if name in found})
                self._asked |= missing
        return self.amounts


def _in_nanos(amounts: ResourceList) -> dict[str, tuple[int, int]]:
    """Nanos and index of the format of each amount that is not zero.

    An amount with two names, such as cpu and requests.cpu, becomes one shared pair.
    """
    pairs = {
        id(amount): (amount.nanos, _FORMAT_INDEX[amount.format]) for amount in amounts.values()
    }
    return {name: pairs[id(amount)] for name, amount in amounts.items() if amount.nanos}


NO_CHARGE: Final = Charge({})


def greater_charge(one: Charge, other: Charge) -> Charge:
    """The greater amount of two charges under each name."""

    def amounts_in(names: Collection[str]) -> ResourceList:
        mine, theirs = one.amounts_of(names), other.amounts_of(names)
        greater = {name: max(mine.get(name, _NONE), theirs.get(name, _NONE)) for name in names}
        return {name: to_quantity(pair[0], FORMATS[pair[1]]) for name, pair in greater.items()}

    is_wide = one.is_wide or other.is_wide
    known = amounts_in(one.amounts.keys() | other.amounts.keys())
    return Charge(known, amounts_in if is_wide else None)


def to_quantity(nanos: int, format: Format) -> Quantity:
    """The amount as a quantity of the given format."""
    whole, rest = divmod(nanos, NANOS_PER_UNIT)
    if rest == 0:
        return Quantity(nanos, format, 0, big=abs(whole) > INT64_MAX)
    return Quantity(nanos, format, NANO, big=abs(nanos) > INT64_MAX)


class Account:
    """Limit and usage of one resource under one quota."""

    __slots__ = (
        "charged",
        "format_counts",
        "hard",
        "hard_quantity",
        "promised",
        "quota",
        "resource",
    )

    def __init__(self, quota: QuotaKey, resource: str, hard: Quantity) -> None:
        self.quota: Final = quota
        self.resource: Final = resource
        self.hard_quantity = hard
        self.hard = hard.nanos
        self.charged = 0
        """What the known pods use, in nanos."""
        self.promised = 0
        """What reservations hold on top of `charged`, in nanos."""
        self.format_counts = [0, 0, 0]
        """Number of pods by the format of their amount."""

    def set_hard(self, hard: Quantity) -> None:
        self.hard_quantity, self.hard = hard, hard.nanos

    @property
    def free(self) -> int:
        """What is left, in nanos; negative while there is a debt."""
        return self.hard - self.charged - self.promised

    @property
    def debt(self) -> int:
        """By how much the account is overdrawn, for example after a lower limit; in nanos."""
        return max(0, -self.free)

    @property
    def format(self) -> Format:
        """The format that most pods use."""
        if not any(self.format_counts):
            return Format.DECIMAL_SI
        return FORMATS[self.format_counts.index(max(self.format_counts))]

    @property
    def used(self) -> Quantity:
        """The usage to report: what is charged, without what is only promised."""
        return to_quantity(self.charged, self.format)

    def shortage(self, nanos: int, format_index: int) -> Shortage:
        """The shortage of a pod that wants this amount more than there is."""
        taken, own = self.charged + self.promised, FORMATS[format_index]
        return Shortage(
            quota=self.quota,
            resource=self.resource,
            requested=to_quantity(nanos, own),
            used=to_quantity(taken, self.format if any(self.format_counts) else own),
            hard=self.hard_quantity,
        )


Item: TypeAlias = tuple[Account, int, int]
"""One item of a bill: the account, the amount in nanos, and the index of its format.

A plain tuple, because each decision unpacks every item of a bill: Python unpacks a named tuple
several times more slowly.
"""


@lru_cache(maxsize=1024)
def _same_sets(quotas: frozenset[QuotaKey]) -> tuple[frozenset[QuotaKey], frozenset[QuotaKey]]:
    """The quotas and the cluster-wide ones, as the same objects for all bills of these quotas."""
    return quotas, frozenset(key for key in quotas if not key.namespace)


class Bill:
    """What a pod adds to which accounts. Pods that are alike share one object."""

    __slots__ = (
        "__weakref__",
        "charge",
        "is_fifo",
        "items",
        "profile",
        "quotas",
        "shared",
        "shares",
    )

    def __init__(
        self,
        profile: PodProfile,
        charge: Charge,
        items: Iterable[Item] = (),
        shares: Iterable[Item] = (),
        *,
        is_fifo: bool = False,
    ) -> None:
        self.profile: Final = profile
        self.charge: Final = charge
        self.items: Final = tuple(items)
        """What must fit: the accounts of one quota after those of another, sorted by resource."""
        self.shares: Final = tuple(shares)
        """What is added to the namespace's share of cluster-wide quotas. Shares limit nothing."""
        self.quotas, self.shared = _same_sets(
            frozenset(account.quota for account, _, _ in self.items)
        )
        """The quotas, and those of them that are cluster-wide."""
        self.is_fifo: Final = is_fifo
        """Whether the order of one of the quotas ignores priority."""

    @property
    def steps(self) -> int:
        """How many steps it takes to try this bill, or to replace it: more if it is long."""
        return 1 + len(self.items) // ITEMS_PER_STEP

    def take_steps(self) -> Iterator[None]:
        return repeat(None, self.steps)

    def weigh(self) -> int:
        """Approximate bytes in memory, the demand included."""
        items = len(self.items) + len(self.shares)
        return BILL_BYTES + ITEM_BYTES * items + self.profile.demand.weight

    def fits(self) -> bool:
        for account, nanos, _ in self.items:
            if nanos > account.hard - account.charged - account.promised:
                return False
        return True

    def short_items(self) -> list[Item]:
        """The items that do not fit."""
        return [item for item in self.items if item[1] > item[0].free]

    def refusals(self) -> tuple[Refusal, ...]:
        """One for each quota that is short; none if the bill fits."""
        return refusals_of(
            account.shortage(nanos, format_index)
            for account, nanos, format_index in self.short_items()
        )

    def charge_once(self) -> None:
        for account, nanos, format_index in self.items:
            account.charged += nanos
            account.format_counts[format_index] += 1
        for account, nanos, format_index in self.shares:
            account.charged += nanos
            account.format_counts[format_index] += 1

    def discharge_once(self) -> None:
        for account, nanos, format_index in self.items:
            account.charged -= nanos
            account.format_counts[format_index] -= 1
        for account, nanos, format_index in self.shares:
            account.charged -= nanos
            account.format_counts[format_index] -= 1
