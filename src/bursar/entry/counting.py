"""Which counters a controller or a view has, by its settings."""

from bursar.app.counting.devices import device_parts
from bursar.app.counting.feeds import Counting, CountingPart
from bursar.app.counting.peer_pods import peer_pod_parts
from bursar.app.counting.settings import CountingSettings


def open_counting(settings: CountingSettings) -> Counting:
    """Counters that know nothing yet. Each term of a controller has its own."""
    parts: list[CountingPart] = [
        *peer_pod_parts(settings.peer_pods),
        *device_parts(settings.devices),
    ]
    return Counting.of(parts)
