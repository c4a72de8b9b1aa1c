"""Which pod a name means, where several have it: an old one may still be leaving."""

from collections.abc import Iterable

from bursar.core.devices.allocation import PodKey
from bursar.core.devices.pod import DevicePod


def live_pods(pods: Iterable[DevicePod]) -> dict[PodKey, DevicePod]:
    """By namespace and name: the one that has not ended, is not leaving, is newest."""
    chosen: dict[PodKey, DevicePod] = {}
    for pod in pods:
        key = pod.namespace, pod.name
        other = chosen.get(key)
        if other is None or _rank(pod) > _rank(other):
            chosen[key] = pod
    return chosen


def _rank(pod: DevicePod) -> tuple[bool, bool, str, str]:
    return not pod.is_terminal, not pod.is_terminating, pod.created, pod.uid
