"""Devices that several pods of a node hold, though they cannot.

All of them are still answered: kubelet's clients need the one that is right, and we do not know
which that is. But somebody should hear of it.

One device may be known by two names of a resource, to a device plugin by one and to a scheduler by
another. Ids are compared across names only where their form makes them the only ones of the
node: NVML's UUIDs and addresses on the PCI bus. The device `0` of one resource and the device `0`
of another have nothing in common.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, TypeAlias

from bursar.core.devices.allocation import (
    Holdings,
    PodKey,
    Problem,
    ProblemKind,
    ReportedPod,
    bare_id,
)
from bursar.core.devices.pod import CLAIM_PREFIX, DevicePod
from bursar.core.devices.resolving import shown

KUBELET: Final = "kubelet"
STATUS: Final = "status"
OTHERS_NAMED_MAX: Final = 3

DeviceKey: TypeAlias = tuple[str, str]
"""The name of the resource, empty if the id alone tells, and the id."""

_UUID: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UNIQUE: Final = re.compile(
    rf"((GPU|MIG)-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+"
    r"|([0-9a-f]{4}|[0-9a-f]{8}):[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Hold:
    """What one pod has of a device."""

    source: str
    share: int
    """Percent; 0: a part of unknown size."""
    resource: str
    device: str


def device_key(resource: str, device: str) -> DeviceKey:
    """What is the same for all names of one device.

    >>> device_key("intel.com/sriov", "0000:1F:00.2")
    ('', '0000:1f:00.2')
    >>> device_key("example.com/card", "0")
    ('example.com/card', '0')
    """
    return ("", device.lower()) if _UNIQUE.fullmatch(device) else (resource, device)


def contested(
    holdings: Iterable[Holdings],
    reported: Iterable[ReportedPod] = (),
    pods: Iterable[DevicePod] = (),
) -> dict[DeviceKey, Mapping[PodKey, Hold]]:
    """The pods that hold a device, where one has it whole or all have too much.

    What kubelet reports, or has written to the status of one of `pods`, is held whole, unless its
    id says that it is a share. Whoever has a virtual function or a partition stands in the way of
    one who has the whole device. Parts of unknown size alone are never too much.
    """
    holds: dict[DeviceKey, dict[PodKey, Hold]] = {}
    live = [each for each in holdings if not each.is_over]
    for pod, hold in chain(_stated(pods), _reported(reported), _given(live)):
        holds.setdefault(device_key(hold.resource, hold.device), {})[pod] = hold
    for pod, hold in _parents(live):
        holds.setdefault(device_key(hold.resource, hold.device), {}).setdefault(pod, hold)
    return {
        device: dict(sorted(held.items()))
        for device, held in sorted(holds.items())
        if _is_too_much(held)
    }


def _stated(pods: Iterable[DevicePod]) -> Iterator[tuple[PodKey, Hold]]:
    for pod in (each for each in pods if not each.is_terminal):
        for each in pod.stated:
            # Pods may have a claim, and so what it gave, in common.
            if not each.resource.startswith(CLAIM_PREFIX):
                yield (pod.namespace, pod.name), _whole(STATUS, each.resource, each.device)


def _reported(reported: Iterable[ReportedPod]) -> Iterator[tuple[PodKey, Hold]]:
    for pod in reported:
        for entry in (entry for container in pod.containers for entry in container.entries):
            for device in entry.devices:
                yield pod.key, _whole(KUBELET, entry.resource, device)


def _given(holdings: Iterable[Holdings]) -> Iterator[tuple[PodKey, Hold]]:
    for given in holdings:
        for each in given.allocations:
            yield given.key, Hold(each.source, each.share, each.resource, each.device)


def _parents(holdings: Iterable[Holdings]) -> Iterator[tuple[PodKey, Hold]]:
    for given in holdings:
        for each in (each for each in given.allocations if each.parent):
            yield given.key, Hold(each.source, 0, each.resource, each.parent)


def _whole(source: str, resource: str, device: str) -> Hold:
    bare = bare_id(device)
    return Hold(source, 100 if bare == device else 0, resource, bare)


def claimed_twice(
    holdings: Iterable[Holdings], reported: Iterable[ReportedPod] = ()
) -> dict[PodKey, tuple[Problem, ...]]:
    """The same as problems of the pods concerned: one for each source, however many devices."""
    first: dict[tuple[PodKey, str], tuple[str, str]] = {}
    count: Counter[tuple[PodKey, str]] = Counter()
    for pods in contested(holdings, reported).values():
        by_namespace = _by_namespace(pods)
        for pod, hold in pods.items():
            count[pod, hold.source] += 1
            if count[pod, hold.source] == 1:
                text = f"{hold.resource} {shown(hold.device)} is also held by "
                told = _told_holders(pod, by_namespace[pod[0]], total=len(pods))
                first[pod, hold.source] = text + other_holders(pod, pods), text + told
    problems: dict[PodKey, tuple[Problem, ...]] = {}
    for (pod, source), (text, told) in sorted(first.items()):
        more = count[pod, source] - 1
        rest = f"; and {more} more devices" if more else ""
        problem = Problem(
            kind=ProblemKind.CLAIMED_TWICE,
            source=source,
            text=text + rest,
            told_text=told + rest if told != text else "",
        )
        problems[pod] = (*problems.get(pod, ()), problem)
    return problems


def other_holders(pod: PodKey, pods: Mapping[PodKey, Hold]) -> str:
    """Those who hold a device besides one of them, in the order of `pods`."""
    resource = pods[pod].resource
    # A great many pods may name one device: only the first few are looked at for each of them.
    others = [
        _holder(key, hold, resource)
        for key, hold in islice(pods.items(), OTHERS_NAMED_MAX + 1)
        if key != pod
    ]
    rest = len(pods) - 1 - OTHERS_NAMED_MAX
    return ", ".join(others[:OTHERS_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _holder(pod: PodKey, hold: Hold, resource: str) -> str:
    namespace, name = pod
    how = f"{hold.share} %" if hold.share else "a part"
    name_of_it = f" as {hold.resource}" if hold.resource != resource else ""
    return f"{namespace}/{name} ({how}{name_of_it})"


def _told_holders(pod: PodKey, known: Mapping[PodKey, Hold], *, total: int) -> str:
    """The same for those who see one namespace, and are to learn no names of another."""
    parts = [other_holders(pod, known)] if len(known) > 1 else []
    strangers = total - len(known)
    if strangers:
        parts.append("a pod of another namespace" if strangers == 1 else "pods of other namespaces")
    return " and ".join(parts)


def _by_namespace(pods: Mapping[PodKey, Hold]) -> dict[str, dict[PodKey, Hold]]:
    found: dict[str, dict[PodKey, Hold]] = {}
    for pod, hold in pods.items():
        found.setdefault(pod[0], {})[pod] = hold
    return found


def _is_too_much(pods: Mapping[PodKey, Hold]) -> bool:
    shares = [hold.share for hold in pods.values()]
    return len(shares) > 1 and (max(shares) == 100 or sum(shares) > 100)
