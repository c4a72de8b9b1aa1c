"""How an installation counts pods: the settings of every counter."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingSettings:
    """The default counts every pod natively."""
