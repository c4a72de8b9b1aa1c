"""Whose usage the copies of cluster-wide quotas show: a setting of an installation."""

from collections.abc import Mapping
from enum import Enum

from bursar.app.names import APPLIED_QUOTAS_ANNOTATION


class AppliedUsage(Enum):
    """Of which namespaces a copy shows the usage."""

    OWN = "own"
    ALL = "all"

    @classmethod
    def of_aaq(cls, annotations: Mapping[str, str], default: "AppliedUsage") -> "AppliedUsage":
        """What the annotations of an AAQ object ask for. Raises `ValueError`."""
        text = annotations.get(APPLIED_QUOTAS_ANNOTATION, default.value)
        try:
            return cls(text)
        except ValueError:
            expected = " or ".join(each.value for each in cls)
            problem = f"annotation {APPLIED_QUOTAS_ANNOTATION}: {expected} is expected"
            raise ValueError(f"{problem}, not {text!r}") from None
