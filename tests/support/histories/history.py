"""One history of a cluster with quotas: what happens next is drawn from a seed.

Pods come, go, come back, finish, grow; quotas, namespaces and their gating change; watches lag and
are cut; writes are refused, lost and late; leaders die, or are followed by others without knowing;
clocks are set; etcd is restored from backups. In many histories one or two tenants are hostile, by
all means at once.
"""

from collections import Counter
from random import Random

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import UNLIMITED
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.releases import BACKOFF_SECONDS_MAX
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE
from bursar.core.quota.waiting_pods.turns import HOLD_SECONDS, REST_FACTOR
from support.builders.quota_books import a_namespace, a_quota
from support.histories.acts.hostile import TENANTS, WIDE_NAME, HostileActs
from support.histories.acts.quotas import HARD, LABELS
from support.histories.acts.weights import Subject, weights_of
from support.histories.audit import check_books, check_empty, check_size
from support.histories.naive_count import is_short
from support.histories.quiet_checks import check_enough, check_quiet
from support.histories.simulated_cluster import HANDOVER_S, REST_S, World
from support.histories.simulated_leader import KINDS, Leader
from support.histories.waiting_order import Totals, is_behind_own

NAMES = ("a", "b", "c")
STEP_S = 130
"""How much time passes between two looks at who still waits."""
CLUSTER_QUOTAS = 3
"""There are so many in a history at most."""
WAIT_S_MAX = CLUSTER_QUOTAS * HOLD_SECONDS + BACKOFF_SECONDS_MAX + 2 * STEP_S
"""How long a pod waits at most that fits and that no pod of its own namespace holds up.

Each cluster-wide quota is held once; then it rests for longer than that. A webhook that has
refused the release may cost a back-off besides.
"""


