"""The counter of devices, ready for a controller or a view."""

from bursar.app.counting.feeds import CountingPart
from bursar.core.counting.devices import DeviceCounter, DeviceCounting


def device_parts(settings: DeviceCounting) -> tuple[CountingPart, ...]:
    """No part if there are no sources."""
    if not settings.sources:
        return ()
    from bursar.wire.devices.facts import derive_devices  # noqa: PLC0415 - few count devices

    counter = DeviceCounter(settings, derive_devices(settings.sources))
    return (CountingPart(counter=counter),)
