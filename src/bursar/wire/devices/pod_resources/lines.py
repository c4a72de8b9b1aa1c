"""One `ContainerDevices` message of the PodResources API, to and from the core."""

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Entry
from bursar.wire.devices.pod_resources import v1_pb2 as v1


def decode_line(line: bytes) -> Entry:
    """Decode one message. Raises `ValueError`."""
    try:
        return entry_of(v1.ContainerDevices.FromString(line))
    except DecodeError:
        raise ValueError("not a line of devices") from None


def entry_of(raw: v1.ContainerDevices) -> Entry:
    """The entry of a message. Kubelet writes one NUMA node; of several the first is used."""
    nodes = raw.topology.nodes
    return Entry(
        resource=raw.resource_name,
        devices=tuple(raw.device_ids),
        numa=nodes[0].ID if nodes else None,
    )


def encode_line(entry: Entry, *, has_topology: bool = True) -> bytes:
    """Encode one message. `has_topology` says whether the version of the API has that field."""
    raw = v1.ContainerDevices(resource_name=entry.resource, device_ids=entry.devices)
    if has_topology and entry.numa is not None:
        # For kubelet's clients, no topology and NUMA node 0 are different.
        raw.topology.nodes.add(ID=entry.numa)
    return raw.SerializeToString()
