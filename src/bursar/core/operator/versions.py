"""Whether an operator of one version may take over what another version has installed."""

import re
from enum import Enum
from typing import Final

_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(.*)")


class Step(Enum):
    """From the version that is installed to the operator's own."""

    FIRST = "first"
    """Nothing is installed yet."""
    SAME = "same"
    CHANGE = "change"
    """An upgrade, or a rollback that is allowed."""
    REFUSED = "refused"
    """A rollback by more than one minor version."""


def step(installed: str, own: str) -> Step:
    """Compare two versions.

    A rollback by one minor version is allowed, because objects of both versions work together for
    the time of an upgrade. A version that cannot be read counts as an upgrade, as in AAQ.

    >>> step("1.4.0", "1.3.2"), step("1.4.0", "1.2.0")
    (<Step.CHANGE: 'change'>, <Step.REFUSED: 'refused'>)
    """
    if not installed:
        return Step.FIRST
    if installed == own:
        return Step.SAME
    old, new = _VERSION.fullmatch(installed), _VERSION.fullmatch(own)
    if old is None or new is None:
        return Step.CHANGE
    old_major, old_minor = int(old[1]), int(old[2])
    new_major, new_minor = int(new[1]), int(new[2])
    if new_major != old_major:
        return Step.CHANGE if new_major > old_major else Step.REFUSED
    return Step.CHANGE if new_minor >= old_minor - 1 else Step.REFUSED
