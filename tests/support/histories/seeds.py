"""Seeds of long simulations: the quick subset runs the first one, `make test` runs all of them."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_quick(seeds: Iterable[int]) -> list[Any]:
    """The seeds as cases of a test. All but the first are marked as slow."""
    first, *others = seeds
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in others]
    return [pytest.param(first), *slow]
