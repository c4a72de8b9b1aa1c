"""One history of a cluster with quotas: what happens next is drawn from a seed.

Pods come, go, come back, finish, grow; quotas and namespaces change; watches lag and are
cut; writes are refused, lost and late; leaders die, or are followed by others without
knowing; clocks are set. In many histories one tenant is hostile, by all means at once.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.releases import BACKOFF_SECONDS_MAX
from bursar.core.quota.waiting_pods.turns import HOLD_SECONDS
from support.builders.quota_books import a_namespace, a_quota
from support.histories.audit import check_books, check_size
from support.histories.hostile_acts import MALLORY, WIDE_NAME, HostileActs
from support.histories.naive_count import Amounts, is_short
from support.histories.ordinary_acts import HARD, LABELS
from support.histories.simulated_cluster import HANDOVER_S, REST_S, World
from support.histories.simulated_leader import Leader

NAMES = ("a", "b", "c")
STEP_S = 130
"""How much time passes between two looks at who still waits."""
CLUSTER_QUOTAS = 2
"""There are so many in a history at most."""
WAIT_S_MAX = CLUSTER_QUOTAS * HOLD_SECONDS + BACKOFF_SECONDS_MAX + 2 * STEP_S
"""How long a pod waits at most that fits and that no pod of its own namespace holds up.

Each cluster-wide quota is held once; then it rests for longer than that. A webhook that has
refused the release may cost a back-off besides.
"""


@dataclass(frozen=True)
class Told:
    """What a history was: how long, and what it met."""

    steps: int
    met: Counter[str]


class History(HostileActs):
    def __init__(self, seed: int, *, steps: int | None = None) -> None:
        """With a number of steps, the history has so many; else it is drawn."""
        self.random = random = Random(seed)  # noqa: S311 - a script, not a secret
        self.world = world = World(random)
        self.names = self.all_names = NAMES
        self.since_s: dict[str, int] = {}
        """By uid of a pod: since when it could go, and does not."""
        self.checked_s = 0
        """When that was last looked at."""
        self.is_orderly = random.random() < 0.4
        """Everything is heard and answered at once, so that who goes before whom can be judged."""
        self.is_about_growth = not self.is_orderly and random.random() < 0.25
        """Resizes and changes of leader; all other troubles are rare."""
        self.is_under_siege = random.random() < 0.5
        """One tenant is hostile."""
        world.has_steps = random.random() < 0.3
        world.lag_s = random.choice((20, 20, 300))
        if self.is_under_siege:
            self.besiege()
        for name in self.all_names:
            world.put_namespace(a_namespace(name, random.choice(LABELS)))
        for _ in range(random.randint(1, 6)):
            self.write_quota()
        world.begin_term()
        self.is_hasty = random.random() < 0.5
        """Decides after every event; otherwise several are gathered at times."""
        length = steps or random.choice((20, 60, 160, 320))
        weights = self.weights()
        self.actions = random.choices(list(weights), list(weights.values()), k=length)

    def besiege(self) -> None:
        """Add a hostile tenant, and a quota that everybody shares."""
        world, random = self.world, self.random
        self.names, self.all_names = NAMES[:2], (*NAMES[:2], MALLORY)
        world.hostile = frozenset({MALLORY})
        world.has_slices = not self.is_orderly and random.random() < 0.5
        hard = " ".join(f"{name}={random.choice(HARD[name])}" for name in ("cpu", "memory"))
        if random.random() < 0.3:
            hard += f" requests.{WIDE_NAME}=1"
        world.put_quota(a_quota("x", hard, order=random.choice(("backfill", "strict"))))

    def weights(self) -> dict[Callable[["History"], None], float]:
        chosen = ACTIONS | HOSTILE if self.is_under_siege else ACTIONS
        return {
            action: weight * (GROWTH.get(action, 0.2) if self.is_about_growth else 1)
            for action, weight in chosen.items()
            if weight > COMMON or action in HOSTILE or self.random.random() < 0.5
            if action in ORDERLY or not self.is_orderly
            if action is not History.set_wall_clock or self.world.has_steps
        }

    # .............................................................. steps

    def run(self) -> Told:
        for action in self.actions:
            action(self)
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
        return Told(len(self.actions), self.world.met)

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
            for lift in list(leader.lifts):
                world.settle(leader, lift, world.lift(lift))
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
        waiting = [row for row in world.waiting() if world.can_be_counted(row)]
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
        totals: dict[QuotaKey, Amounts],
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
        return not world.is_behind_own(leader, row, quotas, waiting, totals)

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
                    world.check_quiet()
                    return
                world.check_enough()
                self.count_all()
            world.pass_time(REST_S if world.leader is not None else HANDOVER_S)
        raise AssertionError("it does not come to rest")

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


# ------------------------------------------------------------------ how often what happens

COMMON = 8
"""Actions with more weight than this are in every history, and so are hostile ones; the others in
every second."""
ACTIONS = {
    History.create: 40,
    History.delete: 9,
    History.recreate: 4,
    History.begin_deletion: 3,
    History.finish: 5,
    History.touch: 5,
    History.set_deadline: 1,
    History.ask_for_resize: 12,
    History.write_resize: 5,
    History.forge: 2,
    History.end_promises: 3,
    History.set_wall_clock: 4,
    History.count_otherwise: 2,
    History.write_quota: 5,
    History.change_limits: 3,
    History.change_order: 3,
    History.change_scopes: 2,
    History.delete_quota: 1,
    History.relabel: 2,
    History.retarget: 1,
    History.delete_namespace: 0.3,
    History.deliver: 25,
    History.catch_up: 12,
    History.relist: 5,
    History.send_lift: 40,
    History.land_stray: 4,
    History.refuse: 3,
    History.wait: 9,
    History.crash: 1,
    History.lose_lease: 1,
    History.become_quiet: 2,
}
HOSTILE = {
    History.hold: 9,
    History.bank: 9,
    History.flip: 9,
    History.grow: 9,
    History.forge: 9,
    History.spam: 12,
    History.send_late: 4,
    History.wait: 14,
}
"""What is added, or happens more often, in a history with a hostile tenant."""
GROWTH = {
    History.create: 0.5,
    History.ask_for_resize: 4,
    History.write_resize: 2,
    History.forge: 2,
    History.grow: 4,
    History.send_late: 3,
    History.end_promises: 2,
    History.deliver: 1,
    History.catch_up: 1,
    History.send_lift: 1,
    History.wait: 1,
    History.set_wall_clock: 2,
    History.crash: 5,
    History.lose_lease: 5,
}
"""How much more often these happen in histories about growth."""
ORDERLY = {
    History.create,
    History.delete,
    History.recreate,
    History.finish,
    History.touch,
    History.set_deadline,
    History.count_otherwise,
    History.change_limits,
    History.change_order,
    History.change_scopes,
    History.relabel,
    History.wait,
    History.crash,
    History.become_quiet,
    History.hold,
    History.bank,
    History.flip,
    History.spam,
}


def run_history(seed: int, *, steps: int | None = None) -> Told:
    """Run one history. A failure names it."""
    try:
        return History(seed, steps=steps).run()
    except BaseException as error:
        error.add_note(f"history {seed}" + (f" of {steps} steps" if steps else ""))
        raise
