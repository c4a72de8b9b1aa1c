"""A line of devices, between kubelet's bytes and the core.

Kubelet answers with thousands of lines, in a new order each time, but nearly all of them
were in its answer before. Both directions remember what they have translated.
"""

from typing import Final

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Entry
from bursar.wire.interning import Generations
from bursar.wire.pod_resources import v1_pb2 as v1

LINES_MAX: Final = 4096
"""Lines remembered at least; twice that at most. A node with 250 pods may have 2500 of them."""

LINE_BYTES_MAX: Final = 512
"""Longer ones are translated each time, so that what is remembered has a bound."""


class Lines:
    """Reads and writes lines of one version of the API."""

    def __init__(self, *, has_topology: bool) -> None:
        self._has_topology = has_topology
        self._read: Generations[bytes, Entry] = Generations(LINES_MAX)
        self._written: Generations[tuple[str, tuple[str, ...], int | None], bytes] = Generations(
            LINES_MAX
        )

    def decode(self, line: bytes) -> Entry:
        """Raises `ValueError`. Of several NUMA nodes the first is told; kubelet writes one."""
        entry = self._read.find(line)
        if entry is None:
            entry = _entry(line)
            if len(line) <= LINE_BYTES_MAX:
                self._read.keep(line, entry)
        return entry

    def encode(self, entry: Entry) -> bytes:
        place = (entry.resource, entry.devices, entry.numa if self._has_topology else None)
        line = self._written.find(place)
        if line is None:
            line = _line(*place)
            if len(line) <= LINE_BYTES_MAX:
                self._written.keep(place, line)
        return line


def _entry(line: bytes) -> Entry:
    try:
        raw = v1.ContainerDevices.FromString(line)
    except DecodeError:
        raise ValueError("not a line of devices") from None
    return Entry(
        resource=raw.resource_name,
        devices=tuple(raw.device_ids),
        numa=raw.topology.nodes[0].ID if raw.topology.nodes else None,
    )


def _line(resource: str, devices: tuple[str, ...], numa: int | None) -> bytes:
    raw = v1.ContainerDevices(resource_name=resource, device_ids=devices)
    if numa is not None:
        # To kubelet's clients no topology and NUMA node 0 are different things.
        raw.topology.nodes.add(ID=numa)
    return raw.SerializeToString()
