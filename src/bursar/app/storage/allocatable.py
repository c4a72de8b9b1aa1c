"""What the kubelet lets pods use of its node's disk, from the Node object."""

from contextlib import suppress
from typing import Final

from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import Clock, ClusterError, Key, Reader
from bursar.core.model.names import EPHEMERAL_STORAGE
from bursar.wire.model.node import decode_node

REREAD_SECONDS: Final = 300.0


class NodeAllocatable:
    """Reads the Node object rarely: the kubelet changes the amount only when it restarts."""

    def __init__(self, reader: Reader, node: str, clock: Clock) -> None:
        self._reader, self._node, self._clock = reader, node, clock
        self._read_at_s = float("-inf")
        self._amount: int | None = None

    async def read(self) -> int | None:
        """The amount in bytes; None while it is not known. Raises nothing."""
        now = self._clock.monotonic()
        if now - self._read_at_s >= REREAD_SECONDS:
            self._read_at_s = now
            with suppress(ClusterError, ValueError):
                body = await self._reader.get(NODES, Key("", self._node))
                _, self._amount = allocatable_of(body)
        return self._amount


def allocatable_of(body: bytes) -> tuple[str, int | None]:
    """The name of a Node object, and the amount; None if it has none. Raises `ValueError`."""
    node = decode_node(body)
    amount = node.allocatable.get(EPHEMERAL_STORAGE)
    return node.name, None if amount is None else amount.whole_units
