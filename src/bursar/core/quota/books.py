"""The books: all events are recorded here, and only the books decide which pods are released.

Facts go in as plain calls: a pod, quota or namespace was seen or deleted, time has passed, a
gate was lifted or could not be. `decide` returns which gates to lift, each with its
reservation made already, and which pods wait and why. The books know no clock, cluster or
task, so that a test can try every order of events.

The reservation of a release in flight is kept until the watch shows what became of the pod.
An answer that is lost, late or repeated must not free an amount that the pod may already use.

A change that concerns many pods is entered in steps: some at once, the others when `decide` is
called. Nothing is released while such steps are left, because accounts are right only then. A
change of a quota of one namespace holds up the pods of this namespace alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Bill, Charge
from bursar.core.quota.counting import Count, NotReady, RelatedPods
from bursar.core.quota.coverage import Coverage, CoveredQuota, Namespace
from bursar.core.quota.growth.promises import Growth, GrowthRefusals
from bursar.core.quota.ledger import Ledger, PodKey, Reservation
from bursar.core.quota.quota import GATE, Quota, QuotaKey
from bursar.core.quota.refusal import Reason, Refusal, behind_gates
from bursar.core.quota.releases import (
    Backoff,
    Decisions,
    PendingRelease,
    Release,
    ReleaseOutcome,
    Wait,
)
from bursar.core.quota.usage import is_counted
from bursar.core.quota.waiting_pods.blocked import BlockedPods
from bursar.core.quota.waiting_pods.deciding import Decider
from bursar.core.quota.waiting_pods.steps import Changes
from bursar.core.quota.waiting_pods.timers import PodTimers

PATIENCE_SECONDS: Final = 600
"""After this time smaller pods may no longer pass a pod that does not fit."""
UNLIMITED: Final = 2**62


class Books:
    """One set of books. Only one task may use it."""

    def __init__(
        self,
        count: Count,
        *,
        related: RelatedPods | None = None,
        patience_s: int = PATIENCE_SECONDS,
    ) -> None:
        """`related` is told of every pod before it is counted, and names those to count again."""
        self._count, self._related = count, related
        self._now_s = 0
        """Wall clock: deletions and ages of pods. An administrator or NTP may set it back."""
        self._steady_s = 0
        """Monotonic clock: back-offs and retries."""
        self._backoffs: dict[PodKey, Backoff] = {}
        self._pending: dict[PodKey, PendingRelease] = {}
        self._blocked = BlockedPods()
        self._expires_s: dict[PodKey, int] = {}
        """When a pod that is being deleted is charged no longer."""
        self._wall_timers: Final = PodTimers()
        self._steady_timers: Final = PodTimers()
        self._retries: list[Release] = []
        self._waits: list[Wait] = []
        self.ledger: Final = Ledger()
        self.coverage: Final = Coverage()
        self.growth: Final = Growth(self.ledger, self.coverage, count)
        self._decider = Decider(
            self.ledger,
            self.coverage,
            self._steady_timers,
            self._make_release,
            patience_s=patience_s,
        )
        self.waiting: Final = self._decider.waiting
        self.ages: Final = self._decider.ages
        self._changes: Final = Changes(self.waiting.pause, self.waiting.resume)

    @property
    def pending_release_count(self) -> int:
        return len(self._pending)

    def blocked(self) -> Iterator[Wait]:
        """Gated pods that wait for something else than a quota."""
        return (Wait(row=row, refusals=(refusal,)) for row, refusal in self._blocked)

    @property
    def blocked_counts(self) -> Mapping[Reason, int]:
        """How many pods `blocked` returns, by reason."""
        return self._blocked.counts

    def blocked_sizes(self) -> dict[str, int]:
        """By namespace: number of gated pods that do not wait for a quota, ended ones included."""
        return self._blocked.sizes()

    # ------------------------------------------------------------------ pods

    def see_pod(self, row: PodRow) -> None:
        """A pod was created or changed."""
        pod = PodKey(row.namespace, row.name)
        others = () if self._related is None else self._related.see_pod(row)
        if row.profile.gates:
            self._see_gated(pod, row)
        else:
            self._see_ungated(pod, row)
        for other in others:
            self.recount_pod(other)

    def _see_gated(self, pod: PodKey, row: PodRow) -> None:
        self.ledger.discharge(pod)
        pending = self._pending.get(pod)
        if pending is not None:
            if pending.uid == row.uid:
                pending.latest = row
                if not pending.is_unconfirmed or row.stamp == pending.row.stamp:
                    return
            self._end_release(pod)
        self._enqueue(pod, row)

    def _enqueue(self, pod: PodKey, row: PodRow) -> None:
        """Let a pod wait for its quotas, unless something else blocks it."""
        if GATE not in row.profile.gates or row.is_terminated or row.deletion is not None:
            self._dequeue(pod)
            self._blocked.note_ended(pod, row)
            return
        charge = self._charge_or_refusal(pod, row)
        if isinstance(charge, Refusal):
            self._block(pod, row, charge)
            return
        self._blocked.pop(pod)
        age_s = self.ages.note(pod, row, self._now_s, self._steady_s)
        bill = self.coverage.bill(row.profile, charge)
        self.waiting.join(pod, row, bill, age_s, ignores_priority=bill.is_fifo)

    def _charge_or_refusal(self, pod: PodKey, row: PodRow) -> Charge | Refusal:
        """What a gated pod costs, or what it waits for before any quota is asked."""
        gates = row.profile.gates
        if gates != (GATE,):
            self.ages.note_other_gates(row)
            others = [gate for gate in gates if gate != GATE]
            return behind_gates(others, row.profile.gates_left_out)
        refusal = self.coverage.refusal(row.profile)
        if refusal is not None:
            return refusal
        backoff = self._backoffs.get(pod) if self._backoffs else None
        if backoff is not None and backoff.until_s > self._steady_s:
            self._steady_timers.set(backoff.until_s, pod)
            return Refusal(reason=Reason.RELEASE_REFUSED, detail=backoff.detail)
        counted = self._count(row)
        if not isinstance(counted, NotReady):
            return counted
        # If no quota limits the pod, it does not matter what it costs.
        if not self.coverage.is_exempt(pod.namespace) and self.coverage.limits(row.profile):
            return Refusal(reason=Reason.NOT_COUNTED, detail=counted.detail)
        return counted.provisional

    def _block(self, pod: PodKey, row: PodRow, refusal: Refusal) -> None:
        self.waiting.leave(pod)
        before = self._blocked.pop(pod)
        self._blocked.put(pod, row, refusal)
        if refusal.reason is Reason.OTHER_GATES:
            return  # The components that set these gates tell the pod's owner about them.
        if before is None or before.refusal != refusal:
            self._waits.append(Wait(row=row, refusals=(refusal,)))

    def _dequeue(self, pod: PodKey) -> None:
        self.waiting.leave(pod)
        self.ages.forget(pod)
        self._blocked.pop(pod)

    def _see_ungated(self, pod: PodKey, row: PodRow) -> None:
        self._dequeue(pod)
        self._backoffs.pop(pod, None)
        deletion = row.deletion
        if deletion is not None and deletion.grace_s is not None:
            self._expires_s[pod] = deletion.due_s + deletion.grace_s
            self._wall_timers.set(self._expires_s[pod] + 1, pod)
        else:
            self._expires_s.pop(pod, None)
        bill = self._running_bill(pod, row) if is_counted(row, self._now_s) else None
        # The reservation becomes a charge. Nothing is decided in between.
        self._end_release(pod)
        if bill is None:
            self.ledger.discharge(pod)
        else:
            self.ledger.charge(pod, bill)
        if self.growth.by_pod:
            self.growth.see_pod(pod, row)

    def _running_bill(self, pod: PodKey, row: PodRow) -> Bill:
        counted = self._count(row)
        if isinstance(counted, NotReady):
            counted = self.ledger.charge_meanwhile(pod, row, counted.provisional)
        return self.coverage.bill(row.profile, counted)

    def lose_pod(self, namespace: str, name: str, uid: str = "") -> None:
        """A pod was deleted. Reservations of another pod of that name, by uid, are kept."""
        pod = PodKey(namespace, name)
        self._dequeue(pod)
        self._backoffs.pop(pod, None)
        self._expires_s.pop(pod, None)
        self._wall_timers.cancel(pod)
        self._steady_timers.cancel(pod)
        self.ledger.discharge(pod)
        self._end_release(pod)
        if self.growth.by_pod:
            self.growth.lose_pod(pod, uid)
        if self._related is not None:
            for other in self._related.lose_pod(pod):
                self.recount_pod(other)

    def recount_pod(self, row: PodRow) -> None:
        """The counter's answer for this pod may have changed; the pod itself has not.

        A release that is in flight goes on, because its patch may have been applied. From now on
        its reservation holds the new amount, and nothing else is released into it.
        """
        pod = PodKey(row.namespace, row.name)
        for promise in self.ledger.reservations_of(pod):
            if promise.row is None:
                continue  # An earlier leader counted it.
            counted = self._count(promise.row)
            if not isinstance(counted, NotReady):
                self.ledger.replace_bill(promise, self.coverage.bill(promise.row.profile, counted))
        held = self.ledger.bill_of(pod)
        if held is None:
            self._requeue(pod)
            return
        counted = self._count(row)
        if not isinstance(counted, NotReady):
            self.ledger.charge(pod, self.coverage.bill(held.profile, counted))

    # ------------------------------------------------------------------ quotas and namespaces

    def see_quota(self, quota: Quota) -> None:
        """A quota was created or changed."""
        for each in self.coverage.own_limits.put(quota):
            self._enter_quota(each)

    def _enter_quota(self, quota: Quota) -> None:
        known = self.coverage.quota(quota.key)
        if known is not None and known.quota == quota:
            return
        is_own = not quota.key.kind.is_cluster_wide
        for name in self.coverage.put_quota(quota):
            self._rebill(name, is_own=is_own)
        self.ledger.touched.add(quota.key)
        covered = self.coverage.quota(quota.key)
        assert covered is not None, "it was just put there"
        # More may be free now, and a group that could never fit may hold others up, or no longer.
        for name in covered.namespaces:
            self._changes.put("groups", name, self._retry_steps(name), is_own=is_own)
        self._changes.run_some(is_own=is_own)

    def lose_quota(self, key: QuotaKey) -> None:
        is_own = not key.kind.is_cluster_wide
        for name in self.coverage.drop_quota(key):
            self._rebill(name, is_own=is_own)
        self.waiting.turns.forget_quota(key)
        for each in self.coverage.own_limits.drop(key):
            self._enter_quota(each)
        self._changes.run_some(is_own=is_own)

    def see_namespace(self, namespace: Namespace) -> None:
        before = self.coverage.namespace(namespace.name)
        covering = self.coverage.covering(namespace.name)
        if self.coverage.put_namespace(namespace):
            self._rebill(namespace.name, covering)
        if before is None or before.gating != namespace.gating:
            self._changes.put("pods", namespace.name, self._regate_steps(namespace.name))
        self._changes.run_some()

    def lose_namespace(self, name: str) -> None:
        covering = self.coverage.covering(name)
        if self.coverage.drop_namespace(name):
            self._rebill(name, covering)
        self.waiting.turns.forget_namespace(name)
        # Pods of an unknown namespace stay gated, even while the namespace is being deleted.
        self._changes.put("pods", name, self._regate_steps(name))
        self._changes.run_some()

    def _rebill(
        self, namespace: str, left: tuple[CoveredQuota, ...] = (), *, is_own: bool = False
    ) -> None:
        """Bill all pods of a namespace again. `left` are quotas that no longer cover it."""
        self._changes.put("bills", namespace, self._rebill_steps(namespace), is_own=is_own)
        for covered in (*left, *self.coverage.covering(namespace)):
            self.ledger.touched.add(covered.quota.key)

    def _rebill_steps(self, namespace: str) -> Iterator[None]:
        coverage = self.coverage
        yield from self.ledger.rebill_steps(
            namespace, lambda bill: coverage.bill(bill.profile, bill.charge)
        )
        yield from self._requeue_steps(namespace)

    def _regate_steps(self, namespace: str) -> Iterator[None]:
        """Look again at the gated pods of a namespace, which may have to keep their gate now.

        Releases without a quota end: they were decided by the gating before.
        """
        mine = [each for each in self._pending.items() if each[0].namespace == namespace]
        for pod, pending in mine:
            if pending.is_exempt and self._pending.get(pod) is pending:
                self._end_release(pod)
                self._enqueue(pod, pending.latest)
            yield
        yield from self._requeue_steps(namespace)

    def _requeue_steps(self, namespace: str) -> Iterator[None]:
        """Find out again what each gated pod of a namespace waits for."""
        for name in self._blocked.names_in(namespace):
            self._requeue(PodKey(namespace, name))
            yield
        for group in self.waiting.groups_in(namespace):
            for name in list(group.members):
                self._requeue(PodKey(namespace, name))
                yield from group.bill.take_steps()

    def _retry_steps(self, namespace: str) -> Iterator[None]:
        for group in self.waiting.groups_in(namespace):
            if group.members:
                self.waiting.try_again(group)
            yield from group.bill.take_steps()

    def is_catching_up(self, namespace: str) -> bool:
        """Whether accounts that pods of the namespace use are not right yet, after a change."""
        return self._changes.concern(namespace)

    def enter_in_steps(self, steps: Iterator[None]) -> None:
        """Enter a change that concerns many pods. Nothing is released before the last step."""
        self._changes.put_others(steps)
        self._changes.run_some()

    # ------------------------------------------------------------------ time

    def advance(self, now_s: int, steady_s: int | None = None, steps_max: int = UNLIMITED) -> int:
        """Time has passed: `now_s` of the wall clock, `steady_s` of the monotonic clock.

        The wall clock may be set back or forth. Without `steady_s`, the caller has one clock
        that never goes back. Returns how many steps are left. What is due and was not done in this
        number of steps is done by the next `decide`.
        """
        self.set_time(now_s, now_s if steady_s is None else steady_s)
        return self._fire(steps_max)

    def set_time(self, now_s: int, steady_s: int) -> None:
        """Say what time it is before an event is entered. What is due is done by the next `decide`.

        Otherwise a pod that comes after a quiet hour would seem to have waited for an hour.
        """
        self._now_s = now_s
        self._steady_s = self.waiting.turns.now_s = max(steady_s, self._steady_s)

    def _fire(self, steps_max: int) -> int:
        """Do what is due. Returns how many steps are left; 0 if there is more."""
        for left in range(steps_max, 0, -1):
            pod = self._steady_timers.pop_due(self._steady_s)
            if pod is None:
                pod = self._wall_timers.pop_due(self._now_s)
            if pod is None:
                return left
            self._on_timer(pod)
        return 0

    def _on_timer(self, pod: PodKey) -> None:
        expires_s = self._expires_s.get(pod)
        if expires_s is not None:
            if expires_s < self._now_s:
                del self._expires_s[pod]
                self.ledger.discharge(pod)
            else:
                self._wall_timers.set(expires_s + 1, pod)
        self._retry(pod)
        pending = self._pending.get(pod)
        if pending is not None and pending.retry_s is not None:
            if pending.is_due(self._steady_s):
                self._retries.append(Release(row=pending.row, is_exempt=pending.is_exempt))
            self._steady_timers.set(pending.retry_s, pod)

    def _requeue(self, pod: PodKey) -> None:
        """Look again whether a gated pod is blocked, and what it costs."""
        group = self.waiting.group_of(pod)
        if group is not None:
            self._enqueue(pod, group.members[pod.name].row)
        self._retry(pod)

    def _retry(self, pod: PodKey) -> None:
        """Look again at a gated pod that is blocked, or have it tried: its patience may be over."""
        blocked, group = self._blocked.find(pod), self.waiting.group_of(pod)
        if blocked is not None:
            self._enqueue(pod, blocked.row)
        elif group is not None:
            self.waiting.try_again(group)

    @property
    def next_due_s(self) -> int | None:
        """When `advance` has something to do even if nothing happens before.

        It is a time of the wall clock, right as long as that clock is not set.
        """
        wall_s, steady_s = self._wall_timers.next_due_s, self._steady_timers.next_due_s
        steady = (each for each in (steady_s, *self.waiting.turns.due()) if each is not None)
        dues = [wall_s, *(each - self._steady_s + self._now_s for each in steady)]
        return min((due for due in dues if due is not None), default=None)

    # ------------------------------------------------------------------ resizes

    def resize(
        self, row: PodRow, known: PodRow | None, *, until_s: int, is_dry_run: bool = False
    ) -> GrowthRefusals:
        """Promise a running pod what it will use after a resize; see `Growth.promise`.

        `known` is the pod as the watch has shown it. `until_s` is a time of the monotonic clock.
        """
        return self.growth.promise(row, known, until_s=until_s, is_dry_run=is_dry_run)

    # ------------------------------------------------------------------ deciding

    def decide(self, steps_max: int = UNLIMITED) -> Decisions:
        """Release pods in order while they fit. A pod is decided upon once per change.

        With a limit of steps, this is one slice of a decision: call again until it is done.
        """
        left = self._fire(steps_max)
        # A release may have ended after its retry was due.
        retries = [each for each in self._retries[:steps_max] if self._pending_of(each.row)]
        waits = self._waits[:steps_max]
        del self._retries[:steps_max], self._waits[:steps_max]
        decisions = Decisions(releases=retries, waits=waits)
        left = left and self._changes.run_fairly(left)
        left = left and self._decider.decide(decisions, left)
        is_done = left > 0 and not (self._changes or self._retries or self._waits)
        return decisions if is_done else replace(decisions, is_done=False)

    def _make_release(self, pod: PodKey, row: PodRow, bill: Bill | None) -> Release:
        pending = self._pending[pod] = PendingRelease(row, is_exempt=bill is None)
        if bill is not None:
            # The bill was found to fit just before.
            self.ledger.hold(Reservation(pending.id, bill, pod, row, pending.uid))
        return Release(row=row, is_exempt=bill is None)

    # ------------------------------------------------------------------ outcomes of releases

    def settle(self, row: PodRow, outcome: ReleaseOutcome, detail: str = "") -> None:
        """Enter the outcome of a release. Nothing changes if the release is over already."""
        pod, pending = PodKey(row.namespace, row.name), self._pending_of(row)
        if pending is None:
            return
        match outcome:
            case ReleaseOutcome.LIFTED:
                self._steady_timers.set(pending.retry_after(outcome, self._steady_s), pod)
            case ReleaseOutcome.CHANGED | ReleaseOutcome.GONE | ReleaseOutcome.UNANSWERED:
                self._steady_timers.set(pending.retry_after(outcome, self._steady_s), pod)
                if outcome is ReleaseOutcome.UNANSWERED:
                    refusal = Refusal(reason=Reason.RELEASE_REFUSED, detail=detail)
                    self._waits.append(Wait(row=row, refusals=(refusal,)))
                if pending.latest.stamp != row.stamp:
                    self._end_release(pod)
                    self._enqueue(pod, pending.latest)
            case ReleaseOutcome.REFUSED if pending.is_unconfirmed:
                return  # This patch was refused; an earlier one may have been applied.
            case ReleaseOutcome.REFUSED:
                before = self._backoffs.get(pod)
                self._backoffs[pod] = Backoff.after(before, self._steady_s, detail)
                self._end_release(pod)
                self._enqueue(pod, pending.latest)
            case _:
                assert_never(outcome)

    def may_lift(self, release: Release) -> bool:
        """Whether the gate may be lifted now: a release without a quota may not stand any more."""
        if not release.is_exempt:
            return True
        pending = self._pending_of(release.row)
        if pending is None or not pending.is_exempt:
            return pending is not None
        return self.coverage.is_exempt(release.row.namespace)

    def _pending_of(self, row: PodRow) -> PendingRelease | None:
        """The release of a pod in this state; None if it is over."""
        pending = self._pending.get(PodKey(row.namespace, row.name))
        return pending if pending is not None and pending.row is row else None

    def _end_release(self, pod: PodKey) -> None:
        pending = self._pending.pop(pod, None)
        if pending is not None:
            self.ledger.cancel(pending.id)
            self._steady_timers.cancel(pod)
