"""The settings file of `--sources`: programs that record devices in pod annotations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bursar.app.bad_input import BadInputError
from bursar.core.devices.source import KOORDINATOR, Source

SOURCES_BYTES_MAX: Final = 1 << 20


def read_sources(path: str) -> Sequence[Source]:
    """Read the file; without a path, Koordinator is the only source. Raises `BadInputError`."""
    if not path:
        return (KOORDINATOR,)
    # The YAML parser takes memory, and most nodes have no settings file.
    from bursar.wire.devices.settings import decode_sources  # noqa: PLC0415

    try:
        with Path(path).open("rb") as file:
            text = file.read(SOURCES_BYTES_MAX + 1)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from None
    if len(text) > SOURCES_BYTES_MAX:
        raise BadInputError(f"{path}: larger than {SOURCES_BYTES_MAX} bytes")
    try:
        return decode_sources(text)
    except ValueError as error:
        raise BadInputError(f"{path}: {error}") from None
