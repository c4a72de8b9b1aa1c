"""What an examination finds, and how bad it is."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    OK = "ok"
    NOTE = "note"
    """Less than on the newest version, and nothing is wrong."""
    WARNING = "warning"
    PROBLEM = "problem"
    """Quotas are not enforced, or pods wait for ever."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    severity: Severity
    text: str
    advice: str = ""
    """What to do about it; empty if there is nothing to do."""
