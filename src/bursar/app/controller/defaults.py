"""Defaults of the controller's settings, for commands that do not run one."""

from typing import Final

WAITING_PODS_MAX: Final = 1_000
"""Pods of one namespace that may wait."""
