"""The seed of generated cases.

`make test` always has the same seed, so its result depends on the source alone. `make explore`
sets `BURSAR_SEED` to a new one, and so looks for cases that no one has thought of.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

FIXED_SEED = 20_260_417
SEED = int(os.environ.get("BURSAR_SEED") or FIXED_SEED)
IS_FIXED = SEED == FIXED_SEED


def one_quick(seeds: Iterable[int]) -> list[Any]:
    """The seeds as cases of a test. All but the first are marked as slow.

    `make check` runs the first one, `make test` runs all of them.
    """
    first, *others = seeds
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in others]
    return [pytest.param(first), *slow]
