"""What is added to kubelet's answers: one line for each device, as kubelet writes its own.

Kubelet's lines are never changed, moved or repeated.
"""

from collections.abc import Iterable, Mapping, Sequence

from bursar.core.devices.allocation import Additions, Entry, Holdings, ReportedPod, bare_id
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.source import Source

__all__ = ["additions", "allocatable_entries", "bare_id"]


def additions(holdings: Holdings, reported: ReportedPod) -> Additions | None:
    """What kubelet's answer about the pod lacks; None if nothing.

    A container that this version of the API does not list cannot be told of: what it has goes
    to the first app container.
    """
    if holdings.is_over or not holdings.allocations or not reported.containers:
        return None
    listed = [each.name for each in reported.containers]
    fallback = next((name for name in listed if name not in holdings.sidecars), listed[0])
    taken = {
        (entry.resource, bare_id(device))
        for container in reported.containers
        for entry in container.entries
        for device in entry.devices
    }
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
    """The healthy devices that kubelet does not list, by (resource, device).

    One that has virtual functions is listed by these, and itself while a pod holds it whole; one
    that is cut in partitions by those that are held, for no others are known. So of all that is
    healthy and held, nothing is missing.
    """
    rules = {
        kind: rule
        for source in sources.values()
        if source.is_inventoried
        for kind, rule in source.kinds.items()
    }
    parts: dict[tuple[str, str], set[str]] = {}
    for each in (
        each for holdings in held if not holdings.is_over for each in holdings.allocations
    ):
        parts.setdefault((each.kind, each.parent or each.device), set()).add(each.device)
    taken = {(entry.resource, bare_id(device)) for entry in already for device in entry.devices}
    lines: dict[tuple[str, str], Entry] = {}
    for device in inventory.devices:
        rule = rules.get(device.kind)
        if rule is None or not device.is_healthy:
            continue
        for each_id in _listed_ids(device, parts.get((device.kind, device.id), set())):
            key = rule.name_of(device=each_id, vendor=device.vendor), each_id
            if key not in taken:
                lines.setdefault(key, Entry(resource=key[0], devices=(each_id,), numa=device.numa))
    return tuple(lines[key] for key in sorted(lines))


def _listed_ids(device: Device, held: set[str]) -> set[str]:
    functions = {each.address for each in device.functions}
    # Whoever holds a partition has made the device one that nobody can have whole.
    is_cut = bool(held - functions - {device.id})
    whole = functions or (set() if is_cut else {device.id})
    return {each for each in whole | held if each}
