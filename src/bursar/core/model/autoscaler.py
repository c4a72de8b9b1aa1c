"""A HorizontalPodAutoscaler, as far as it says how many pods a workload may have."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    namespace: str
    name: str
    target_kind: str
    target_name: str
    minimum: int
    maximum: int