class History(HostileActs):
    def __init__(self, seed: int, *, steps: int | None = None) -> None:
        """With a number of steps, the history has so many; else it is drawn."""
        self.random = random = Random(seed)  # noqa: S311 - a script, not a secret
        self.world = world = World(random)
        self.names = self.all_names = NAMES[: random.choice((1, 2, 3))]
        self.since_s: dict[str, int] = {}
        """By uid of a pod: since when it could go, and does not."""
        self.checked_s = 0
        """When that was last looked at."""
        self.subject = random.choice((*Subject, Subject.ORDER, Subject.QUOTAS))
        self.is_orderly = self.subject is Subject.ORDER
        self.is_about_growth = self.subject is Subject.GROWTH
        self.is_about_quotas = self.subject is Subject.QUOTAS
        self.is_under_siege = random.random() < 0.5
        """One or two tenants are hostile."""
        self.set_bounds()
        if self.is_under_siege:
            self.besiege()
        for name in self.all_names:
            world.put_namespace(a_namespace(name, random.choice(LABELS)))
            if self.is_about_quotas and random.random() < 0.3:
                self.retarget()
        for _ in range(random.randint(1, 6)):
            self.write_quota()
        if self.is_about_growth or random.random() < 0.2:
            self.create_running()
        world.begin_term()
        self.is_hasty = random.random() < 0.5
        """Decides after every event; otherwise several are gathered at times."""
        weights = weights_of(
            self.subject,
            random,
            is_under_siege=self.is_under_siege,
            has_steps=world.has_steps,
        )
        length = steps or random.choice((20, 60, 160, 320))
        self.actions = random.choices(list(weights), list(weights.values()), k=length)

    def set_bounds(self) -> None:
        """Draw how late and how coarse everything is, and how narrow the bounds are."""
        world, random = self.world, self.random
        world.has_steps = random.random() < 0.3
        world.lag_s = random.choice((20, 20, 300))
        world.is_watchful = random.random() < 0.2
        if random.random() < (0.6 if self.is_about_quotas else 0.2):
            world.limits_max = random.choice((3, 6, 10))
        if not self.is_orderly:
            world.steps_max = random.choice(((UNLIMITED,), (UNLIMITED,), (1, 2, 3, 5, 8)))
            world.steps_at_once = random.choice((STEPS_AT_ONCE, STEPS_AT_ONCE, 1, 4))

    def besiege(self) -> None:
        """Add hostile tenants, and a quota that everybody shares."""
        world, random = self.world, self.random
        tenants = TENANTS[: random.choice((1, 1, 2))]
        self.names, self.all_names = NAMES[:2], (*NAMES[:2], *tenants)
        world.hostile = frozenset(tenants)
        hard = " ".join(f"{name}={random.choice(HARD[name])}" for name in ("cpu", "memory"))
        if random.random() < 0.3:
            hard += f" requests.{WIDE_NAME}=1"
        world.put_quota(a_quota("x", hard, order=random.choice(("backfill", "strict"))))

    # .............................................................. steps

    def run(self) -> Counter[str]:
        for action in self.actions:
            if self.is_under_siege:
                self.tenant = self.random.choice(sorted(self.world.hostile))
            getattr(self, action)()
            self.audit()
            if self.is_orderly:
                self.finish_round()
                self.audit()
                if self.is_under_siege and self.world.now_s > self.checked_s:
                    self.check_progress()
            elif self.is_hasty or self.random.random() < 0.5:
                self.decide()
                self.audit()
        if self.is_under_siege:
            self.end_siege()
        self.become_quiet()
        if self.is_under_siege:
            self.check_size(self.world.leader)
        if self.random.random() < 0.3:
            self.remove_everything()
        self.world.met["steps"] += len(self.actions)
        return self.world.met

    def audit(self) -> None:
        for leader in self.world.leaders:
            check_books(leader)

    def decide(self) -> None:
        if self.world.leader is not None:
            self.world.leader.decide()

    def decide_all(self) -> None:
        self.decide()
        while self.world.leader is not None and not self.world.leader.is_done:
            self.decide()

    def finish_round(self) -> None:
        """Hear everything, decide, and carry it out."""
        world = self.world
        self.catch_up()
        self.decide_all()
        for leader in world.leaders:
            leader.take_lifts()
            while leader.lifts:
                for lift in list(leader.lifts):
                    world.settle(leader, lift, world.lift(lift))
                leader.take_lifts()
        self.catch_up()

    # .............................................................. progress

    def end_siege(self) -> None:
        """The hostile acts stop, and what they have left stays: nobody waits much longer for it."""
        self.since_s.clear()
        self.world.refusing.clear()
        for _ in range(-(-WAIT_S_MAX // STEP_S) + 2):
            self.let_all_land()
            self.audit()
            self.check_progress()
            if self.world.leader is not None and self.world.leader.is_calm and not self.since_s:
                break
            self.world.pass_time(STEP_S)
        self.world.met["sieges"] += 1

    def check_progress(self) -> None:
        """Whoever could go has not been waiting for long."""
        world, leader = self.world, self.world.leader
        self.checked_s = world.now_s
        if leader is None or leader.began_s == world.now_s:
            self.since_s.clear()
            return
        totals = world.all_used()
        waiting = [row for row in world.waiting() if world.can_be_counted(leader, row)]
        going = {row.stamp.uid for row in waiting if self.could_go(leader, row, waiting, totals)}
        self.since_s = {uid: self.since_s.get(uid, world.now_s) for uid in going}
        for uid, since_s in self.since_s.items():
            assert world.now_s - since_s <= WAIT_S_MAX, f"{uid} could go, and waits"
        world.met["progress checks"] += len(going)

    def could_go(
        self,
        leader: Leader,
        row: PodRow,
        waiting: list[PodRow],
        totals: Totals,
    ) -> bool:
        """Whether a pod fits, and nothing holds it up but pods of other namespaces."""
        world = self.world
        if row.namespace in world.refusing:
            return False
        quotas = world.quotas_of(row)
        if any(is_short(quota, row, totals[quota.key]) for quota in quotas):
            return False
        if leader.books.waiting.group_of(PodKey(row.namespace, row.name)) is None:
            return row.stamp not in leader.aloft
        return not is_behind_own(leader, row, quotas, waiting, totals)

    def let_all_land(self) -> None:
        """Finish a round, and let everything land that is on its way."""
        world = self.world
        if world.met["promises of an earlier leader"]:
            self.count_all()
        self.finish_round()
        while world.strays:
            world.lift(world.strays.pop())
        while world.resizes:
            world.resize(world.resizes.pop())

    # .............................................................. quiet

    def become_quiet(self) -> None:
        """Let everything that is under way come to its end, and audit the books."""
        world = self.world
        world.refusing.clear()
        for _ in range(40):
            self.let_all_land()
            self.audit()
            if world.leader is not None and world.leader.is_calm and self.is_settled():
                if not world.resized_unready & world.unready:
                    check_quiet(world.leader)
                    return
                check_enough(world.leader)
                self.count_all()
            world.pass_time(REST_S if world.leader is not None else HANDOVER_S)
        raise AssertionError("it does not come to rest")

    def remove_everything(self) -> None:
        """Delete all objects in any order. Nothing is left of them in the books."""
        world, random = self.world, self.random
        gone = [(kind, key) for kind in KINDS for key in getattr(world, kind)]
        random.shuffle(gone)
        for kind, key in gone:
            world.remove(kind, key)
            if random.random() < 0.3:
                self.deliver()
                self.audit()
                self.decide()
        world.refusing.clear()
        for _ in range(3):
            self.let_all_land()
            world.pass_time((1 + REST_FACTOR) * HOLD_SECONDS)
        if world.leader is not None:
            self.decide_all()
            self.audit()
            check_empty(world.leader)

    def check_size(self, leader: Leader) -> None:
        """Compare the books with those of a leader that begins now."""
        met = self.world.met.copy()
        fresh = Leader(self.world, leader.patience_s)
        fresh.books.decide()
        self.world.met = met
        check_size(leader, fresh)

    def is_settled(self) -> bool:
        """Whether a round passes in which nothing happens."""
        leader = self.world.leader
        before = self.world.met["releases"]
        self.world.pass_time(REST_S)
        self.decide_all()
        return leader is self.world.leader and before == self.world.met["releases"]


def run_history(seed: int, *, steps: int | None = None) -> Counter[str]:
    """Run one history. A failure names it."""
    try:
        return History(seed, steps=steps).run()
    except BaseException as error:
        error.add_note(f"history {seed}" + (f" of {steps} steps" if steps else ""))
        raise
