"""Fixtures of several modules."""

import pytest

from support.builders.quota_books import counting_all_but, open_books


@pytest.fixture
def unready():
    """The names of pods that cannot be counted yet."""
    return set()


@pytest.fixture
def books(unready):
    return open_books(counting_all_but(unready))
