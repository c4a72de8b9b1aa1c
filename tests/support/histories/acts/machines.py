"""What happens to watches, writes, clocks, counters, leaders and etcd in a history."""

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.releases import ReleaseOutcome
from support.histories.acts.growth import GrowthActs
from support.histories.simulated_cluster import HANDOVER_S, LANDING_S, Backup
from support.histories.simulated_leader import KINDS, Leader
from support.histories.writes import Lift


class MachineActs(GrowthActs):
    """The part of a history that is the doing of machines."""

    all_names: tuple[str, ...]
    is_about_growth: bool
    backup: Backup | None = None

    def deliver(self) -> None:
        for leader in self.world.leaders:
            leader.deliver(self.random.choice(KINDS), self.random.randint(1, 6))

    def catch_up(self) -> None:
        for leader in self.world.leaders:
            for kind in self.random.sample(KINDS, len(KINDS)):
                leader.deliver(kind)

    def relist(self) -> None:
        for leader in self.world.leaders:
            leader.relist(self.random.choice(KINDS))

    def send_lift(self) -> None:
        leader = self.world.leader
        if leader is not None:
            if not leader.lifts or self.random.random() < 0.5:
                leader.take_lifts()
            if leader.lifts:
                self.send(leader, self.random.choice(leader.lifts))

    def send(self, leader: Leader, lift: Lift) -> None:
        """One try. Some are turned away, some get lost, and some answers do."""
        world, luck = self.world, self.random.random()
        if luck < 0.1:
            world.met["turned away"] += 1  # too many requests: it has not been looked at
        elif luck < 0.2:
            lift.is_uncertain = True
            stray = Lift(lift.row, lift.is_exempt, lift.known)
            until_s = world.now_s + LANDING_S
            world.stray([stray], until_s if leader.ends_s is None else leader.ends_s)
        elif luck < 0.3:
            lift.is_uncertain = True
            world.lift(lift)
            world.met["answers lost"] += 1
        elif luck < 0.5 and lift.is_uncertain:
            world.settle(leader, lift, ReleaseOutcome.UNANSWERED)  # it has given up
        else:
            world.settle(leader, lift, world.lift(lift))

    def land_stray(self) -> None:
        strays = self.world.strays
        if strays:
            stray = strays.pop(self.random.randrange(len(strays)))
            self.world.met[f"late write {self.world.lift(stray).value}"] += 1

    def refuse(self) -> None:
        self.world.refusing ^= {self.random.choice(self.all_names)}

    def wait(self) -> None:
        longest = 4 if self.is_about_growth else 6
        self.world.pass_time(self.random.choice((1, 1, 3, 12, 35, 130)[:longest]))

    def crash(self) -> None:
        world = self.world
        if world.starts_s is None:
            world.met["crashes"] += 1
            world.end_term()
            world.starts_s = world.now_s + HANDOVER_S
            if self.is_about_growth:
                world.pass_time(HANDOVER_S)

    def lose_lease(self) -> None:
        """The leader goes on for a while, and so do its writes."""
        world, leader = self.world, self.world.leader
        if leader is not None and world.starts_s is None:
            world.met["leases lost"] += 1
            leader.ends_s = world.starts_s = world.now_s + HANDOVER_S

    # .............................................................. etcd

    def back_up(self) -> None:
        self.backup = self.world.backup()

    def restore(self) -> None:
        """etcd is restored, from a backup or from the last seconds before its disk failed."""
        world, backup = self.world, self.backup
        if self.random.random() < 0.5 or backup is None:
            backup = world.backup()
            for leader in world.leaders:
                leader.take_lifts()
                for lift in list(leader.lifts):
                    world.settle(leader, lift, world.lift(lift))
        self.backup = None
        world.met["restores"] += 1
        world.restore(backup)

    # .............................................................. counters

    def count_otherwise(self) -> None:
        """What a pod costs can be told now, or cannot any more."""
        row = self.some_pod()
        if row is not None:
            self.world.unready ^= {row.stamp.uid}
            self.recount(row)

    def recount(self, row: PodRow) -> None:
        for leader in self.world.leaders:
            seen = leader.view["pods"].get(PodKey(row.namespace, row.name))
            if seen is not None:
                leader.is_audited = False
                leader.books.recount_pod(seen)

    def count_all(self) -> None:
        """A promise is handed over for the names that were limited, so a count is needed again."""
        self.world.unready.clear()
        for row in self.world.pods.values():
            self.recount(row)
