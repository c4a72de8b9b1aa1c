"""Accounts: one number per quota and resource, and the bills that say what a pod adds to them.

This is the hot part of the books. Amounts are whole nanos, and a bill holds the accounts
themselves, so that charging a pod is a handful of additions. Bills are shared by all pods
that are alike.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from bursar.core.model.int64 import INT64_MAX
from bursar.core.model.pod_row import PodProfile
from bursar.core.model.quantity import NANO, NANOS_PER_UNIT, Format, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Refusal, Shortage, refusals_of

FORMATS: Final = (Format.BINARY_SI, Format.DECIMAL_SI, Format.DECIMAL_EXPONENT)
"""In this order where as many pods speak for one as for another."""
_FORMAT_INDEX: Final = {each: index for index, each in enumerate(FORMATS)}


class Charge:
    """What one pod costs, by resource name. All pods that cost the same share one.

    Compared by identity, so that a table can be kept of what was worked out before.
    """

    __slots__ = ("amounts",)

    def __init__(self, amounts: ResourceList) -> None:
        self.amounts: Final = {
            name: (amount.nanos, _FORMAT_INDEX[amount.format])
            for name, amount in amounts.items()
            if amount.nanos
        }
        """Nanos and format of everything that is not zero."""

    def quantity(self, name: str) -> Quantity:
        nanos, index = self.amounts[name]
        return shown(nanos, FORMATS[index])


NO_CHARGE: Final = Charge({})


def shown(nanos: int, format: Format) -> Quantity:
    """An amount for people, in the given family of suffixes."""
    whole, rest = divmod(nanos, NANOS_PER_UNIT)
    if rest == 0:
        return Quantity(nanos, format, 0, big=abs(whole) > INT64_MAX)
    return Quantity(nanos, format, NANO, big=abs(nanos) > INT64_MAX)


class Account:
    """How much of one resource may be used under one quota, and how much is."""

    __slots__ = ("charged", "hard", "hard_quantity", "promised", "quota", "resource", "speakers")

    def __init__(self, quota: QuotaKey, resource: str, hard: Quantity) -> None:
        self.quota: Final = quota
        self.resource: Final = resource
        self.hard_quantity = hard
        self.hard = hard.nanos
        self.charged = 0
        """What the pods we know of use."""
        self.promised = 0
        """What reservations hold on top of that."""
        self.speakers = [0, 0, 0]
        """How many pods state their amount in which format."""

    def set_hard(self, hard: Quantity) -> None:
        self.hard_quantity, self.hard = hard, hard.nanos

    @property
    def room(self) -> int:
        """What is left, in nanos; below zero while there is a debt."""
        return self.hard - self.charged - self.promised

    @property
    def debt(self) -> int:
        """By how much it is overdrawn, as after its limit was lowered; nanos."""
        return max(0, -self.room)

    @property
    def format(self) -> Format:
        """The one most pods speak; a sum of many formats has none of its own."""
        if not any(self.speakers):
            return Format.DECIMAL_SI
        return FORMATS[self.speakers.index(max(self.speakers))]

    @property
    def used(self) -> Quantity:
        """What to report: what pods use, without what is only promised."""
        return shown(self.charged, self.format)

    def shortage(self, nanos: int, format_index: int) -> Shortage:
        """What is said to somebody who wants that much more, and cannot have it."""
        taken, own = self.charged + self.promised, FORMATS[format_index]
        return Shortage(
            quota=self.quota,
            resource=self.resource,
            requested=shown(nanos, own),
            used=shown(taken, self.format if any(self.speakers) else own),
            hard=self.hard_quantity,
        )


class Item(NamedTuple):
    """One item of a bill: how much of which account, and the format it was stated in."""

    account: Account
    nanos: int
    format_index: int


class Bill:
    """What a pod adds to which accounts. Pods that are alike share one."""

    __slots__ = ("charge", "items", "profile", "quotas", "shares")

    def __init__(
        self,
        profile: PodProfile,
        charge: Charge,
        items: Iterable[Item] = (),
        shares: Iterable[Item] = (),
    ) -> None:
        self.profile: Final = profile
        self.charge: Final = charge
        self.items: Final = tuple(items)
        """What must fit. Accounts of one quota stand together, sorted by resource."""
        self.shares: Final = tuple(shares)
        """Kept for the record: the part a namespace has in a cluster-wide quota."""
        self.quotas: Final = frozenset(item.account.quota for item in self.items)

    def fits(self) -> bool:
        for account, nanos, _ in self.items:
            if nanos > account.hard - account.charged - account.promised:
                return False
        return True

    def short_items(self) -> list[Item]:
        """The items for which there is no room."""
        if self.fits():
            return []
        return [item for item in self.items if item.nanos > item.account.room]

    def refusals(self) -> tuple[Refusal, ...]:
        """One for each quota that is short; none if it fits."""
        return refusals_of(
            account.shortage(nanos, format_index)
            for account, nanos, format_index in self.short_items()
        )

    def charge_once(self) -> None:
        for account, nanos, format_index in self.items:
            account.charged += nanos
            account.speakers[format_index] += 1
        for account, nanos, format_index in self.shares:
            account.charged += nanos
            account.speakers[format_index] += 1

    def discharge_once(self) -> None:
        for account, nanos, format_index in self.items:
            account.charged -= nanos
            account.speakers[format_index] -= 1
        for account, nanos, format_index in self.shares:
            account.charged -= nanos
            account.speakers[format_index] -= 1
