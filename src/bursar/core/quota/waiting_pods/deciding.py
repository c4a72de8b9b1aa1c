"""Deciding: which waiting pods are released now, in which order, and why the others wait.

A decision can be made in slices. It is a sequence of steps, each of which takes little time
however many pods wait. A slice ends after a number of steps, and the next one goes on where
it ended. Without events in between, the outcome is the same as that of one long decision.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill
from bursar.core.quota.coverage import Coverage
from bursar.core.quota.ledger import Ledger, PodKey
from bursar.core.quota.quota import Order, QuotaKey
from bursar.core.quota.refusal import FOREIGN_POD, Reason, Refusal
from bursar.core.quota.releases import Decisions, Release, Wait
from bursar.core.quota.waiting_pods.ages import Ages
from bursar.core.quota.waiting_pods.groups import WaitingGroup
from bursar.core.quota.waiting_pods.timers import PodTimers
from bursar.core.quota.waiting_pods.waiting_queue import WaitingQueue

MakeRelease: TypeAlias = Callable[[PodKey, PodRow, Bill | None], Release]
"""Makes the reservation of a pod that was found to fit; without a bill it is charged nothing."""


class Decider:
    """Tries the waiting groups in order, and parks those that have to wait."""

    def __init__(
        self,
        ledger: Ledger,
        coverage: Coverage,
        timers: PodTimers,
        make_release: MakeRelease,
        *,
        patience_s: int,
    ) -> None:
        self._ledger, self._coverage, self._timers = ledger, coverage, timers
        self._make_release = make_release
        self._patience_s = patience_s
        self._reports: dict[WaitingGroup, tuple[Refusal, ...]] = {}
        """Groups with members for which no `Wait` has been returned yet."""
        self.ages: Final = Ages()
        self.waiting: Final = WaitingQueue()

    def order_of(self, key: QuotaKey) -> Order:
        covered = self._coverage.quota(key)
        return Order.BACKFILL if covered is None else covered.quota.order

    def decide(self, decisions: Decisions, steps_max: int) -> int:
        """Add to the decisions. Returns how many steps are left; 0 if there is more to do."""
        freed, waiting = self._ledger.freed, self.waiting
        for key in waiting.turns.overdue():
            waiting.end_turn(key)
        for key in waiting.turns.pop_rested():
            self._begin_turn(key)
        if not waiting.is_anything_parked:
            freed.clear()
        waiting.drop_paused(freed)
        left = steps_max
        while left > 0:
            if freed:
                account, _ = freed.popitem()
                waiting.wake(account)
                self._begin_turn(account.quota)
                left -= 1
            elif self._reports:
                self._report_one(decisions)
                left -= 1
            else:
                group = waiting.pop()
                if group is None:
                    return left
                self._try(group, decisions)
                left -= group.bill.steps
        return 0

    def _try(self, group: WaitingGroup, decisions: Decisions) -> None:
        """Release the first pod of a group, or park the group."""
        row = group.head()
        if self._coverage.is_exempt(row.namespace):
            self._release(row, None, decisions)
            return
        if not group.bill.fits():
            short = group.bill.short_items()
            self.waiting.park(group, ((account, nanos) for account, nanos, _ in short))
            is_hopeless = any(nanos > account.hard for account, nanos, _ in short)
            self._hold(group, row, () if is_hopeless else [account for account, _, _ in short])
            reason = Reason.QUOTA_TOO_SMALL if is_hopeless else Reason.QUOTA_EXCEEDED
            self.waiting.set_reason(group, reason)
            if group.unreported:
                self._reports[group] = group.bill.refusals()
            return
        ahead = self.waiting.holder_before(group)
        if ahead is None:
            self._release(row, group.bill, decisions)
            return
        key, holder = ahead
        self.waiting.hold(group, ())
        self.waiting.park_behind(group, key)
        self.waiting.set_reason(group, Reason.BEHIND_ANOTHER)
        if group.unreported:
            # The owner of the pod reads this, and may not read pods of other namespaces.
            is_own = holder.namespace == group.namespace
            behind = str(PodKey(holder.namespace, holder.head().name)) if is_own else FOREIGN_POD
            refusal = Refusal(reason=Reason.BEHIND_ANOTHER, quota=key, detail=behind)
            self._reports[group] = (refusal,)

    def _release(self, row: PodRow, bill: Bill | None, decisions: Decisions) -> None:
        pod = PodKey(row.namespace, row.name)
        decisions.releases.append(self._make_release(pod, row, bill))
        if bill is not None and bill.shared:
            self.waiting.turns.note_release(pod.namespace, bill.shared)
        self.waiting.leave(pod)

    def _hold(self, group: WaitingGroup, row: PodRow, short: "list[Account] | tuple[()]") -> None:
        """Keep others from passing: at once under strict order, else when patience ends.

        `short` is empty for a group that can never fit: it must not hold up pods that can.
        """
        quotas = {account.quota for account in short}
        patient_until_s = self.ages.waiting_since_s(row) + self._patience_s
        if quotas and patient_until_s > self.waiting.turns.now_s:
            quotas = {key for key in quotas if self.order_of(key) is not Order.BACKFILL}
            self._timers.set(patient_until_s, PodKey(row.namespace, row.name))
        self.waiting.hold(group, quotas)
        for key in quotas:
            self._begin_turn(key)

    def _begin_turn(self, key: QuotaKey) -> None:
        """Let a namespace hold a cluster-wide quota, if any namespace may.

        Among several namespaces, the one whose last turn is the longest ago is next.
        """
        turns = self.waiting.turns
        if key.namespace or not turns.may_begin(key):
            return
        holders = self.waiting.first_holders(key)
        holders.sort(key=lambda each: (turns.last_hold(key, each.namespace), each.held_rank))
        for holder in holders:
            if self._needs_others_to_leave(holder.bill):
                turns.begin(key, holder.namespace)
                return

    def _needs_others_to_leave(self, bill: Bill) -> bool:
        """Whether a pod would fit if the pods of all other namespaces had ended.

        If not, the pod waits for pods of its own namespace, and holding up others does not help it.
        """
        for account, nanos, _ in bill.items:
            if account.quota.namespace and nanos > account.free:
                return False
        for share, nanos, _ in bill.shares:
            covered = self._coverage.quota(share.quota)
            if covered is None or share.charged + nanos > covered.accounts[share.resource].hard:
                return False
        return True

    def _report_one(self, decisions: Decisions) -> None:
        group = next(iter(self._reports))
        if group.unreported:
            name, _ = group.unreported.popitem()
            wait = Wait(row=group.members[name].row, refusals=self._reports[group])
            decisions.waits.append(wait)
        if not group.unreported:
            group.unreported.clear()  # Its table keeps the memory of the names until then.
            del self._reports[group]
