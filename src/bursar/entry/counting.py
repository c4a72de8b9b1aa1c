"""Which counters a controller or a view has, by its settings."""

from bursar.app.counting.devices import device_parts
from bursar.app.counting.feeds import Counting, CountingPart
from bursar.app.counting.kubevirt import kubevirt_part
from bursar.app.counting.peer_pods import peer_pod_parts
from bursar.app.counting.settings import CountingSettings


def open_counting(settings: CountingSettings) -> Counting:
    """Counters that know nothing yet. Each term of a controller has its own."""
    vms = kubevirt_part(settings.vmi_mode)
    parts: list[CountingPart] = [
        *(() if vms is None else (vms,)),
        *peer_pod_parts(settings.peer_pods),
        *device_parts(settings.devices),
    ]
    return Counting.of(parts)
