"""Entries that are added to kubelet's responses: one for each device, as kubelet writes its own.

Kubelet's own entries are never changed, moved or repeated.
"""

from collections.abc import Iterable, Mapping, Sequence

from bursar.core.devices.allocation import Additions, Entry, Holdings, ReportedPod, bare_id
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.source import Source


def additions(holdings: Holdings, reported: ReportedPod) -> Additions | None:
    """The devices that kubelet's response about the pod lacks; None if it lacks nothing.

    If kubelet's response does not list a container, the container's devices are added to the
    first app container.
    """
    if holdings.has_ended or not holdings.allocations or not reported.containers:
        return None
    listed = [each.name for each in reported.containers]
    fallback = next((name for name in listed if name not in holdings.sidecars), listed[0])
    taken = _listed(entry for container in reported.containers for entry in container.entries)
    entries: dict[str, list[Entry]] = {}
    for key, container, entry in holdings.lines:
        if key not in taken:
            entries.setdefault(container if container in listed else fallback, []).append(entry)
    if not entries:
        return None
    return Additions(entries={name: tuple(lines) for name, lines in entries.items()})


def allocatable_entries(
    inventory: Inventory,
    sources: Mapping[str, Source],
    held: Iterable[Holdings],
    already: Sequence[Entry],
) -> tuple[Entry, ...]:
    """The healthy devices that kubelet does not list, sorted by resource and device.

    A device with virtual functions is listed by its functions, and by itself while a pod holds
    all of it. A partitioned device is listed by the partitions that pods hold; no others are
    known. So every healthy device that a pod holds is listed.
    """
    rules = {
        kind: rule
        for source in sources.values()
        if source.is_inventoried
        for kind, rule in source.kinds.items()
    }
    parts: dict[tuple[str, str], set[str]] = {}
    for each in (
        each for holdings in held if not holdings.has_ended for each in holdings.allocations
    ):
        parts.setdefault((each.kind, each.parent or each.device), set()).add(each.device)
    taken = _listed(already)
    lines: dict[tuple[str, str], Entry] = {}
    for device in inventory.devices:
        rule = rules.get(device.kind)
        if rule is None or not device.is_healthy:
            continue
        for each_id in _allocatable_ids(device, parts.get((device.kind, device.id), set())):
            key = rule.name_of(device=each_id, vendor=device.vendor), each_id
            if key not in taken:
                lines.setdefault(key, Entry(resource=key[0], devices=(each_id,), numa=device.numa))
    return tuple(lines[key] for key in sorted(lines))


def _listed(entries: Iterable[Entry]) -> set[tuple[str, str]]:
    return {(entry.resource, bare_id(device)) for entry in entries for device in entry.devices}


def _allocatable_ids(device: Device, held: set[str]) -> set[str]:
    functions = {each.address for each in device.functions}
    # While a pod holds a partition, no pod can get the whole device.
    is_partitioned = bool(held - functions - {device.id})
    whole = functions or (set() if is_partitioned else {device.id})
    return {each for each in whole | held if each}
