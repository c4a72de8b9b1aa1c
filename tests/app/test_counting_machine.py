"""Random histories of pods of VMs, pods that sidecars count, and other pods, under two quotas.

After each step the books hold what the counters say now, and the counter of VMs says what one says
that begins now. In the end each pod is counted, no pod waits that fits, and nothing is left of
objects that are gone. `make histories OF=counters` runs more of them.
"""

import os
from collections import Counter
from functools import cache

import pytest

from support.histories.counting.history import run_counting_history
from support.seeds import FIXED_SEED, SEED

pytestmark = pytest.mark.slow

BATCHES = 2
SEQUENCES = int(os.environ.get("BURSAR_SEQUENCES") or 40)


@cache
def met_in(seed: int) -> Counter[str]:
    """What happened in a history. Two tests are about the first ones of the fixed seed."""
    return run_counting_history(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_books_hold_what_counters_say_whatever_happens(batch):
    """A failure names the history; `BURSAR_SEED` repeats all of them."""
    count = -(-SEQUENCES // BATCHES)
    print(f"BURSAR_SEED={SEED}")

    for seed in range(SEED + batch * count, SEED + (batch + 1) * count):
        assert met_in(seed)["quiet checks"] == 1, f"history {seed} did not end"


FEW = {
    "releases": 30,
    "VMs": 500,
    "charges": 500,
    "not counted": 500,
    "change_leader": 5,
    "change_state": 5,
    "disconnect": 10,
    "fail": 20,
    "waits for room": 10,
}
"""How often what happens at least, in the histories of the next test."""


def test_the_histories_meet_every_kind_of_trouble():
    """A history in which nothing goes wrong proves nothing."""
    met = Counter()
    for seed in range(FIXED_SEED, FIXED_SEED + 30):
        met += met_in(seed)

    assert {name: met[name] for name, count in FEW.items() if met[name] < count} == {}
