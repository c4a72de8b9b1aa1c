"""One pod of kubelet's answer: what it says, and the same pod with devices added.

Kubelet is asked again and again, and most pods are in its answer as they were before: to the byte,
or with their lines in another order, for kubelet has none. What was found out about such bytes,
and about such lines, is remembered.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Additions, ReportedContainer, ReportedPod
from bursar.wire.pod_resources import outline_pb2 as outline
from bursar.wire.pod_resources.lines import decode_line, encode_line
from bursar.wire.structs.interning import Generations

PODS_MAX: Final = 512
"""Pods whose lines are remembered at least; twice that at most. A node may have 250."""

BODIES_MAX: Final = 256
"""The same of pods to the byte. Of those whose lines change places each one is remembered anew."""

POD_BYTES_MAX: Final = 8192
"""Longer ones are read each time, so that what is remembered has a bound."""


_Lines: TypeAlias = tuple[str, str, tuple[tuple[str, frozenset[bytes]], ...]]
"""Namespace, name, and the lines of each container, in whichever order they came."""


@dataclass(slots=True)
class ToldPod:
    """What is known of a pod's lines."""

    reported: ReportedPod
    additions: Additions | None = None
    """What was added last."""
    added: dict[str, list[bytes]] = field(default_factory=dict)
    """The same as lines, by container."""


@dataclass(slots=True)
class SeenPod:
    """What is known of a pod's bytes; the rest is found out when somebody asks."""

    name: tuple[str, str]
    """Its namespace and name."""
    has_devices: bool
    told: ToldPod | None = None
    additions: Additions | None = None
    """What was added last, to give `enlarged`."""
    enlarged: bytes = b""


class Pods:
    """Reads and enlarges pods of one version of the API, and remembers them."""

    def __init__(self, *, has_topology: bool) -> None:
        self._has_topology = has_topology
        self._seen: Generations[bytes, SeenPod] = Generations(BODIES_MAX)
        self._told: Generations[_Lines, ToldPod] = Generations(PODS_MAX)

    def find(self, body: bytes) -> SeenPod | None:
        return self._seen.find(body)

    def meet(self, body: bytes, pod: outline.Pod) -> SeenPod:
        """Remember a pod that was opened for the first time."""
        seen = SeenPod(name=(pod.namespace, pod.name), has_devices=has_devices(pod))
        if len(body) <= POD_BYTES_MAX:
            self._seen.keep(body, seen)
        return seen

    def told(self, pod: outline.Pod) -> ToldPod:
        """What kubelet says of it. Raises `ValueError` for lines that cannot be read."""
        lines = tuple([(each.name, frozenset(each.devices)) for each in pod.containers])
        place: _Lines = pod.namespace, pod.name, lines
        told = self._told.find(place)
        if told is None:
            told = ToldPod(self._report(pod))
            if sum(map(len, (line for _, each in lines for line in each))) <= POD_BYTES_MAX:
                self._told.keep(place, told)
        return told

    def _report(self, pod: outline.Pod) -> ReportedPod:
        containers = [
            ReportedContainer(name=each.name, entries=tuple(map(decode_line, each.devices)))
            for each in pod.containers
        ]
        return ReportedPod(namespace=pod.namespace, name=pod.name, containers=tuple(containers))

    def enlarge(self, pod: outline.Pod, told: ToldPod, additions: Additions) -> bytes:
        """Add lines to the pod itself. Names of containers it does not have are passed over.

        Raises `ValueError` if its lines are to be put in order and cannot be read.
        """
        if told.additions is not additions:
            told.added = {
                name: [encode_line(entry, has_topology=self._has_topology) for entry in entries]
                for name, entries in additions.entries.items()
            }
            told.additions = additions
        for container in pod.containers:
            added = told.added.get(container.name)
            if added is None:
                continue
            container.devices.extend(added)
            if additions.sorts:
                ordered = sorted(container.devices, key=_resource)
                del container.devices[:]
                container.devices.extend(ordered)
        return pod.SerializeToString()


def _resource(line: bytes) -> bytes:
    # Go compares texts by their bytes.
    return decode_line(line).resource.encode()


def open_pod(body: bytes) -> outline.Pod:
    """Raises `ValueError` for bytes that are no pod."""
    try:
        return outline.Pod.FromString(body)
    except DecodeError:
        raise ValueError("not the resources of a pod") from None


def has_devices(pod: outline.Pod) -> bool:
    """Whether it has any, be they of a device plugin or of a claim."""
    return any(each.devices or each.dynamic_resources for each in pod.containers)
