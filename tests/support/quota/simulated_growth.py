"""Resizes in a simulated cluster: those of tenants, those that strangers make up, and the clock."""

from random import Random

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.growth.promises import UNKNOWN_POD
from bursar.core.quota.ledger import PodKey
from support.builders.quota_books import with_facts
from support.quota.simulated_cluster import World
from support.quota.simulated_leader import RESIZE_S, Resize

DEMANDS = ("", "cpu=100m", "cpu=200m memory=64Mi", "cpu=500m memory=10Mi", "memory=200Mi", "cpu=1")


class GrowthActions:
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
        after = self.resized(row)
        is_dry_run = self.random.random() < 0.1
        known = leader.knowledge_of_growth(row)
        for _ in range(self.random.choice((1, 1, 2))):
            refusals = leader.resize(after, is_dry_run=is_dry_run)
        world.met["resizes refused"] += bool(refusals)
        world.met["resizes of unknown states"] += refusals == (UNKNOWN_POD,)
        if refusals or is_dry_run:
            return
        until_s = world.now_s + RESIZE_S
        resize = Resize(row, after, known, until_s, until_s)
        leader.agree(resize)
        world.resizes.append(resize)

    def resized(self, row: PodRow) -> PodRow:
        profile = with_facts(row.profile, requests=self.random.choice(DEMANDS[1:]))
        return row._replace(profile=profile)

    def forge_resize(self) -> None:
        """A stranger makes up a resize, which nobody will ever write."""
        row, world, leader = self.some_pod(), self.world, self.world.leader
        if row is None or leader is None or row.profile.gates:
            return
        known = leader.view["pods"].get(PodKey(row.namespace, row.name))
        after = self.resized(row)
        if self.random.random() < 0.5:
            stamp = after.stamp._replace(uid="made up")
            refusals = leader.resize(after._replace(packed_stamp=stamp), is_dry_run=False)
            assert refusals == (UNKNOWN_POD,)
            world.met["forged uids"] += 1
            return
        older = max(1, int(row.stamp.resource_version) - self.random.randrange(5))
        stamp = after.stamp._replace(resource_version=str(older))
        after = after._replace(packed_stamp=stamp)
        knowledge = leader.knowledge_of_growth(row)
        if leader.resize(after, is_dry_run=False):
            return
        world.met["forged sizes"] += 1
        until_s = world.now_s + RESIZE_S
        leader.agree(Resize(known, after, knowledge, until_s, until_s))

    def end_promises(self) -> None:
        for leader in self.world.leaders:
            leader.end_overdue_promises()

    def set_wall_clock(self) -> None:
        world = self.world
        world.wall_step_s = self.random.choice((-3600, 0, 3600))
        for leader in world.leaders:
            leader.advance()

    def write_resize(self) -> None:
        resizes = self.world.resizes
        if resizes:
            resize = resizes.pop(self.random.randrange(len(resizes)))
            if self.random.random() < 0.8:
                self.world.resize(resize)
