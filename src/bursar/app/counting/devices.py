"""The counter of devices, ready for a controller or a view."""

from bursar.app.counting.feeds import CountingPart
from bursar.core.counting.device_settings import DeviceCounting


def device_parts(settings: DeviceCounting) -> tuple[CountingPart, ...]:
    """The part that counts devices; empty if the settings name no sources."""
    if not settings.sources:
        return ()
    # Imported here, because few installations count devices.
    from bursar.core.counting.devices import DeviceCounter  # noqa: PLC0415
    from bursar.wire.devices.facts import derive_devices  # noqa: PLC0415

    counter = DeviceCounter(settings, derive_devices(settings.sources))
    return (CountingPart(counter=counter),)
