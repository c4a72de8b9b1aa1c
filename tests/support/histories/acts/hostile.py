"""What hostile tenants and a stranger do: hold, bank, flip, grow, forge and spam.

Each tenant owns a namespace of its name. It writes pods, and quotas of its namespace, as it likes.
It is no administrator: cluster-wide quotas and the namespaces of others are not its own. Made-up
reviews come from anywhere, and may name any pod.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from bursar.core.model.pod_row import OTHER_GATES_MAX, PodDemand, PodRow
from bursar.core.model.quantity import Quantity
from bursar.core.quota.growth.promises import NAMESPACE_IS_BUSY, POD_IS_BUSY, UNKNOWN_POD
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Quota
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.builders.pods import parsed
from support.builders.quota_books import (
    GATED,
    UNGATED,
    a_namespace,
    a_quota,
    a_row,
    changed,
    with_facts,
)
from support.histories.acts.growth import DEMANDS, GrowthActs, ask
from support.histories.acts.ordinary import OrdinaryActs
from support.histories.acts.quotas import LABELS, some_scopes
from support.histories.naive_count import learn_cost, reach
from support.histories.writes import RESIZE_S, Resize

TENANTS = ("mallory", "trudy")
WIDE_NAMES = 2_000
"""Resource names of one pod."""
WIDE_NAME = "example.com/r7"
"""One of them that quotas limit at times."""
SPAM_PODS = 12
"""Waiting pods of different sizes that a tenant keeps."""
SIZES = tuple(f"cpu={millis}m memory={millis}Mi" for millis in range(3, 900, 13))
MANY_NAMES = " ".join(f"example.com/r{number}=1" for number in range(40))
"""Too many to record all of them, if a quota of the namespace limits them."""
HUGE = ("cpu=1000000000", "cpu=9 memory=9000Gi", "cpu=900m")
GATES_OF_ITS_OWN = ("own", *GATED)
MANY_GATES = (*(f"example.com/gate-{number}" for number in range(OTHER_GATES_MAX)), *GATED)
"""What is kept of hundreds of gates."""


@cache
def wide_demand() -> PodDemand:
    """The demand of a pod with thousands of resource names."""
    names = {f"example.com/r{number}": "1" for number in range(WIDE_NAMES)}
    resources = {"requests": {"cpu": "150m", **names}, "limits": names}
    raw = pod_manifest("mallory/wide", containers=[{"name": "c", "resources": resources}])
    demand = PodRowDecoder().decode(json.dumps(raw).encode()).demand
    cost = parsed("pods=1 cpu=150m requests.cpu=150m")
    learn_cost(demand, cost | {f"requests.{name}": Quantity.of(1) for name in names})
    return demand


class HostileActs(OrdinaryActs, GrowthActs):
    """The part of a history that is meant to harm."""

    tenant = TENANTS[0]
    """The one that acts now."""

    def own_quota_name(self) -> str:
        return f"{self.tenant}/{self.random.choice('qrs')}"

    def own_pods(self) -> list[PodRow]:
        return [row for row in self.world.pods.values() if row.namespace == self.tenant]

    def some_own_pod(self) -> PodRow | None:
        pods = self.own_pods()
        return self.random.choice(pods) if pods else None

    def create_own(self, name: str, requests: str, **facts: Any) -> PodRow | None:
        """Create a pod behind the gate, unless there is one of that name."""
        world = self.world
        if self.tenant not in world.namespaces or PodKey(self.tenant, name) in world.pods:
            return None
        facts = {"priority": self.random.choice((None, 1_000_000))} | facts
        uid = self.next_uid()
        row = a_row(f"{self.tenant}/{name}", requests, uid=uid, created_s=world.now_s, **facts)
        return world.put(row)

    def shared_quotas(self) -> list[Quota]:
        world = self.world
        return [
            quota
            for quota in world.quotas.values()
            if quota.selector is not None and self.tenant in reach(quota, world.namespaces)
        ]

    # .............................................................. hold, bank, flip

    def hold(self) -> None:
        """Ask for all of a shared quota, beside a tiny pod that never leaves."""
        shared = self.shared_quotas()
        if not shared:
            return
        hard = self.random.choice(shared).hard
        whole = {name.removeprefix("requests."): amount for name, amount in hard.items()}
        listed = (f"{name}={whole[name]}" for name in ("cpu", "memory") if name in whole)
        self.create_own("tiny", "cpu=1m")
        number = self.random.randrange(3)
        if self.create_own(f"whole{number}", " ".join(listed) or "cpu=2") is not None:
            self.world.met["hold"] += 1

    def bank(self) -> None:
        """Save up age behind a gate of its own, and take that gate away later."""
        saved = [row for row in self.own_pods() if row.profile.gates == GATES_OF_ITS_OWN]
        if saved and self.random.random() < 0.5:
            row = self.random.choice(saved)
            self.world.put(changed(row, profile=with_facts(row.profile, gates=GATED)))
            self.world.met["bank"] += 1
        else:
            requests = self.random.choice((*DEMANDS, "cpu=2", "cpu=1500m memory=200Mi"))
            number = self.random.randrange(4)
            self.create_own(f"bank{number}", requests, gates=GATES_OF_ITS_OWN)

    def flip(self) -> None:
        """Change what decides which quotas cover a pod, or which cover the namespace."""
        random, world, row = self.random, self.world, self.some_own_pod()
        if row is None or random.random() < 0.2:
            if self.tenant in world.namespaces:
                before = world.namespaces[self.tenant]
                labels = a_namespace(self.tenant, random.choice(LABELS)).labels
                world.put_namespace(replace(before, labels=labels))
            return
        world.met["flip"] += 1
        facts = random.choice(
            (
                {"deadline_s": random.choice((None, 60, 30))},
                {"priority_class": random.choice(("", "gold"))},
                {"priority": random.choice((None, -5, 1_000_000))},
                {"crosses_namespaces": not row.profile.crosses_namespaces},
            )
        )
        if random.random() < 0.3:
            world.remove("pods", PodKey(self.tenant, row.name))
            self.create_own(row.name, random.choice(DEMANDS), **facts)
            return
        if not row.profile.gates:
            world.bypassed[row.stamp.uid] = world.version + 1  # Nobody is asked.
        world.put(changed(row, profile=with_facts(row.profile, **facts)))

    # .............................................................. grow

    def grow(self) -> None:
        """Ask for many sizes of a pod. Some resizes are sent, some late, and some never."""
        running = [row for row in self.own_pods() if not row.profile.gates]
        row = self.random.choice(running) if running else self.some_own_pod()
        leader, world = self.world.leader, self.world
        if row is None or leader is None or leader.books.is_catching_up(row.namespace):
            return
        for _ in range(self.random.randint(1, 6)):
            requests = self.random.choice((*SIZES, *DEMANDS[1:]))
            if "example.com/r39" in row.demand.quota_requests:
                requests += f" {MANY_NAMES}"
            after = row._replace(profile=with_facts(row.profile, requests=requests))
            known = leader.knowledge_of_growth(row)
            refusals = ask(leader, after)
            world.met["busy pods"] += refusals in ((POD_IS_BUSY,), (NAMESPACE_IS_BUSY,))
            if refusals:
                continue
            world.met["grow"] += 1
            until_s = world.now_s + RESIZE_S
            resize = Resize(row, after, known, until_s, until_s)
            self.agree(leader, resize)
            if not row.profile.gates and self.random.random() < 0.6:
                world.resizes.append(resize)

    def send_late(self) -> None:
        """Send a resize in the last second in which the API server may store it."""
        world = self.world
        if world.resizes:
            resize = self.random.choice(world.resizes)
            world.pass_time(max(0, resize.until_s - 1 - world.now_s))
            if resize in world.resizes:
                world.resizes.remove(resize)
                world.met["resizes sent late"] += 1
                world.resize(resize)

    # .............................................................. forge

    def forge(self) -> None:
        """A stranger makes up a resize, which nobody will ever write."""
        leader, row = self.world.leader, self.some_pod()
        if leader is None or row is None:
            return
        requests = self.random.choice((*DEMANDS, *HUGE))
        after = row._replace(profile=with_facts(row.profile, requests=requests))
        forgery = self.random.choice(FORGERIES)
        before = leader.knowledge_of_growth(row)
        made_up = forgery(self, after)
        if leader.books.is_catching_up(made_up.namespace):
            return
        refusals = ask(leader, made_up)
        self.world.met[f"forged {forgery.__name__}"] += 1
        if forgery in NEVER_BELIEVED:
            assert refusals == (UNKNOWN_POD,), f"{forgery.__name__} was believed"
        if refusals:
            return
        # Of all that it says, only the size is believed.
        known = leader.view["pods"][PodKey(row.namespace, row.name)]
        profile = replaced_demand(known, made_up.demand)
        until_s = self.world.now_s + RESIZE_S
        version = made_up.stamp.resource_version
        agreed = known._replace(profile=profile)
        resize = Resize(known, agreed, before, until_s, until_s)
        resize.is_timeless = not version.isdecimal()
        self.world.met["forged promises"] += 1
        self.agree(leader, resize)

    def unknown_pod(self, row: PodRow) -> PodRow:
        return row._replace(name="nobody")

    def wrong_uid(self, row: PodRow) -> PodRow:
        return row._replace(packed_stamp=row.stamp._replace(uid="made up"))

    def other_namespace(self, row: PodRow) -> PodRow:
        """The pod of one namespace, by its uid, in another."""
        others = [name for name in (*self.all_names, "nowhere") if name != row.namespace]
        namespace = self.random.choice(others)
        return row._replace(profile=with_facts(row.profile, namespace=namespace))

    def future_state(self, row: PodRow) -> PodRow:
        version = str(self.world.version + self.random.choice((1, 10**30)))
        return row._replace(packed_stamp=row.stamp._replace(resource_version=version))

    def earlier_state(self, row: PodRow) -> PodRow:
        version = max(1, int(row.stamp.resource_version) - self.random.randrange(5))
        return row._replace(packed_stamp=row.stamp._replace(resource_version=str(version)))

    def state_without_number(self, row: PodRow) -> PodRow:
        return row._replace(packed_stamp=row.stamp._replace(resource_version="x"))

    def other_facts(self, row: PodRow) -> PodRow:
        """A pod that is said to wait, to have ended, or to be under other quotas."""
        facts = self.random.choice(
            ({"gates": GATED}, {"gates": UNGATED}, {"deadline_s": 60}, {"priority_class": "gold"})
        )
        phase = self.random.choice((row.phase, "Succeeded"))
        return row._replace(phase=phase, profile=with_facts(row.profile, **facts))

    def very_many_names(self, row: PodRow) -> PodRow:
        return row._replace(profile=replaced_demand(row, wide_demand()))

    # .............................................................. spam

    def spam(self) -> None:
        self.random.choice(SPAM)(self)

    def many_sizes(self) -> None:
        waiting = [row for row in self.own_pods() if row.profile.gates]
        for _ in range(self.random.randint(1, 6) if len(waiting) < SPAM_PODS else 0):
            number = self.random.randrange(SPAM_PODS)
            more = f" {MANY_NAMES}" if self.random.random() < 0.1 else ""
            self.create_own(f"s{number}", self.random.choice(SIZES) + more)
            self.world.met["spam of sizes"] += 1

    def many_names(self) -> None:
        row = self.create_own("wide", "cpu=150m", priority=None)
        if row is not None:
            self.world.put(changed(row, profile=replaced_demand(row, wide_demand())))
            self.world.met["spam of names"] += 1

    def many_gates(self) -> None:
        """A pod with hundreds of gates, which the tenant takes away later."""
        row = next((row for row in self.own_pods() if row.profile.gates == MANY_GATES), None)
        if row is None:
            self.create_own("gates", "cpu=100m", gates=MANY_GATES, gates_left_out=500)
        else:
            profile = with_facts(row.profile, gates=GATED, gates_left_out=0)
            self.world.put(changed(row, profile=profile))
        self.world.met["spam of gates"] += 1

    def many_updates(self) -> None:
        row = self.some_own_pod()
        for _ in range(5 if row is not None else 0):
            row = self.world.put(changed(row))

    def unreadable_quota(self) -> None:
        where = self.own_quota_name()
        hard = self.random.choice(("", "pods=1", "cpu=2"))
        quota = a_quota(where, hard)
        scopes = some_scopes(self.random)
        self.world.put_quota(replace(quota, scopes=scopes, problem="spec.hard[pods]: no"))
        self.world.met["spam of unreadable quotas"] += 1

    def own_quota(self) -> None:
        """A quota that makes its pods old, or lists names that nobody needs."""
        names = " ".join(f"requests.example.com/r{number}=5" for number in range(40))
        hard = self.random.choice(("pods=1000", "cpu=1", "cpu=0", f"pods=9 {names}"))
        order = self.random.choice(("fifo", "strict", "backfill"))
        self.world.put_quota(a_quota(self.own_quota_name(), hard, order=order))

    def churned_quotas(self) -> None:
        """Delete and create own quotas in a loop."""
        for _ in range(self.random.randint(1, 4)):
            for key in [key for key in self.world.quotas if key.namespace == self.tenant]:
                self.world.remove("quotas", key)
            self.own_quota()
            self.world.met["spam of deletions"] += 1


def replaced_demand(row: PodRow, demand: PodDemand) -> Any:
    """The profile of a pod with another demand, the same one each time."""
    return with_facts(row.profile, demand=demand)


FORGERIES: tuple[Callable[[HostileActs, PodRow], PodRow], ...] = (
    HostileActs.unknown_pod,
    HostileActs.wrong_uid,
    HostileActs.other_namespace,
    HostileActs.future_state,
    HostileActs.earlier_state,
    HostileActs.state_without_number,
    HostileActs.other_facts,
    HostileActs.very_many_names,
)
NEVER_BELIEVED = FORGERIES[:4]
SPAM: tuple[Callable[[HostileActs], None], ...] = (
    HostileActs.many_sizes,
    HostileActs.many_names,
    HostileActs.many_gates,
    HostileActs.many_updates,
    HostileActs.unreadable_quota,
    HostileActs.own_quota,
    HostileActs.churned_quotas,
)
