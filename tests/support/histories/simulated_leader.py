"""A leader: books of its own, built from a list, fed by one watch per kind.

Each watch has a delay of its own. What the leader decides becomes writes on their way;
each carries what the leader knew, so that an auditor can tell fault from misfortune.
"""

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bursar.app.cluster.informer.store import is_older
from bursar.app.quota.release.lift_queue import LiftQueue
from bursar.core.model.pod_row import PodRow, Stamp
from bursar.core.quota.account import Charge
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter, NotReady
from bursar.core.quota.growth.promises import GrowthRefusals
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Quota, QuotaKey
from bursar.core.quota.refusal import FOREIGN_POD, Reason
from bursar.core.quota.releases import ReleaseOutcome, Wait
from bursar.wire.quota.resize_promises import decode_promises, encode_promises
from support.histories.audit import (
    charged_of,
    check_others,
    check_release,
    check_texts,
    numbers_of_others,
)
from support.histories.naive_count import (
    growth,
    is_exempt,
    is_in_scope,
    nothing_of,
    reach,
)
from support.histories.waiting_order import check_order
from support.histories.writes import RESIZE_S, Knowledge, Lift, Resize, next_attempt

if TYPE_CHECKING:
    from support.histories.simulated_cluster import World

KINDS = ("pods", "quotas", "namespaces")
WORKERS = 8
"""Gates that a leader lifts at the same time."""
LIST = object()
"""News of a watch that has ended: the leader lists all objects of the kind again."""


# ------------------------------------------------------------------ a leader


