"""Options that say which devices quotas count, and their settings."""

from collections.abc import Mapping
from typing import Any, Final

import click

from bursar.cli.options import flag, path, together
from bursar.core.counting.device_settings import DeviceCounting

device_counting_options: Final = together(
    flag(
        "--count-devices",
        "Charge devices that pods request or were allocated, such as gpu/koordinator.",
    ),
    path(
        "--device-sources",
        "YAML file that lists the allocators that annotate pods. Default: Koordinator only.",
        "",
    ),
)


def device_counting_from(chosen: Mapping[str, Any]) -> DeviceCounting:
    """Settings of what the command receives. Raises `UsageError` or `BadInputError`."""
    file = chosen["device_sources"]
    if not chosen["count_devices"]:
        if file:
            raise click.UsageError("--device-sources has no effect without --count-devices")
        return DeviceCounting()
    from bursar.adapters.files.device_sources import read_sources  # noqa: PLC0415 - rarely needed

    try:
        return DeviceCounting(sources=tuple(read_sources(file)))
    except ValueError as error:
        raise click.UsageError(f"--device-sources: {error}") from None
