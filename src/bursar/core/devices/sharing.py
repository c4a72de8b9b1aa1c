"""Share numbers, so that clients can tell apart the pods that share a device.

NVIDIA's device plugin writes `GPU-…::2` for the third share, and its exporter makes the number
a label.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bursar.core.devices.allocation import Allocation, Holdings, PodKey
from bursar.core.devices.source import Source


def number_shares(
    holdings: Iterable[Holdings], sources: Mapping[str, Source]
) -> tuple[Holdings, ...]:
    """The holdings with a number for each share of a device: its pods are numbered by name."""
    everyone = tuple(holdings)
    sharers: dict[tuple[str, str], set[PodKey]] = {}
    for pod in everyone:
        for each in pod.allocations:
            if not pod.has_ended and _is_numbered(each, sources):
                sharers.setdefault((each.resource, each.device), set()).add(pod.key)
    ordinals = {
        (device, pod): number
        for device, pods in sharers.items()
        for number, pod in enumerate(sorted(pods))
    }
    return tuple(
        replace(
            pod,
            allocations=tuple(
                replace(each, ordinal=ordinals.get(((each.resource, each.device), pod.key)))
                if _is_numbered(each, sources)
                else each
                for each in pod.allocations
            ),
        )
        for pod in everyone
    )


def _is_numbered(each: Allocation, sources: Mapping[str, Source]) -> bool:
    return each.share < 100 and sources[each.source].kinds[each.kind].is_numbered
