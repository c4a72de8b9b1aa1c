"""A whole pod as JSON, kept compressed, for counters that need more of a pod than a row holds."""

from typing import NamedTuple
from zlib import decompress


class PodBody(NamedTuple):
    """A pod without `managedFields`. `wire.counting.pod_body.keep_body` makes it."""

    packed: bytes
    size: int
    """Bytes of the JSON. A pod of a megabyte can be a few kilobytes when it is compressed."""

    def json(self) -> bytes:
        return decompress(self.packed)
