"""Resizes in a simulated cluster, and the clocks."""

from random import Random

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.growth.promises import UNKNOWN_POD, GrowthRefusals
from bursar.core.quota.ledger import PodKey
from support.builders.quota_books import with_facts
from support.histories.audit import numbers_of_others
from support.histories.simulated_cluster import World
from support.histories.simulated_leader import Leader
from support.histories.writes import RESIZE_S, Resize

DEMANDS = ("", "cpu=100m", "cpu=200m memory=64Mi", "cpu=500m memory=10Mi", "memory=200Mi", "cpu=1")

WALL_STEPS_S = (-(10**9), -3600, -61, -1, 0, 1, 61, 3600, 10**9)


class GrowthActs:
    """The part of a history that has to do with resizes."""

    random: Random
    world: World

    def some_pod(self) -> PodRow | None:
        pods = self.world.pods
        return self.random.choice(list(pods.values())) if pods else None

    def ask_for_resize(self) -> None:
        row, world, leader = self.some_pod(), self.world, self.world.leader
        if row is None or leader is None or row.profile.gates or not row.demand.quota_requests:
            return
        if leader.books.is_catching_up(row.namespace):
            return  # The webhook is told to ask again.
        after = self.resized(row)
        is_dry_run = self.random.random() < 0.1
        known = leader.knowledge_of_growth(row)
        for _ in range(self.random.choice((1, 1, 2))):
            refusals = ask(leader, after, is_dry_run=is_dry_run)
        world.met["resizes refused"] += bool(refusals)
        world.met["resizes of unknown states"] += refusals == (UNKNOWN_POD,)
        if refusals or is_dry_run:
            return
        until_s = world.now_s + RESIZE_S
        resize = Resize(row, after, known, until_s, until_s)
        self.agree(leader, resize)
        world.resizes.append(resize)

    def agree(self, leader: Leader, resize: Resize) -> None:
        """Remember a promise, unless the books promise nothing because no quota limits the pod."""
        pod = PodKey(resize.after.namespace, resize.after.name)
        known = leader.view["pods"][pod]
        if known.profile.gates or known.is_terminated:
            return
        held = leader.books.growth.by_pod.get(pod, ())
        if any(each.grown and each.grown.demand == resize.after.demand for each in held):
            leader.agree(resize)
        else:
            assert not leader.books.coverage.limits(resize.after.profile), "an empty promise"

    def resized(self, row: PodRow) -> PodRow:
        profile = with_facts(row.profile, requests=self.random.choice(DEMANDS[1:]))
        return row._replace(profile=profile)

    def end_promises(self) -> None:
        for leader in self.world.leaders:
            leader.end_overdue_promises()

    def set_wall_clock(self) -> None:
        """An administrator or NTP sets the clocks, by little or by years. No number changes."""
        world = self.world
        world.wall_step_s = self.random.choice(WALL_STEPS_S)
        world.met["wall clock steps"] += 1
        for leader in world.leaders:
            before = numbers_of_others(leader, frozenset()), len(leader.books.growth)
            leader.advance()
            assert before == (numbers_of_others(leader, frozenset()), len(leader.books.growth))

    def write_resize(self) -> None:
        resizes = self.world.resizes
        if resizes:
            resize = resizes.pop(self.random.randrange(len(resizes)))
            if self.random.random() < 0.8:
                self.world.resize(resize)


def ask(leader: Leader, after: PodRow, *, is_dry_run: bool = False) -> GrowthRefusals:
    """Ask whether a pod may grow. Nothing changes by a no; a yes overdraws nothing."""
    everybody = frozenset[str]()
    before, record = numbers_of_others(leader, everybody), leader.world.record
    refusals = leader.resize(after, is_dry_run=is_dry_run)
    now = numbers_of_others(leader, everybody)
    if refusals or is_dry_run:
        assert (before, record) == (now, leader.world.record), "a no has changed something"
    for key, number in now.items():
        if number != before[key]:
            hard, charged, promised = number
            assert charged + promised <= hard, f"{key} is overdrawn by {after}"
            assert after.namespace in leader.books.coverage.quota(key[0]).namespaces
    return refusals
