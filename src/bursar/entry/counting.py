"""Which counters a controller or a view has, by its settings."""

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.ports import Writer
from bursar.app.counting.devices import device_parts
from bursar.app.counting.feeds import Counting, CountingPart
from bursar.app.counting.kubevirt import kubevirt_part
from bursar.app.counting.peer_pods import peer_pod_parts
from bursar.app.counting.settings import CountingSettings
from bursar.app.counting.sidecars.settings import SidecarSettings


def open_counting(settings: CountingSettings, writer: Writer | None = None) -> Counting:
    """Counters that know nothing yet. Each term of a controller has its own.

    With a writer, counters report in the status of the objects that they are set up with.
    """
    vms = kubevirt_part(settings.vmi_mode)
    parts: list[CountingPart] = [
        *(() if settings.sidecars is None else (_sidecars(settings.sidecars),)),
        *(() if vms is None else (vms,)),
        *peer_pod_parts(settings.peer_pods),
        *device_parts(settings.devices),
    ]
    if settings.policies:
        # Only these settings take the language of expressions.
        from bursar.adapters.cel.language import open_language  # noqa: PLC0415
        from bursar.app.counting.policies import policy_part  # noqa: PLC0415

        parts.append(policy_part(open_language(), SYSTEM_CLOCK, writer))
    return Counting.of(parts)


def _sidecars(settings: SidecarSettings) -> CountingPart:
    from bursar.adapters.sidecars.open_sidecars import open_sidecars  # noqa: PLC0415 - brings gRPC

    return open_sidecars(settings, SYSTEM_CLOCK)
