"""Devices that several pods of a node hold, though they cannot.

All of them are still answered: kubelet's clients need the one that is right, and we do not know
which that is. But somebody should hear of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bursar.core.devices.allocation import (
    Holdings,
    PodKey,
    Problem,
    ProblemKind,
    ReportedPod,
    bare_id,
)
from bursar.core.devices.resolving import shown

KUBELET: Final = "kubelet"
OTHERS_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Hold:
    """What one pod has of a device."""

    source: str
    share: int
    """Percent; 0: a part of unknown size."""


def contested(
    holdings: Iterable[Holdings], reported: Iterable[ReportedPod] = ()
) -> dict[tuple[str, str], Mapping[PodKey, Hold]]:
    """By (resource, device): the pods that hold it, where one has it whole or all have too much.

    What kubelet reports is held whole, unless its id says that it is a share. Whoever has a
    virtual function or a partition stands in the way of one who has the whole device.
    """
    holds: dict[tuple[str, str], dict[PodKey, Hold]] = {}
    for pod in reported:
        for entry in (entry for container in pod.containers for entry in container.entries):
            for device in entry.devices:
                share = 100 if bare_id(device) == device else 0
                at = holds.setdefault((entry.resource, bare_id(device)), {})
                at[pod.key] = Hold(KUBELET, share)
    for given in (each for each in holdings if not each.is_over):
        for each in given.allocations:
            holds.setdefault((each.resource, each.device), {})[given.key] = Hold(
                each.source, each.share
            )
            if each.parent:
                at = holds.setdefault((each.resource, each.parent), {})
                at.setdefault(given.key, Hold(each.source, 0))
    return {
        device: dict(sorted(pods.items()))
        for device, pods in sorted(holds.items())
        if _is_too_much(pods)
    }


def claimed_twice(
    holdings: Iterable[Holdings], reported: Iterable[ReportedPod] = ()
) -> dict[PodKey, tuple[Problem, ...]]:
    """The same as problems of the pods concerned: one for each source, however many devices."""
    first: dict[tuple[PodKey, str], str] = {}
    count: Counter[tuple[PodKey, str]] = Counter()
    for (resource, device), pods in contested(holdings, reported).items():
        for pod, hold in pods.items():
            count[pod, hold.source] += 1
            if count[pod, hold.source] == 1:
                others = other_holders(pod, pods)
                text = f"{resource} {shown(device)} is also held by {others}"
                first[pod, hold.source] = text
    problems: dict[PodKey, tuple[Problem, ...]] = {}
    for (pod, source), text in sorted(first.items()):
        more = count[pod, source] - 1
        problem = Problem(
            kind=ProblemKind.CLAIMED_TWICE,
            source=source,
            text=text + (f"; and {more} more devices" if more else ""),
        )
        problems[pod] = (*problems.get(pod, ()), problem)
    return problems


def other_holders(pod: PodKey, pods: Mapping[PodKey, Hold]) -> str:
    """Those who hold a device besides one of them, in the order of `pods`."""
    # A great many pods may name one device: only the first few are looked at for each of them.
    others = [
        f"{namespace}/{name}" + (f" ({hold.share} %)" if hold.share else " (a part)")
        for (namespace, name), hold in islice(pods.items(), OTHERS_NAMED_MAX + 1)
        if (namespace, name) != pod
    ]
    rest = len(pods) - 1 - OTHERS_NAMED_MAX
    return ", ".join(others[:OTHERS_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _is_too_much(pods: Mapping[PodKey, Hold]) -> bool:
    shares = [hold.share for hold in pods.values()]
    return len(shares) > 1 and (max(shares) == 100 or sum(shares) > 100)
