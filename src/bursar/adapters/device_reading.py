"""How pods, inventories and the table of sources are read, for those who know no documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.source import KOORDINATOR, Source
from bursar.wire.device_inventory import decode_inventory
from bursar.wire.device_pod import DevicePodDecoder

SOURCES_BYTES_MAX: Final = 1 << 20


class SourcesFileError(Exception):
    """Why a table of sources cannot be used: one line that names the place."""


class DeviceReading:
    """One for the whole process: it remembers texts it has read."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources: Mapping[str, Source] = {each.name: each for each in sources}
        self._pods = DevicePodDecoder(self.sources.values())

    def pod(self, body: bytes) -> DevicePod:
        """Raises `ValueError`."""
        return self._pods.decode(body)

    def pods(self, body: bytes) -> Iterator[DevicePod]:
        """Of kubelet's list, one by one. Raises `ValueError`."""
        return self._pods.decode_list(body)

    def inventory(self, body: bytes) -> Inventory:
        """Raises `ValueError`."""
        return decode_inventory(body)


def read_sources(path: str) -> Sequence[Source]:
    """The table in a file; without one, Koordinator alone. Raises `SourcesFileError`."""
    if not path:
        return (KOORDINATOR,)
    # Most nodes have no file, and should not hold a YAML parser in memory for it.
    from bursar.wire.device_settings import decode_sources  # noqa: PLC0415

    try:
        with Path(path).open("rb") as file:
            text = file.read(SOURCES_BYTES_MAX + 1)
    except OSError as error:
        raise SourcesFileError(f"{path}: {error.strerror}") from None
    if len(text) > SOURCES_BYTES_MAX:
        raise SourcesFileError(f"{path}: larger than {SOURCES_BYTES_MAX} bytes")
    try:
        return decode_sources(text)
    except ValueError as error:
        raise SourcesFileError(f"{path}: {error}") from None
