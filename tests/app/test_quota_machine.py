"""Hundreds of short histories of a cluster with quotas, from seeds; an auditor watches.

What happens is in `support/histories`, what must hold in its `audit` and `quiet_checks`. No limit
is overdrawn by a write that a leader agreed to. No promise is lost, and nothing is released without
its charge. No act of one tenant changes the numbers of another, and no pod passes one that it may
not pass. When all is quiet, the books equal a recount, and no pod waits without a reason. When all
objects are gone, nothing of them is left in the books.

`make histories` runs as many as you like; see CONTRIBUTING.md.
"""

import os
from collections import Counter
from functools import cache

import pytest

from bursar.core.quota.releases import ReleaseOutcome
from support.histories.history import run_history
from support.seeds import FIXED_SEED, SEED

pytestmark = pytest.mark.slow

BUSY_SEED = 1_181
"""Of a history with every means of a hostile tenant, and every fault of machines."""
UNCOUNTED_SEED = 12_000_342
BATCHES = 10
SEQUENCES = int(os.environ.get("BURSAR_SEQUENCES") or 320)


@cache
def met_in(seed: int) -> Counter[str]:
    """What happened in a history. Two tests are about the first ones of the fixed seed."""
    return run_history(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_books_stay_right_whatever_happens(batch):
    """A failure names the history; `BURSAR_SEED` repeats all of them."""
    count = -(-SEQUENCES // BATCHES)
    print(f"BURSAR_SEED={SEED}")

    for seed in range(SEED + batch * count, SEED + (batch + 1) * count):
        assert met_in(seed)["audits"] > 0, f"nothing was audited in history {seed}"


FEW = {
    "crashes": 20,
    "leases lost": 10,
    "answers lost": 25,
    "turned away": 25,
    "late write lifted": 1,
    "late write changed": 1,
    "resizes": 10,
    "resizes refused": 3,
    "resizes of unknown states": 3,
    "resizes sent late": 1,
    "promises overdue": 10,
    "promises of an earlier leader": 3,
    "waits behind another": 3,
    "waits behind another namespace": 1,
    "waits behind a foreign pod": 10,
    "waits in doubt": 10,
    "turns to hold": 3,
    "wall clock steps": 5,
    "restores": 10,
    "lifts taken back": 1,
    "left out audits": 100,
    "waits for limits left out": 3,
    "waits in dispute": 3,
    "empty audits": 10,
    "hold": 50,
    "bank": 30,
    "flip": 50,
    "grow": 50,
    "busy pods": 3,
    "forged unknown_pod": 3,
    "forged wrong_uid": 3,
    "forged other_namespace": 3,
    "forged promises": 10,
    "spam of sizes": 50,
    "spam of names": 10,
    "spam of gates": 10,
    "spam of unreadable quotas": 10,
    "spam of deletions": 20,
    "sieges": 20,
    "order checks": 10,
    "growth checks": 200,
    "progress checks": 10,
    "promise audits": 500,
    "restored promise audits": 100,
    "size audits": 20,
    "quiet checks": 80,
} | {answer.value: 8 for answer in ReleaseOutcome}
"""How often what happens at least, in the histories of the next test."""


def test_the_histories_meet_every_kind_of_trouble():
    """A history in which nothing goes wrong proves nothing."""
    met = Counter()
    for seed in range(FIXED_SEED, FIXED_SEED + 160):
        met += met_in(seed)

    assert {name: met[name] for name, count in FEW.items() if met[name] < count} == {}


def test_a_resize_without_a_promise_is_charged_even_if_the_pod_cannot_be_counted():
    """A quota appears while more resizes of an unlimited pod are under way than are promised."""
    assert run_history(UNCOUNTED_SEED, steps=40)["uncounted resizes"] > 0


def test_one_history_can_have_every_means_at_once():
    met = run_history(BUSY_SEED, steps=320)

    means = ("hold", "bank", "flip", "grow", "resizes sent late", "forged promises")
    spam = ("sizes", "names", "gates", "unreadable quotas", "deletions")
    faults = ("wall clock steps", "crashes", "leases lost", "restores")
    wanted = (*means, *(f"spam of {kind}" for kind in spam), *faults)
    assert {name for name in wanted if not met[name]} == set()
