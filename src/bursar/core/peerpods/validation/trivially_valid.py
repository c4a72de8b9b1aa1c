"""A quick check for pods whose resources are certainly valid.

Most peer pods pass it. Validating each of them by every rule of the API server would take as
long as the rest of a rewrite.
"""

from typing import Final

from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended
from bursar.core.model.pod import Pod, ResourceRequirements
from bursar.core.model.quantity import NANOS_PER_UNIT, Quantity

COUNT_NANOS_MAX: Final = 2**40 * NANOS_PER_UNIT
"""Larger counts of an extended resource need the full check: their 64-bit values may overflow."""

_MAY_BE_LESS_THAN_LIMIT: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


def is_trivially_valid(pod: Pod) -> bool:
    """Whether `validate_demand` would certainly find no problem in this pod.

    If this is false, the pod may still be valid: ask `validate_demand`.
    """
    if pod.claim_names or pod.resources is not None:
        return False
    return all(_are_valid(each.resources) for each in (*pod.init_containers, *pod.containers))


def _are_valid(resources: ResourceRequirements) -> bool:
    requests, limits = resources.requests, resources.limits
    if resources.claims:
        return False
    for name, limit in limits.items():
        if limit.nanos < 0 or not (name in _MAY_BE_LESS_THAN_LIMIT or _is_count(name, limit)):
            return False
    for name, request in requests.items():
        bound = limits.get(name)
        if name not in _MAY_BE_LESS_THAN_LIMIT:
            if bound != request:
                return False
        elif request.nanos < 0 or (bound is not None and bound < request):
            return False
    return True


def _is_count(name: str, amount: Quantity) -> bool:
    """Whether this is a whole number of an extended resource."""
    return (
        amount.nanos <= COUNT_NANOS_MAX and amount.nanos % NANOS_PER_UNIT == 0 and is_extended(name)
    )
