"""A line of devices, between kubelet's bytes and the core."""

from google.protobuf.message import DecodeError

from bursar.core.devices.allocation import Entry
from bursar.wire.pod_resources import v1_pb2 as v1


def decode_line(line: bytes) -> Entry:
    """Raises `ValueError`. Of several NUMA nodes the first is told; kubelet writes one."""
    try:
        raw = v1.ContainerDevices.FromString(line)
    except DecodeError:
        raise ValueError("not a line of devices") from None
    return Entry(
        resource=raw.resource_name,
        devices=tuple(raw.device_ids),
        numa=raw.topology.nodes[0].ID if raw.topology.nodes else None,
    )


def encode_line(entry: Entry, *, has_topology: bool = True) -> bytes:
    """`has_topology` of the version of the API, not of the device."""
    raw = v1.ContainerDevices(resource_name=entry.resource, device_ids=entry.devices)
    if has_topology and entry.numa is not None:
        # To kubelet's clients no topology and NUMA node 0 are different things.
        raw.topology.nodes.add(ID=entry.numa)
    return raw.SerializeToString()
