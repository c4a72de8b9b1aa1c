"""A file with kubelet's List response as JSON."""

from contextlib import closing
from typing import Final

from bursar.adapters.files import sources
from bursar.adapters.files.manifests import ManifestError
from bursar.adapters.files.sources import SourceError
from bursar.core.devices.rows import Listing
from bursar.wire.devices.pod_resources.listing import BYTES_MAX, decode_listing_json
from bursar.wire.structs.fields import printable

NAME_LENGTH_MAX: Final = 1024


def read_listing(path: str) -> Listing:
    """Read what `bursar devices --socket PATH -o pod-resources` or grpcurl wrote.

    Raises `ManifestError`.
    """
    name = printable(path, NAME_LENGTH_MAX)
    try:
        with closing(sources.chunks_of_file(path, bytes_max=BYTES_MAX)) as chunks:
            return decode_listing_json(b"".join(chunks))
    except SourceError as error:
        raise ManifestError(f"{name}: {error.problem}") from None
    except ValueError as error:
        raise ManifestError(f"{name}: {error}") from None
