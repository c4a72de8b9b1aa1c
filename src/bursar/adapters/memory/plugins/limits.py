"""A cluster that enforces LimitRanges and ResourceQuotas, as every API server does."""

import random
from collections.abc import Sequence

from bursar.adapters.memory.admission import Admission
from bursar.adapters.memory.plugins.limit_ranges import LimitRanger
from bursar.adapters.memory.plugins.resource_quotas import ResourceQuotaAdmission
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.ports import Clock


def cluster_with_limits(
    clock: Clock,
    *,
    source: random.Random,
    mutating: Sequence[Admission] = (),
    validating: Sequence[Admission] = (),
) -> MemoryCluster:
    """A cluster that runs LimitRanges before other plugins and ResourceQuotas last, as upstream."""
    ranges, quotas = LimitRanger(), ResourceQuotaAdmission()
    cluster = MemoryCluster(
        clock,
        source=source,
        mutating=(ranges.set_defaults, *mutating),
        validating=(ranges.check, *validating, quotas.check),
    )
    ranges.reader = quotas.cluster = cluster
    return cluster
