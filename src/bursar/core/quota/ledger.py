"""The ledger: what every pod is charged, and what is promised on top of it.

A *charge* is a fact: a running pod uses this much. A *reservation* is a promise for what is
about to become a fact: a gate that is being lifted, a resize that is being admitted. The caller
chooses its id and ends it. The reservation of a pod states the total that the pod will use, and
holds only what goes beyond the pod's charge. So charge and promise never count twice, in
whichever order they arrive.

The ledger knows neither the time nor the waiting pods. After a change its owner reads `freed`
and `touched`, and empties them.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill, Charge, Item, greater_charge
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Refusal, refusals_of


class PodKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Reservation(NamedTuple):
    """A promise to a pod, under an id."""

    id: str
    bill: Bill
    pod: PodKey
    row: PodRow | None
    """The pod as it will be charged; None if only the amounts are known."""
    uid: str = ""

    def is_for(self, row: PodRow) -> bool:
        """Whether the pod requests what was promised.

        If only the amounts are known, the bill has the profile from before the resize: any
        other demand may be the promised one.
        """
        if self.row is None:
            return self.bill.profile.demand != row.demand
        return self.row.demand == row.demand


class _Promise:
    """All reservations of one pod, and what they hold beyond its charge."""

    __slots__ = ("extra", "reservations")

    def __init__(self) -> None:
        self.reservations: tuple[Reservation, ...] = ()
        """Nearly always one: a tuple is made and dropped sooner than a dictionary."""
        self.extra: tuple[Item, ...] = ()

    def hold(self, bill: Bill) -> None:
        """Hold a whole bill, for a pod without a charge and without another reservation."""
        for account, nanos, _ in bill.items:
            account.promised += nanos
        self.extra = bill.items


class Ledger:
    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Bill]] = {}
        self._reservations: dict[str, Reservation] = {}
        self._promises: dict[str, dict[str, _Promise]] = {}
        """By namespace and name of the pod."""
        self.freed: Final[dict[Account, None]] = {}
        """Accounts in which more is free than before."""
        self.touched: Final = set[QuotaKey]()
        """Quotas whose reported usage may have changed."""

    # ------------------------------------------------------------------ queries

    def bill_of(self, pod: PodKey) -> Bill | None:
        """What the pod is charged; None if it is charged nothing."""
        return self._pods.get(pod.namespace, {}).get(pod.name)

    def pods_of(self, namespace: str) -> Iterator[tuple[str, Bill]]:
        return iter(self._pods.get(namespace, {}).items())

    def charge_meanwhile(self, pod: PodKey, row: PodRow, provisional: Charge) -> Charge:
        """The charge of a running pod that cannot be counted now.

        It is what was promised to the pod for what it requests now, else what it is charged. If it
        requests something else than before without a promise, it is charged the greater of both.
        """
        for reservation in self.reservations_of(pod):
            if reservation.is_for(row):
                return reservation.bill.charge
        held = self.bill_of(pod)
        if held is None:
            return provisional
        if held.profile.demand == row.demand:
            return held.charge
        return greater_charge(held.charge, provisional)

    @property
    def pod_count(self) -> int:
        return sum(map(len, self._pods.values()))

    @property
    def reservation_count(self) -> int:
        return len(self._reservations)

    # ------------------------------------------------------------------ charges

    def charge(self, pod: PodKey, bill: Bill) -> None:
        """Charge the pod this bill instead of the one before."""
        pods = self._pods.setdefault(pod.namespace, {})
        held = pods.get(pod.name)
        if held is bill:
            return
        pods[pod.name] = bill
        bill.charge_once()
        if held is not None:
            held.discharge_once()
            self._note_freed(held)
        self.touched.update(bill.quotas)
        if self._promise_of(pod) is not None:
            self._update_promise(pod)

    def discharge(self, pod: PodKey) -> None:
        """Charge the pod nothing any more."""
        pods = self._pods.get(pod.namespace)
        held = pods.pop(pod.name, None) if pods is not None else None
        if held is None:
            return
        if not pods:
            del self._pods[pod.namespace]
        held.discharge_once()
        self._note_freed(held)
        if self._promise_of(pod) is not None:
            self._update_promise(pod)

    def _note_freed(self, bill: Bill) -> None:
        freed = self.freed
        for account, _, _ in bill.items:
            freed[account] = None
        self.touched.update(bill.quotas)

    # ------------------------------------------------------------------ reservations

    def refusals(self, pod: PodKey, bill: Bill) -> tuple[Refusal, ...]:
        """Why a reservation of this bill would not fit; empty if it would."""
        if self._is_new(pod):
            return bill.refusals()
        promise = self._promise_of(pod)
        extra = {} if promise is None else _by_account(promise.extra)
        short = _shortfalls(bill, self._charged(pod), extra)
        return refusals_of(account.shortage(nanos, index) for account, nanos, index in short)

    def hold(self, reservation: Reservation) -> None:
        """Make a reservation, even if it does not fit.

        It replaces an earlier reservation with the same id.
        """
        reservation_id, bill, pod, _, _ = reservation
        is_new = self._is_new(pod)
        if reservation_id in self._reservations:
            self.cancel(reservation_id)
        self._reservations[reservation_id] = reservation
        namespace, name = pod
        promises = self._promises.get(namespace)
        if promises is None:
            promises = self._promises[namespace] = {}
        promise = promises.get(name)
        if promise is None:
            promise = promises[name] = _Promise()
        promise.reservations += (reservation,)
        if is_new:
            promise.hold(bill)
        else:
            self._update_promise(pod)

    def _is_new(self, pod: PodKey) -> bool:
        """Whether the pod has neither a charge nor a reservation."""
        namespace, name = pod
        pods, promises = self._pods.get(namespace), self._promises.get(namespace)
        return (pods is None or name not in pods) and (promises is None or name not in promises)

    def cancel(self, id: str) -> None:
        """End a reservation. An unknown id is ignored."""
        reservation = self._reservations.pop(id, None)
        if reservation is None:
            return
        pod = reservation.pod
        promises = self._promises[pod.namespace]
        promise = promises[pod.name]
        if len(promise.reservations) > 1:
            promise.reservations = tuple(each for each in promise.reservations if each.id != id)
            self._update_promise(pod)
            return
        del promises[pod.name]
        if not promises:
            del self._promises[pod.namespace]
        freed = self.freed
        for account, nanos, _ in promise.extra:
            account.promised -= nanos
            freed[account] = None

    def reservation(self, id: str) -> Reservation:
        """The reservation of this id. It must exist."""
        return self._reservations[id]

    def reservations_of(self, pod: PodKey) -> tuple[Reservation, ...]:
        promise = self._promise_of(pod)
        return () if promise is None else promise.reservations

    def _promise_of(self, pod: PodKey) -> _Promise | None:
        promises = self._promises.get(pod.namespace)
        return None if promises is None else promises.get(pod.name)

    def _charged(self, pod: PodKey) -> dict[Account, int]:
        bill = self.bill_of(pod)
        return {} if bill is None else _by_account(bill.items)

    def _update_promise(self, pod: PodKey) -> None:
        """Hold exactly what the reservations of a pod exceed its charge by."""
        promise = self._promises[pod.namespace][pod.name]
        before, charged = promise.extra, self._charged(pod)
        wanted: dict[Account, Item] = {}
        for reservation in promise.reservations:
            for account, nanos, index in reservation.bill.items:
                extra = nanos - charged.get(account, 0)
                greatest = wanted.get(account)
                if extra > (0 if greatest is None else greatest[1]):
                    wanted[account] = (account, extra, index)
        promise.extra = tuple(wanted.values())
        for account, nanos, _ in before:
            account.promised -= nanos
            if account not in wanted or nanos > wanted[account][1]:
                self.freed[account] = None
        for account, nanos, _ in promise.extra:
            account.promised += nanos

    # ------------------------------------------------------------------ when quotas change

    def rebill_steps(self, namespace: str, new_bill: Callable[[Bill], Bill]) -> Iterator[None]:
        """Replace every bill of a namespace, for charges and reservations.

        Only the pods that exist at the start: each takes the steps of its bill, at least one.
        Until the last step, accounts hold some of the old amounts and some of the new ones.
        """
        for name in list(self._pods.get(namespace, ())):
            bill = self.bill_of(PodKey(namespace, name))
            if bill is not None:
                bill = new_bill(bill)
                self.charge(PodKey(namespace, name), bill)
                yield from bill.take_steps()
        for name in list(self._promises.get(namespace, ())):
            for each in self.reservations_of(PodKey(namespace, name)):
                # Between two steps it may have ended, or changed its bill.
                reservation = self._reservations.get(each.id)
                if reservation is not None:
                    bill = new_bill(reservation.bill)
                    self.replace_bill(reservation, bill)
                    yield from bill.take_steps()

    def replace_bill(self, reservation: Reservation, bill: Bill) -> None:
        """Let a reservation hold this bill, even if it does not fit: it was promised before."""
        changed = reservation._replace(bill=bill)
        self._reservations[changed.id] = changed
        pod = changed.pod
        promise = self._promises[pod.namespace][pod.name]
        promise.reservations = tuple(
            changed if each.id == changed.id else each for each in promise.reservations
        )
        self._update_promise(pod)


def _by_account(items: tuple[Item, ...]) -> dict[Account, int]:
    return {account: nanos for account, nanos, _ in items}


def _shortfalls(bill: Bill, charged: dict[Account, int], extra: dict[Account, int]) -> list[Item]:
    """The items of a bill whose growth does not fit, each with that growth."""
    short: list[Item] = []
    for account, nanos, index in bill.items:
        growth = nanos - charged.get(account, 0) - extra.get(account, 0)
        if growth > 0 and growth > account.free:
            short.append((account, growth, index))
    return short
