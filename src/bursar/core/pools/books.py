"""The books of pools: facts of the cluster go in, decisions about pods come out.

The accounts and entries are those of quotas (`core/quota`): one account for the pool, one for each
share that covers the namespace, and a bill that has to fit all of them. A bound pod is charged. A
pod between filter and the watch event that shows it bound has a reservation.

What a crash may not lose is in the API server: the bound pods. New books that have read all pods
are complete. A hold that a crash loses belongs to a pod that is not bound; the pod is scheduled
again and checked again at bind.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from bursar.core.model.names import is_extended
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.pools.accounts import PoolAccounts, PoolState
from bursar.core.pools.holds import Hold, Holds, HoldState, Lapses
from bursar.core.pools.pool import Pool
from bursar.core.pools.refusal import PoolReason, PoolRefusal, no_pool, refusal_of
from bursar.core.quota.account import NO_CHARGE, Account, Bill
from bursar.core.quota.ledger import Ledger, PodKey, Reservation


class PoolBooks:
    def __init__(self, holds: Holds | None = None) -> None:
        self._accounts: Final = PoolAccounts()
        self._ledger: Final = Ledger()
        self.holds: Final = Holds() if holds is None else holds
        self._lapses: Final = Lapses()
        self._pods: dict[PodKey, PodRow] = {}
        """Pods that request extended resources, as the watch showed them last."""
        self._by_uid: dict[str, PodKey] = {}
        self._refused: dict[str, None] = {}
        """Uids of pods that filter refused last, and that the watch shows without a node."""
        self.lapsed = 0
        """Holds that ended without a bound pod, since the start."""

    # ------------------------------------------------------------------ facts

    def see_pool(self, pool: Pool) -> None:
        if self._accounts.see_pool(pool):
            self._rebill(self._namespaces())

    def lose_pool(self, name: str) -> None:
        if self._accounts.lose_pool(name):
            self._rebill(self._namespaces())

    def see_namespace(self, namespace: NamespaceObject) -> None:
        if self._accounts.see_namespace(namespace):
            self._rebill([namespace.name])

    def lose_namespace(self, name: str) -> None:
        # Kubernetes deletes the pods of a namespace before it. If the watch shows their deletion
        # later, they stay charged until then.
        self._accounts.lose_namespace(name)

    def see_pod(self, row: PodRow) -> None:
        key, uid = PodKey(row.namespace, row.name), row.stamp.uid
        known = self._pods.get(key)
        if known is not None and known.stamp.uid != uid:
            self._forget(key, known)
            known = None
        if not _is_relevant(row):
            return
        self._pods[key], self._by_uid[uid] = row, key
        if row.is_terminated or row.node_name:
            self._refused.pop(uid, None)
        if row.is_terminated or not row.node_name:
            self._ledger.discharge(key)
            if row.is_terminated:
                self._end_hold(uid)
            return
        if known is None or known.profile is not row.profile or self._ledger.bill_of(key) is None:
            self._ledger.charge(key, self._bill(row))
        self._end_hold(uid)

    def lose_pod(self, row: PodRow) -> None:
        key = PodKey(row.namespace, row.name)
        known = self._pods.get(key)
        self._end_hold(row.stamp.uid)
        if known is not None and known.stamp.uid == row.stamp.uid:
            self._forget(key, known)

    def _forget(self, key: PodKey, row: PodRow) -> None:
        del self._pods[key]
        self._by_uid.pop(row.stamp.uid, None)
        self._refused.pop(row.stamp.uid, None)
        self._ledger.discharge(key)
        self._end_hold(row.stamp.uid)
        self._accounts.forget_shares(key.namespace)

    # ------------------------------------------------------------------ decisions

    def filter(self, row: PodRow, now_s: int) -> tuple[PoolRefusal, ...]:
        """Hold what the pod requests, if it fits; then the refusals are empty."""
        self.expire(now_s)
        uid, key = row.stamp.uid, PodKey(row.namespace, row.name)
        hold = self.holds.find(uid)
        if hold is not None:
            self.holds.extend(hold, now_s)
            return ()
        refusals = self._refusals(row)
        if refusals:
            if uid in self._by_uid:
                self._refused[uid] = None
            return refusals
        self._refused.pop(uid, None)
        bill = self._bill(row)
        if bill.items and not self._lapses.is_suspended(row.namespace, now_s):
            self._ledger.hold(Reservation(uid, bill, key, row, uid))
            self.holds.begin(row, now_s)
        return ()

    def begin_binding(self, row: PodRow, node: str, now_s: int) -> tuple[PoolRefusal, ...]:
        """Hold what the pod requests until the outcome is known; refusals if it does not fit."""
        self.expire(now_s)
        uid = row.stamp.uid
        hold = self.holds.find(uid)
        if hold is not None and hold.state is not HoldState.HELD:
            return (PoolRefusal(reason=PoolReason.BINDING_IN_PROGRESS),)
        if hold is None:
            refusals = self._refusals(row)
            if refusals:
                return refusals
            key = PodKey(row.namespace, row.name)
            self._ledger.hold(Reservation(uid, self._bill(row), key, row, uid))
        self.holds.begin_binding(row, node)
        return ()

    def binding_stored(self, uid: str) -> None:
        """The API server has bound the pod. The hold stays until the watch shows it."""
        self._set_state(uid, HoldState.BOUND)

    def binding_uncertain(self, uid: str) -> None:
        """The binding failed, and the API server may have stored it all the same."""
        self._set_state(uid, HoldState.UNCERTAIN)

    def binding_failed(self, uid: str, now_s: int) -> None:
        """The API server has not bound the pod, and will not any more."""
        hold = self.holds.find(uid)
        if hold is not None:
            self._lapse(hold, now_s)

    def expire(self, now_s: int) -> bool:
        """End the holds of pods that were not bound in time. Returns whether there were any."""
        self._ledger.freed.clear()
        self._ledger.touched.clear()
        expired = self.holds.take_expired(now_s)
        for hold in expired:
            self._lapse(hold, now_s)
        return bool(expired)

    def useful_nodes(self, row: PodRow, victims: Mapping[str, Iterable[str]]) -> list[str]:
        """The nodes on which a preemption lets the pod run; `victims` has uids by node.

        If a pool is short, evicting pods that do not hold enough of it changes nothing.
        """
        if self.holds.find(row.stamp.uid) is not None:
            return list(victims)
        problem = self._problem(row)
        if problem is not None:
            return []
        bill = self._bill(row)
        key = PodKey(row.namespace, row.name)
        return [
            node
            for node, uids in victims.items()
            if _fits_with(bill, self._freed_by(uids), self._ledger.bill_of(key))
        ]

    def take_overlooked(self, looks: int) -> list[PodRow]:
        """Pods that filter refused last and would let pass now, each once per refusal.

        The scheduler tries a refused pod again when it sees an event. It sees no event if a
        capacity is raised or a hold ends. Each call looks at so many pods at most, so that very
        many refused pods do not block the event loop; the next call looks at the next ones.
        """
        found: list[PodRow] = []
        for uid in tuple(islice(self._refused, looks)):
            row = self._pods[self._by_uid[uid]]
            del self._refused[uid]
            if self._refusals(row):
                self._refused[uid] = None
            else:
                found.append(row)
        return found

    # ------------------------------------------------------------------ queries

    def find_pod(self, pod: PodKey, uid: str) -> PodRow | None:
        """The pod of this uid, from its hold or from the watch."""
        hold = self.holds.find(uid)
        if hold is not None:
            return hold.row
        row = self._pods.get(pod)
        return row if row is not None and row.stamp.uid == uid else None

    def is_charged(self, pod: PodKey, uid: str) -> bool:
        """Whether the watch has shown the pod of this uid with a node."""
        row = self._pods.get(pod)
        return row is not None and row.stamp.uid == uid and self._ledger.bill_of(pod) is not None

    @property
    def states(self) -> list[PoolState]:
        """All pools by name, with their accounts."""
        return self._accounts.states

    def waiting_pods(self) -> dict[str, list[tuple[PodRow, int]]]:
        """By pool: the pods that request a part of it and hold nothing, with the nanos wanted."""
        found: dict[str, list[tuple[PodRow, int]]] = {}
        for key, row in self._pods.items():
            for name, nanos in self.waited_for(key):
                found.setdefault(name, []).append((row, nanos))
        return found

    def pod_keys(self) -> list[PodKey]:
        """The pods that request extended resources."""
        return list(self._pods)

    def waited_for(self, pod: PodKey) -> list[tuple[str, int]]:
        """The pools that a pod without a hold waits for, with the nanos that it requests."""
        row = self._pods.get(pod)
        if row is None or row.node_name or row.is_terminated or row.profile.gates:
            return []
        if self.holds.find(row.stamp.uid) is not None:
            return []
        items = ((account.quota.name, nanos) for account, nanos, _ in self._bill(row).items)
        return [(name, nanos) for name, nanos in items if "/" not in name]

    def bound_pods(self) -> dict[str, list[tuple[PodRow, int]]]:
        """By pool: the pods that are charged, with the nanos charged."""
        found: dict[str, list[tuple[PodRow, int]]] = {}
        for key, row in self._pods.items():
            bill = self._ledger.bill_of(key)
            for account, nanos, _ in () if bill is None else bill.items:
                if "/" not in account.quota.name:
                    found.setdefault(account.quota.name, []).append((row, nanos))
        return found

    # ------------------------------------------------------------------ parts

    def _refusals(self, row: PodRow) -> tuple[PoolRefusal, ...]:
        key = PodKey(row.namespace, row.name)
        if self.is_charged(key, row.stamp.uid):
            return ()
        problem = self._problem(row)
        if problem is not None:
            return (problem,)
        short = self._ledger.refusals(key, self._bill(row))
        return tuple(refusal_of(shortage) for each in short for shortage in each.shortages)

    def _problem(self, row: PodRow) -> PoolRefusal | None:
        """Why the pod cannot use its pools, whatever is free; None if it can."""
        names = self._accounts.names_of(row)
        if not names:
            extended = sorted(filter(is_extended, row.demand.quota_requests))
            return no_pool(extended)
        if not self._accounts.is_known(row.namespace):
            return PoolRefusal(reason=PoolReason.NAMESPACE_UNKNOWN)
        return self._accounts.problem_of(row.namespace, names)

    def _bill(self, row: PodRow) -> Bill:
        return Bill(row.profile, NO_CHARGE, self._accounts.items_of(row))

    def _freed_by(self, uids: Iterable[str]) -> dict[Account, int]:
        freed: dict[Account, int] = {}
        for uid in set(uids):
            key = self._by_uid.get(uid)
            bill = None if key is None else self._ledger.bill_of(key)
            for account, nanos, _ in () if bill is None else bill.items:
                freed[account] = freed.get(account, 0) + nanos
        return freed

    def _set_state(self, uid: str, state: HoldState) -> None:
        hold = self.holds.find(uid)
        if hold is not None:
            hold.state = state

    def _end_hold(self, uid: str) -> None:
        self.holds.end(uid)
        self._ledger.cancel(uid)

    def _lapse(self, hold: Hold, now_s: int) -> None:
        self._end_hold(hold.uid)
        self._accounts.forget_shares(hold.row.namespace)
        self._lapses.add(hold.row.namespace, now_s)
        self.lapsed += 1

    def _namespaces(self) -> set[str]:
        held = {hold.row.namespace for hold in self.holds}
        return held | {key.namespace for key in self._pods}

    def _rebill(self, namespaces: Iterable[str]) -> None:
        """Bill charges and holds again, by the present pools, shares and labels."""
        for namespace in namespaces:
            for _ in self._ledger.rebill_steps(namespace, self._rebilled):
                pass

    def _rebilled(self, bill: Bill) -> Bill:
        return Bill(bill.profile, NO_CHARGE, self._accounts.items_of_profile(bill.profile))


def _is_relevant(row: PodRow) -> bool:
    """Whether a pool may have a resource that the pod requests."""
    return row.demand.rest is not None or any(map(is_extended, row.demand.quota_requests))


def _fits_with(bill: Bill, freed: Mapping[Account, int], charged: Bill | None) -> bool:
    held = {} if charged is None else {account: nanos for account, nanos, _ in charged.items}
    return all(
        nanos - held.get(account, 0) <= account.free + freed.get(account, 0)
        for account, nanos, _ in bill.items
    )
