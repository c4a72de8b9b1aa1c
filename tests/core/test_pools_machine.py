"""Random histories of pools: late watches, lost answers, restarts and two schedulers."""

from collections.abc import Callable
from random import Random

import pytest

from bursar.core.model.pod_row import PodRow
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.holds import HoldState
from bursar.core.pools.refusal import PoolRefusal
from support.extender.pools import LICENCE, a_pool, account, books_of, bound, ended, licensed


class World:
    """An API server, two schedulers and books, with a naive count of bound pods."""

    def __init__(self, seed: int, new_books: Callable[[], PoolBooks] = PoolBooks) -> None:
        self.new_books = new_books
        self.random = Random(seed)  # noqa: S311 - a seed
        self.capacity = self.random.randint(1, 6)
        self.now = 0
        self.made = 0
        self.stored: dict[str, PodRow] = {}
        self.shown: dict[str, PodRow] = {}
        """What the watch has delivered; it may lag behind `stored`."""
        self.in_flight: dict[str, str] = {}
        """Outcome of bindings that the books do not know yet: stored or failed."""
        self.restart()

    def restart(self) -> None:
        """A new leader: bindings in flight have ended, and all pods are listed."""
        self.in_flight = {}
        self.books = books_of(a_pool(capacity=self.capacity), books=self.new_books())
        self.shown = dict(self.stored)
        for row in self.shown.values():
            self.books.see_pod(row)

    def amount_bound(self) -> int:
        rows = (row for row in self.stored.values() if row.node_name and not row.is_terminated)
        return sum(row.demand.quota_requests[LICENCE].nanos // 10**9 for row in rows)

    def step(self) -> None:
        acts = [self.create, self.schedule, self.schedule, self.bind, self.bind, self.answer]
        acts += [self.end, self.delete, self.watch, self.watch, self.wait]
        if self.random.random() < 0.02:
            acts = [self.restart]
        self.random.choice(acts)()
        assert self.amount_bound() <= self.capacity

    def pick(self, *, is_bound: bool | None = None) -> PodRow | None:
        rows = [
            row
            for row in self.stored.values()
            if is_bound is None or bool(row.node_name) == is_bound
        ]
        return self.random.choice(rows) if rows else None

    def create(self) -> None:
        self.made += 1
        name = f"p{self.random.randint(0, 9)}"
        if name not in self.stored:
            amount = self.random.randint(1, 3)
            space = self.random.choice("ab")
            self.stored[name] = licensed(f"{space}/{name}", amount, uid=f"{name}-{self.made}")

    def schedule(self) -> None:
        row = self.pick(is_bound=False)
        if row is not None:
            self.books.filter(row, self.now)

    def bind(self) -> None:
        row = self.pick(is_bound=False)
        if row is None or row.stamp.uid in self.in_flight:
            return
        if self.books.begin_binding(row, "node", self.now):
            return
        is_stored = self.random.random() < 0.7
        if is_stored:
            self.stored[row.name] = bound(row)
        self.in_flight[row.stamp.uid] = "stored" if is_stored else "failed"
        if self.random.random() < 0.5:
            self.books.binding_uncertain(row.stamp.uid)

    def answer(self) -> None:
        if self.in_flight:
            uid = self.random.choice(list(self.in_flight))
            if self.in_flight.pop(uid) == "stored":
                self.books.binding_stored(uid)
            else:
                self.books.binding_failed(uid, self.now)

    def end(self) -> None:
        row = self.pick(is_bound=True)
        if row is not None:
            self.stored[row.name] = ended(row)

    def delete(self) -> None:
        row = self.pick()
        if row is not None:
            del self.stored[row.name]

    def watch(self) -> None:
        """Deliver the present state of one pod."""
        names = sorted({*self.stored, *self.shown})
        if not names:
            return
        name = self.random.choice(names)
        old, new = self.shown.get(name), self.stored.get(name)
        if old is not None and (new is None or new.stamp.uid != old.stamp.uid):
            self.books.lose_pod(old)
            del self.shown[name]
        if new is not None:
            self.books.see_pod(new)
            self.shown[name] = new

    def wait(self) -> None:
        self.now += self.random.choice([1, 10, 40])

    def settle(self) -> None:
        """Everything arrives, holds end, and the books equal the world."""
        while self.in_flight:
            self.answer()
        for _ in range(600):
            self.watch()
        # The watch never showed pods that were bound and gone between two of its events. The
        # extender reads the pod of a binding that stays out of the watch.
        for hold in self.books.holds:
            stored = self.stored.get(hold.row.name)
            is_there = stored is not None and stored.stamp.uid == hold.uid and stored.node_name
            if hold.state is not HoldState.HELD and not is_there:
                self.books.binding_failed(hold.uid, self.now)
        self.now += 1_000
        self.books.expire(self.now)


def a_history(seed: int, new_books: Callable[[], PoolBooks] = PoolBooks) -> World:
    world = World(seed, new_books)
    for _ in range(300):
        world.step()
    return world


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_bound_pods_never_hold_more_than_the_capacity(seed):
    world = a_history(seed)
    world.settle()

    charged, promised, _ = account(world.books)
    assert (int(charged), int(promised)) == (world.amount_bound(), 0)
    assert len(world.books.holds) == 0


class CarelessBooks(PoolBooks):
    """Books that give to every pod."""

    def _refusals(self, row: PodRow) -> tuple[PoolRefusal, ...]:  # noqa: ARG002 - the same for all
        return ()


def test_the_history_finds_books_that_give_to_every_pod():
    with pytest.raises(AssertionError):
        [a_history(seed, CarelessBooks) for seed in range(40)]
