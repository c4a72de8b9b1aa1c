"""Devices that several pods of a node hold although they cannot share them.

The PodResources API still shows all of these pods: one of them is right, and nothing tells which.
The conflict is reported as a problem of each pod.

A device plugin and a scheduler may use two resource names for one device. Ids are compared across
resource names only if their form makes them unique on the node: NVML UUIDs and PCI addresses. The
device `0` of one resource and the device `0` of another are different devices.
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
    quoted,
)
from bursar.core.devices.pod import CLAIM_PREFIX, DevicePod

KUBELET: Final = "kubelet"
STATUS: Final = "status"
OTHERS_NAMED_MAX: Final = 3

DeviceKey: TypeAlias = tuple[str, str]
"""Resource name and device id. The resource name is empty if the id is unique on the node."""

_UUID: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UNIQUE: Final = re.compile(
    rf"((GPU|MIG)-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+"
    r"|([0-9a-f]{4}|[0-9a-f]{8}):[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Hold:
    """The part of a device that one pod holds."""

    source: str
    share: int
    """Percent of the device. 0: a part of unknown size."""
    resource: str
    device: str


def device_key(resource: str, device: str) -> DeviceKey:
    """The key of a device, which is the same for all resource names and spellings of its id.

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
    """The holders of each device that one pod holds whole, or whose shares exceed 100 percent.

    A device that kubelet reports, or that is in the status of one of `pods`, is held whole unless
    its id has a share number. A pod with a virtual function or a partition is in conflict with a
    pod that holds the whole device. Parts of unknown size alone are never a conflict.
    """
    holds: dict[DeviceKey, dict[PodKey, Hold]] = {}
    live = [each for each in holdings if not each.has_ended]
    for pod, hold in chain(_from_status(pods), _from_kubelet(reported), _allocated(live)):
        holds.setdefault(device_key(hold.resource, hold.device), {})[pod] = hold
    for pod, hold in _parents(live):
        holds.setdefault(device_key(hold.resource, hold.device), {}).setdefault(pod, hold)
    return {
        device: dict(sorted(held.items()))
        for device, held in sorted(holds.items())
        if _is_too_much(held)
    }


def _from_status(pods: Iterable[DevicePod]) -> Iterator[tuple[PodKey, Hold]]:
    for pod in (each for each in pods if not each.is_terminal):
        for each in pod.status_devices:
            # Several pods may use one ResourceClaim, and so its devices.
            if not each.resource.startswith(CLAIM_PREFIX):
                yield pod.key, _whole(STATUS, each.resource, each.device)


def _from_kubelet(reported: Iterable[ReportedPod]) -> Iterator[tuple[PodKey, Hold]]:
    for pod in reported:
        for entry in (entry for container in pod.containers for entry in container.entries):
            for device in entry.devices:
                yield pod.key, _whole(KUBELET, entry.resource, device)


def _allocated(holdings: Iterable[Holdings]) -> Iterator[tuple[PodKey, Hold]]:
    for held in holdings:
        for each in held.allocations:
            yield held.key, Hold(each.source, each.share, each.resource, each.device)


def _parents(holdings: Iterable[Holdings]) -> Iterator[tuple[PodKey, Hold]]:
    for held in holdings:
        for each in (each for each in held.allocations if each.parent):
            yield held.key, Hold(each.source, 0, each.resource, each.parent)


def _whole(source: str, resource: str, device: str) -> Hold:
    bare = bare_id(device)
    return Hold(source, 100 if bare == device else 0, resource, bare)


def claimed_twice(
    holdings: Iterable[Holdings], reported: Iterable[ReportedPod] = ()
) -> dict[PodKey, tuple[Problem, ...]]:
    """The conflicts as problems of pods: one per pod and source, however many devices."""
    first: dict[tuple[PodKey, str], tuple[str, str]] = {}
    count: Counter[tuple[PodKey, str]] = Counter()
    for pods in contested(holdings, reported).values():
        by_namespace = _by_namespace(pods)
        for pod, hold in pods.items():
            count[pod, hold.source] += 1
            if count[pod, hold.source] == 1:
                text = f"{hold.resource} {quoted(hold.device)} is also held by "
                tenant = _holders_for_tenants(pod, by_namespace[pod[0]], total=len(pods))
                first[pod, hold.source] = text + other_holders(pod, pods), text + tenant
    problems: dict[PodKey, tuple[Problem, ...]] = {}
    for (pod, source), (text, tenant) in sorted(first.items()):
        more = count[pod, source] - 1
        rest = f"; and {more} more devices" if more else ""
        problem = Problem(
            kind=ProblemKind.CLAIMED_TWICE,
            source=source,
            text=text + rest,
            tenant_text=tenant + rest if tenant != text else "",
        )
        problems[pod] = (*problems.get(pod, ()), problem)
    return problems


def other_holders(pod: PodKey, pods: Mapping[PodKey, Hold]) -> str:
    """The holders of a device other than `pod`, in the order of `pods`; long lists are cut."""
    resource = pods[pod].resource
    # Thousands of pods may claim one device, so only the first few are formatted for each.
    others = [
        _holder(key, hold, resource)
        for key, hold in islice(pods.items(), OTHERS_NAMED_MAX + 1)
        if key != pod
    ]
    rest = len(pods) - 1 - OTHERS_NAMED_MAX
    return ", ".join(others[:OTHERS_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _holder(pod: PodKey, hold: Hold, resource: str) -> str:
    namespace, name = pod
    share = f"{hold.share} %" if hold.share else "a part"
    alias = f" as {hold.resource}" if hold.resource != resource else ""
    return f"{namespace}/{name} ({share}{alias})"


def _holders_for_tenants(pod: PodKey, same: Mapping[PodKey, Hold], *, total: int) -> str:
    """The other holders, without the names of pods outside the pod's own namespace."""
    parts = [other_holders(pod, same)] if len(same) > 1 else []
    outside = total - len(same)
    if outside:
        parts.append("a pod of another namespace" if outside == 1 else "pods of other namespaces")
    return " and ".join(parts)


def _by_namespace(pods: Mapping[PodKey, Hold]) -> dict[str, dict[PodKey, Hold]]:
    found: dict[str, dict[PodKey, Hold]] = {}
    for pod, hold in pods.items():
        found.setdefault(pod[0], {})[pod] = hold
    return found


def _is_too_much(pods: Mapping[PodKey, Hold]) -> bool:
    shares = [hold.share for hold in pods.values()]
    return len(shares) > 1 and (max(shares) == 100 or sum(shares) > 100)