class Leader:
    """One term: books of its own, built from a list, fed by watches."""

    def __init__(self, world: "World", patience_s: int) -> None:
        self.world, self.patience_s = world, patience_s
        self.native = NativeCounter()
        self.books = Books(self.counted, patience_s=patience_s)
        self.narrow_bounds()
        self.queue = LiftQueue(WORKERS)
        self.view: dict[str, dict[Any, Any]] = {kind: {} for kind in KINDS}
        self.news: dict[str, deque[tuple[int, int, Any, Any]]] = {kind: deque() for kind in KINDS}
        self.version = 0
        self.ends_s: int | None = None
        """When it has to have stopped; it decides until then, not knowing that it has lost."""
        self.lifts: list[Lift] = []
        """Those that a worker has taken from the queue."""
        self.aloft: dict[Stamp, Knowledge] = {}
        """Pods that it has released, and what it knew when it did so for the first time."""
        self.exempt: dict[Stamp, str] = {}
        """Of these, the pods that no quota is charged for, with their namespaces."""
        self.unsure: set[Stamp] = set()
        """Pods that it has released, and that may have been lifted for all it knows."""
        self.outdated: set[Stamp] = set()
        """Of the released pods, states that had changed before etcd was restored. If a pod is in
        such a state again, its release may have ended."""
        self.promises: list[Resize] = []
        """Resizes that it has agreed to, as long as it keeps room for them."""
        self.newest: tuple[int, int] | None = None
        """When it last asked for the newest version, and the answer; None if it awaits none."""
        self.refused: set[str] = set()
        self.told: set[str] = set()
        self.began_s = world.now_s
        self.behind_others_s: dict[str, int] = {}
        """By uid of a pod: when it last saw it behind gates of others."""
        self.reported: dict[QuotaKey, tuple[Any, Any]] = {}
        self.steps_max = world.random.choice(world.steps_max)
        """How many steps it decides for before it hears what happened meanwhile."""
        self.is_done = True
        """It has decided all that it can."""
        self.is_audited = False
        """Nothing has reached the books since they were audited."""
        self.reaches: dict[QuotaKey, set[str]] = {}
        self.advance()
        for kind in world.random.sample(KINDS, len(KINDS)):
            self.relist(kind)
        self.restore_promises()

    def narrow_bounds(self) -> None:
        """Few pods and quotas are enough to reach the bounds of the books."""
        self.books.coverage.own_limits.limits_max = self.world.limits_max
        changes, steps = self.books._changes, self.world.steps_at_once
        changes.steps_at_once = changes.own_steps_at_once = changes.turn_steps = steps

    def reach(self, quota: Quota) -> set[str]:
        """The namespaces a quota is about, as far as the leader knows."""
        if quota.key not in self.reaches:
            self.reaches[quota.key] = reach(quota, self.view["namespaces"])
        return self.reaches[quota.key]

    def advance(self) -> None:
        self.is_audited = False
        now_s = self.world.now_s
        self.books.advance(now_s + self.world.wall_step_s, now_s)

    def set_time(self) -> None:
        """As the quota loop does before it enters an event."""
        now_s = self.world.now_s
        self.books.set_time(now_s + self.world.wall_step_s, now_s)

    def restore_promises(self) -> None:
        """Learn from the record what earlier leaders have agreed to."""
        world, growth = self.world, self.books.growth
        until_s = world.now_s + RESIZE_S
        for each in decode_promises(world.record):
            growth.restore(each, self.view["pods"].get(each.pod), until_s=until_s)
        for resize in world.promised:
            row = self.view["pods"].get(PodKey(resize.after.namespace, resize.after.name))
            is_there = row is not None and row.stamp.uid == resize.after.stamp.uid
            if is_there and not resize.is_outdated_by(row):
                world.met["promises of an earlier leader"] += 1
                self.promises.append(replace(resize, reserved_until_s=until_s, is_restored=True))

    def counted(self, row: PodRow) -> Charge | NotReady:
        charge = self.native.count(row)
        if row.stamp.uid in self.world.unready:
            return NotReady(detail="its machine", provisional=charge)
        return charge

    # .............................................................. what it hears

    def lose_connections(self) -> None:
        """All watches end, and no answer comes. The leader lists everything when it hears of it."""
        latest = {row.stamp for row in self.view["pods"].values()}
        self.outdated |= self.aloft.keys() - latest
        for news in self.news.values():
            news.clear()
            news.append((self.world.now_s, self.world.version, LIST, None))
        for lift in list(self.lifts):
            self.settle(lift, ReleaseOutcome.UNANSWERED)

    def relist(self, kind: str) -> None:
        """Forget the watch and see once more what has changed, what is gone first."""
        self.news[kind].clear()
        there = getattr(self.world, kind)
        for key in [key for key in self.view[kind] if key not in there]:
            self.hear(kind, key, None)
        for key, thing in there.items():
            if self.view[kind].get(key) is not thing:
                self.hear(kind, key, thing)
        if kind == "pods":
            self.version = self.world.version

    def deliver(self, kind: str, count: int = 1_000) -> None:
        news = self.news[kind]
        while news and count:
            count -= 1
            _, version, key, thing = news.popleft()
            if key is LIST:
                self.relist(kind)
                continue
            if kind == "pods":
                self.version = version
            self.hear(kind, key, thing)

    def deliver_overdue(self, now_s: int) -> None:
        for kind, news in self.news.items():
            while news and news[0][0] + self.world.lag_s <= now_s:
                self.deliver(kind, 1)

    def hear(self, kind: str, key: Any, thing: Any) -> None:
        self.is_audited = False
        if kind != "pods":
            self.reaches.clear()
        self.set_time()
        about = key if kind == "namespaces" else key.namespace
        hostile = self.world.hostile
        if hostile and about in hostile:
            mine = hostile
        elif self.world.is_watchful and about:
            mine = frozenset({about})
        else:
            mine = None
        if mine is None or self.books._changes:  # A step of an earlier change may follow.
            self.take_in(kind, key, thing)
            return
        before = numbers_of_others(self, mine)
        self.take_in(kind, key, thing)
        check_others(before, numbers_of_others(self, mine), key)

    def take_in(self, kind: str, key: Any, thing: Any) -> None:
        held = self.view[kind].get(key)
        if kind == "pods" and held and (not thing or held.stamp.uid != thing.stamp.uid):
            self.books.lose_pod(*key, held.stamp.uid)
            self.forget_promises(held.stamp.uid)
            self.forget_releases(held.stamp.uid)
        if kind == "pods" and thing is not None:
            self.note_pod(held, thing)
        if thing is None:
            self.view[kind].pop(key, None)
        else:
            self.view[kind][key] = thing
        books = self.books
        see = {"pods": books.see_pod, "quotas": books.see_quota, "namespaces": books.see_namespace}
        lose = {"quotas": books.lose_quota, "namespaces": books.lose_namespace}
        if kind == "pods" and thing is not None:
            self.promises = [each for each in self.promises if not each.is_outdated_by(thing)]
        if thing is not None:
            see[kind](thing)
        elif kind in lose:
            lose[kind](key)
        if kind == "namespaces" and not is_exempt(thing):
            self.end_exempt(key)

    def note_pod(self, held: PodRow | None, row: PodRow) -> None:
        """A pod is seen; `held` is what was seen of its name before."""
        is_same = held is not None and held.stamp.uid == row.stamp.uid
        if not row.profile.gates:
            self.forget_releases(row.stamp.uid)
        was_behind = not is_same or len(held.profile.gates) > 1
        if len(row.profile.gates) > 1 and was_behind:
            self.behind_others_s[row.stamp.uid] = self.world.now_s

    def forget_releases(self, uid: str) -> None:
        """A pod has been released, or is gone. If it comes back, etcd was restored."""
        for stamp in [stamp for stamp in self.aloft if stamp.uid == uid]:
            self.forget_release(stamp)

    def forget_release(self, stamp: Stamp) -> None:
        self.aloft.pop(stamp, None)
        self.exempt.pop(stamp, None)
        self.unsure.discard(stamp)

    def end_exempt(self, namespace: str) -> None:
        """Pods of a namespace are gated again: what was released there without a quota is not."""
        for stamp in [stamp for stamp, name in self.exempt.items() if name == namespace]:
            self.forget_release(stamp)

    def has_left_out(self, namespace: str) -> bool:
        """Whether a quota of the namespace is left out, because it has too many limits."""
        return self.books.coverage.own_limits.first_left_out(namespace) is not None

    def age_s(self, row: PodRow) -> int:
        """From when the age of a waiting pod counts. Nobody saves it up behind another gate."""
        age_s, behind_s = self.books.ages.age_s(row), self.behind_others_s.get(row.stamp.uid)
        if behind_s is None:
            assert age_s == row.stamp.created_s
        elif self.world.has_steps:
            assert age_s >= row.stamp.created_s  # It follows the wall clock.
        else:
            assert age_s >= behind_s
        return age_s

    def waiting_since_s(self, row: PodRow) -> int:
        """Since when a pod waits, as far as this leader can know."""
        since_s = self.books.ages.waiting_since_s(row)
        earliest_s = self.behind_others_s.get(row.stamp.uid, row.stamp.created_s)
        assert since_s >= max(self.began_s, earliest_s)
        return since_s

    def forget_promises(self, uid: str) -> None:
        """Room is kept for a pod until it is heard to be gone; if it never was, to the end."""
        self.promises = [each for each in self.promises if each.after.stamp.uid != uid]

    # .............................................................. resizes

    def resize(self, after: PodRow, *, is_dry_run: bool) -> GrowthRefusals:
        """Ask the books, if the watch has shown the state that is to be replaced."""
        known = self.view["pods"].get(PodKey(after.namespace, after.name))
        version = after.stamp.resource_version
        if known is not None and is_older(known.stamp.resource_version, version):
            known = None
        self.is_audited = False
        until_s = self.world.now_s + RESIZE_S
        refusals = self.books.resize(after, known, until_s=until_s, is_dry_run=is_dry_run)
        if not refusals and not is_dry_run:
            self.world.record = encode_promises(self.books.growth.recorded())
        return refusals

    def agree(self, resize: Resize) -> None:
        """Remember what the books have agreed to, as long as they hold something for it."""
        known = self.view["pods"][PodKey(resize.after.namespace, resize.after.name)]
        if known.profile.gates or known.is_terminated:
            return
        if known.stamp.resource_version != resize.after.stamp.resource_version:
            resize = replace(resize, after=resize.after._replace(packed_stamp=known.stamp))
        for each in self.promises:
            is_same_pod = each.after.stamp.uid == resize.after.stamp.uid
            is_same_size = each.after.profile == resize.after.profile
            if is_same_pod and is_same_size and not each.is_restored:
                each.reserved_until_s = resize.reserved_until_s
                each.after = resize.after
                each.is_timeless |= resize.is_timeless
                return
        self.promises.append(resize)

    def end_overdue_promises(self) -> None:
        """End what cannot be written any more, when the watch has shown what was written."""
        world, growth = self.world, self.books.growth
        if self.newest is None and growth.overdue(world.now_s):
            self.newest = (world.now_s, world.version)
        if self.newest is None:
            return
        asked_s, version = self.newest
        news = self.news["pods"]
        if news and news[0][1] <= version:
            return
        self.newest, self.is_audited = None, False
        for promise in growth.overdue(asked_s):
            growth.end(promise)
            world.met["promises overdue"] += 1
        self.promises = [each for each in self.promises if each.reserved_until_s > asked_s]

    # .............................................................. what it does

    @property
    def is_up_to_date(self) -> bool:
        """It knows everything, and nothing is left of what it has released."""
        return not (
            any(self.news.values())
            or self.lifts
            or len(self.queue)
            or not self.is_done
            or self.books._changes
            or self.books.pending_release_count
        )

    @property
    def is_calm(self) -> bool:
        """Nor is anything under way that it has agreed to."""
        world = self.world
        return (
            not (world.strays or world.resizes)
            and not len(self.books.growth)
            and self.is_up_to_date
        )

    def knowledge(self) -> Knowledge:
        return Knowledge(dict(self.view["quotas"]), dict(self.view["namespaces"]), self.version)

    def decide(self) -> None:
        if self.is_up_to_date:
            self.check_promises()
        is_calm, self.is_audited = self.is_calm, False
        decisions = self.books.decide(self.steps_max)
        self.is_done = decisions.is_done
        if is_calm and decisions.releases:
            check_order(self, decisions.releases, self.world.all_used())
        knowledge = self.knowledge()
        for release in decisions.releases:
            row = release.row
            self.world.met["releases"] += 1
            is_first = row.stamp not in self.aloft or row.stamp in self.exempt
            is_counted = release.is_exempt or row.stamp.uid not in self.world.unready
            assert is_counted or not is_first or not self.limits(row)
            if is_first and not release.is_exempt:
                check_release(self, row)
            self.exempt.pop(row.stamp, None)
            if release.is_exempt:
                self.exempt[row.stamp] = row.namespace
            if is_first:
                self.aloft[row.stamp] = knowledge
                self.outdated.discard(row.stamp)
            self.queue.put(release)
        # Promises that have ended are removed from the record after a while.
        self.world.record = encode_promises(self.books.growth.recorded())
        check_texts(decisions.waits)
        for wait in decisions.waits:
            self.told.add(wait.row.stamp.uid)
            self.check_words(wait)
        self.report()

    def take_lifts(self) -> None:
        """Free workers take releases from the queue."""
        while len(self.lifts) < WORKERS and (attempt := next_attempt(self.queue)) is not None:
            release = attempt.release
            if not self.books.may_lift(release):
                self.world.met["lifts taken back"] += 1
                self.queue.finish(attempt, is_answered=True, is_quick=True)
                continue
            stamp, namespace = release.row.stamp, release.row.namespace
            is_billed = stamp in self.aloft and stamp not in self.exempt
            is_free = release.is_exempt and not is_billed
            assert not is_free or is_exempt(self.view["namespaces"].get(namespace)), release
            known = self.aloft.get(stamp) or self.knowledge()
            self.lifts.append(Lift(release.row, is_free, known, attempt))

    def settle(self, lift: Lift, answer: ReleaseOutcome) -> None:
        """A lift of its own has ended."""
        stamp = lift.row.stamp
        if answer is ReleaseOutcome.REFUSED:
            self.refused.add(stamp.uid)
            if stamp not in self.unsure:
                self.aloft.pop(stamp, None)
        elif stamp in self.aloft:
            self.unsure.add(stamp)
        self.lifts.remove(lift)
        self.is_audited = False
        assert lift.attempt is not None, "only workers are told"
        is_answered = answer is not ReleaseOutcome.UNANSWERED
        self.queue.finish(lift.attempt, is_answered=is_answered, is_quick=is_answered)
        self.books.settle(lift.row, answer, "no")

    def check_words(self, wait: Wait) -> None:
        """A tenant learns the names of no pods but its own."""
        for refusal in wait.refusals:
            if refusal.reason is Reason.BEHIND_ANOTHER:
                is_own = refusal.detail.startswith(f"{wait.row.namespace}/")
                assert is_own or refusal.detail == FOREIGN_POD, refusal
                self.world.met["waits behind a foreign pod"] += not is_own

    def limits(self, row: PodRow) -> bool:
        """Whether a quota that it knows limits anything of the pod."""
        namespaces = self.view["namespaces"]
        return any(
            row.namespace in reach(quota, namespaces)
            and is_in_scope(quota, row)
            and nothing_of(quota)
            for quota in self.view["quotas"].values()
        )

    def check_promises(self) -> None:
        """What is held for resizes is what they add, once per pod, and nothing else."""
        world = self.world
        has_restored = any(each.is_restored for each in self.promises)
        if has_restored or any(promise.grown is None for promise in self.books.growth):
            return  # It holds what its predecessor counted, by the quotas of that time.
        grown = [resize.after for resize in self.promises]
        pods = {PodKey(row.namespace, row.name) for row in grown}
        for quota in world.quotas.values():
            if self.books.coverage.own_limits.is_left_out(quota.key):
                continue
            expected = nothing_of(quota)
            for pod in pods:
                if pod.namespace in reach(quota, world.namespaces):
                    rows = [row for row in grown if (row.namespace, row.name) == pod]
                    extra = growth(quota, world.pods.get(pod), rows, world.now_s)
                    expected = {name: amount + extra[name] for name, amount in expected.items()}
            covered = self.books.coverage.quota(quota.key)
            promised = {name: account.promised for name, account in covered.accounts.items()}
            assert promised == {name: amount.nanos for name, amount in expected.items()}, quota.key

    def knowledge_of_growth(self, row: PodRow) -> Knowledge:
        """What it knew when it agreed that the pod may grow, be it in an earlier answer.

        Of what an earlier leader knew, only the amounts are recorded that were limited then.
        """
        pod = PodKey(row.namespace, row.name)
        if any(each.grown is None for each in self.books.growth.by_pod.get(pod, ())):
            return Knowledge({}, {}, 0)
        for resize in self.promises:
            if resize.after.stamp.uid == row.stamp.uid:
                return resize.known
        return self.knowledge()

    def report(self) -> None:
        """What it writes to the status of quotas: only of those that the books name."""
        touched = self.books.ledger.touched
        for key in touched:
            covered = self.books.coverage.quota(key)
            if covered is None:
                self.reported.pop(key, None)
            else:
                shares = {
                    name: charged_of(covered.shares.get(name, {})) for name in covered.namespaces
                }
                self.reported[key] = (charged_of(covered.accounts), shares)
        touched.clear()
