"""Random histories of a whole controller: informers, books, workers, statuses, copies and promises.

What happens is in `support/histories/controller`, what must hold in its `checks`. No pod is
released without room. When all faults have stopped, each status is right, `Ready` is true exactly
for limits that are in force, and no pod waits without a reason. Nothing is left of objects that are
gone.

`make histories OF=controller` runs as many as you like; see CONTRIBUTING.md.
"""

import os
from collections import Counter
from functools import cache

import pytest

from support.histories.controller.history import run_controller_history
from support.seeds import FIXED_SEED, SEED

pytestmark = pytest.mark.slow

BATCHES = 4
SEQUENCES = int(os.environ.get("BURSAR_SEQUENCES") or 32)


@cache
def met_in(seed: int) -> Counter[str]:
    """What happened in a history. Two tests are about the first ones of the fixed seed."""
    return run_controller_history(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_controller_is_right_whatever_happens(batch):
    """A failure names the history; `BURSAR_SEED` repeats all of them."""
    count = -(-SEQUENCES // BATCHES)
    print(f"BURSAR_SEED={SEED}")

    for seed in range(SEED + batch * count, SEED + (batch + 1) * count):
        assert met_in(seed)["empty"] == 1, f"history {seed} did not end"


FEW = {
    "releases": 20,
    "restart": 1,
    "replace_quota": 5,
    "delete_namespace": 1,
    "install_policies": 1,
    "resizes answered": 3,
    "ready True": 5,
    "ready False": 3,
    "waits for room": 3,
}
"""How often what happens at least, in the histories of the next test."""


def test_the_histories_meet_every_kind_of_trouble():
    """A history in which nothing goes wrong proves nothing."""
    met = Counter()
    for seed in range(FIXED_SEED, FIXED_SEED + 16):
        met += met_in(seed)

    assert {name: met[name] for name, count in FEW.items() if met[name] < count} == {}
