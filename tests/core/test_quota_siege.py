"""A hostile namespace under a shared quota: whatever it does, the others go on."""

from dataclasses import replace
from random import Random

import pytest

from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from bursar.core.quota.waiting_pods.turns import HOLD_SECONDS, REST_FACTOR
from support.builders.quota_books import (
    GATED,
    a_quota,
    a_row,
    changed,
    running,
)
from support.builders.shared_quota import (
    NOW_S,
    holding,
    shared_books,
    wait,
)
from support.seeds import one_quick

STEPS = 4_000
VICTIMS = ("alice", "bob", "carol")
LIFE_S = 400
"""Pods run for at most so long."""
WAIT_S_MAX = 2 * HOLD_SECONDS + 3 * LIFE_S
"""How long a pod of another namespace waits at most, whatever mallory does."""


class Siege:
    """Three namespaces with modest pods, and one that does all it can to keep them waiting."""

    def __init__(self, seed, hostility):
        self.random = Random(seed)  # noqa: S311 - a script, not a secret
        self.books = shared_books("cpu=40", namespaces=("mallory", *VICTIMS))
        self.now_s, self.ids = NOW_S, 0
        self.waiting, self.ends_s = {}, {}
        self.hostility = hostility
        self.longest_s = self.held_s = 0
        self.released = dict.fromkeys(("mallory", *VICTIMS), 0)
        if hostility:
            self.books.see_quota(a_quota("mallory/own", "pods=1000", order="fifo"))

    def create(self, namespace, cpu, **facts):
        self.ids += 1
        row = a_row(
            f"{namespace}/p{self.ids}",
            f"cpu={cpu}",
            uid=f"u{self.ids}",
            created_s=facts.pop("created_s", self.now_s),
            **facts,
        )
        self.waiting[PodKey(namespace, row.name)] = (row, self.now_s)
        self.books.see_pod(row)

    def pods_of(self, namespace):
        return [pod for pod in self.waiting if pod.namespace == namespace]

    def be_hostile(self):
        random = self.random
        mine = self.pods_of("mallory")
        if len(mine) < 30:
            self.create("mallory", 40, created_s=0, priority=random.choice((None, 1_000_000)))
            self.create("mallory", random.randint(1, 40), priority=1_000_000)
            self.create("mallory", 39, created_s=0, gates=("own", GATE))
        elif random.random() < 0.3:
            pod = random.choice(mine)
            row, _ = self.waiting.pop(pod)
            if len(row.profile.gates) > 1:
                row = changed(row, profile=replace(row.profile, gates=GATED))
                self.waiting[pod] = (row, self.now_s)
                self.books.see_pod(row)
            else:
                self.books.lose_pod(*pod, row.stamp.uid)

    def step(self):
        self.now_s += self.random.randint(1, 40)
        self.books.advance(self.now_s)
        for pod, ends_s in list(self.ends_s.items()):
            if ends_s <= self.now_s:
                del self.ends_s[pod]
                self.books.lose_pod(*pod)
        for namespace in VICTIMS:
            if len(self.pods_of(namespace)) < 3 and self.random.random() < 0.5:
                self.create(namespace, self.random.randint(1, 4))
        if self.hostility:
            self.be_hostile()
        before_s, held = self.now_s, holding(self.books)
        for release in self.books.decide().releases:
            pod = PodKey(release.row.namespace, release.row.name)
            _, since_s = self.waiting.pop(pod)
            self.released[pod.namespace] += 1
            if pod.namespace in VICTIMS:
                self.longest_s = max(self.longest_s, self.now_s - since_s)
            self.books.see_pod(running(release.row))
            self.ends_s[pod] = self.now_s + self.random.randint(30, LIFE_S)
        if held is not None and holding(self.books) is not None:
            self.held_s += 20
        assert before_s == self.now_s


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_one_namespace_does_the_pods_of_the_others_are_released_in_bounded_time(seed):
    siege = Siege(seed, hostility=True)
    for _ in range(STEPS):
        siege.step()
        oldest = [since for pod, (_, since) in siege.waiting.items() if pod.namespace in VICTIMS]
        assert siege.now_s - min(oldest, default=siege.now_s) <= WAIT_S_MAX

    assert min(siege.released[name] for name in VICTIMS) > STEPS / 20
    assert siege.held_s > 0, "he has never come so far as to hold up anybody"
    assert siege.held_s < (siege.now_s - NOW_S) / REST_FACTOR


@pytest.mark.parametrize("seed", one_quick(range(3)))
def test_equal_pods_of_all_namespaces_are_released_in_turn_whatever_their_priority(seed):
    """Mallory floods the queue with pods of the highest priority, as large as the others'."""
    random = Random(seed)  # noqa: S311 - a script, not a secret
    books = shared_books("cpu=10", namespaces=("mallory", *VICTIMS))
    order, ends = [], []
    for number in range(2_000):
        for namespace in ("mallory", *VICTIMS):
            priority = 1_000_000 if namespace == "mallory" else random.choice((None, 0, 5))
            wait(
                books, f"{namespace}/p{number}", "1", uid=f"{namespace}{number}", priority=priority
            )
        for _ in range(random.randint(0, 3)):
            if ends:
                books.lose_pod(*ends.pop(random.randrange(len(ends))))
        for release in books.decide().releases:
            row = release.row
            order.append(row.namespace)
            ends.append(PodKey(row.namespace, row.name))
            books.see_pod(running(row))

    assert len(order) > 2_000
    rounds = [set(order[start : start + 4]) for start in range(0, len(order) // 4 * 4, 4)]
    assert all(len(each) == 4 for each in rounds)
